//! A rule's page on a terminal: our own markdown, made easy to read there.
//!
//! It knows the little markdown that the pages use: headings, paragraphs, lists and fenced blocks. Words are wrapped,
//! blocks stay as they are, so that a statement can be copied.

use std::fmt::Write as _;

use super::style::{self, Paint, Screen};

/// The widest that prose gets: longer lines are hard to read.
const COLUMNS: usize = 80;

/// The page as text.
pub fn render(page: &str, screen: Screen) -> String {
    let width = screen.width.unwrap_or(COLUMNS).clamp(20, COLUMNS);
    let mut text = String::with_capacity(page.len() + page.len() / 8);
    let mut paragraph = Paragraph::default();
    let mut in_block = false;
    for line in page.lines() {
        if line.trim_start().starts_with("```") {
            paragraph.flush(&mut text, width);
            in_block = !in_block;
        } else if in_block {
            let _ = writeln!(text, "{}", format!("    {line}").trim_end());
        } else if let Some(title) = line.strip_prefix("# ") {
            paragraph.flush(&mut text, width);
            let _ = writeln!(text, "{}\n{}", screen.paint(Paint::Strong, title), "=".repeat(style::width(title)));
        } else if let Some(title) = line.strip_prefix("## ") {
            paragraph.flush(&mut text, width);
            let _ = writeln!(text, "{}", screen.paint(Paint::Strong, title));
        } else if line.trim().is_empty() {
            paragraph.flush(&mut text, width);
            text.push('\n');
        } else {
            if begins_item(line) {
                paragraph.flush(&mut text, width);
            }
            paragraph.push(line);
        }
    }
    paragraph.flush(&mut text, width);
    text
}

fn begins_item(line: &str) -> bool {
    mark(line).is_some()
}

/// The mark of a list item: `- ` or `1. `.
fn mark(line: &str) -> Option<&str> {
    if line.starts_with("- ") {
        return line.get(..2);
    }
    let digits = line.bytes().take_while(u8::is_ascii_digit).count();
    (digits > 0 && line.get(digits..)?.starts_with(". ")).then(|| line.get(..digits + 2)).flatten()
}

/// Lines of the source that belong to one paragraph or item.
#[derive(Debug, Default)]
struct Paragraph {
    words: String,
}

impl Paragraph {
    fn push(&mut self, line: &str) {
        if !self.words.is_empty() {
            self.words.push(' ');
        }
        self.words.push_str(line.trim());
    }

    fn flush(&mut self, text: &mut String, width: usize) {
        let words = std::mem::take(&mut self.words).replace('`', "");
        if words.is_empty() {
            return;
        }
        let mark = mark(&words).unwrap_or_default();
        let indent = 2 + mark.len();
        for (place, line) in style::wrap(&words[mark.len()..], width - indent).iter().enumerate() {
            let mark = if place == 0 { mark } else { "" };
            let _ = writeln!(text, "{mark:>indent$}{line}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_wrapped_and_blocks_stay() {
        let page = "# a-rule\n\n## Meaning\n\nOne two `three`\nfour.\n\n1. first step that is long enough to wrap\n2. second\n\n```sql\nSELECT 1   AS a_name_that_is_longer_than_the_width;\n```\n";
        let text = render(page, Screen { color: false, width: Some(30), height: None });
        assert_eq!(
            text,
            "a-rule\n======\n\nMeaning\n\n  One two three four.\n\n  1. first step that is long\n     enough to wrap\n  \
             2. second\n\n    SELECT 1   AS a_name_that_is_longer_than_the_width;\n"
        );
    }
}
