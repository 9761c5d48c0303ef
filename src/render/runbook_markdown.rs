//! The runbook as markdown, to paste into an incident.
//!
//! What strangers chose is escaped or stands in a code block whose fence is longer than any run of backticks in it:
//! no name can become a heading, a link, HTML or the end of a block. CommonMark 0.31 with GitHub's tables and strikes.

use std::fmt::Write as _;

use super::runbook::{Selection, chosen, preface};
use super::runbook_facts::{self, Body, Index, Section, Step};
use super::style;
use crate::analysis::report::{Finding, TargetReport};

/// The whole runbook.
pub fn render(reports: &[TargetReport], selection: &Selection) -> String {
    let mut text = String::from("# pglockwatch runbook\n");
    for sentence in reports.iter().flat_map(|report| preface(report, selection)) {
        let _ = write!(text, "\n{}\n", escape(&sentence));
    }
    let indexes: Vec<Index<'_>> = reports.iter().map(Index::new).collect();
    for (index, finding) in chosen(&indexes, selection) {
        push_entry(&mut text, index, finding);
    }
    text
}

fn push_entry(text: &mut String, index: &Index<'_>, finding: &Finding) {
    let report = index.report;
    let word = match finding.silenced {
        Some(_) => "SILENCED".to_owned(),
        None => finding.severity.name().to_uppercase(),
    };
    let _ = write!(text, "\n## {word} {}: {}", finding.rule, escape(&report.target));
    if let Some(database) = &finding.database {
        let _ = write!(text, " / {}", escape(database));
    }
    text.push('\n');
    let keys = runbook_facts::keys(finding);
    if !keys.is_empty() {
        text.push('\n');
        push_list(text, &keys);
    }
    if let Some(reason) = &finding.silenced {
        let _ = write!(text, "\nSilenced, not counted: {}\n", escape(reason));
    }
    if let Some(at) = report.sampled_at {
        let _ = write!(text, "\nSeen {} UTC.\n", at.format("%Y-%m-%d %H:%M:%S"));
    }
    for section in runbook_facts::sections(index, finding) {
        push_section(text, &section);
    }
}

fn push_section(text: &mut String, section: &Section) {
    text.truncate(text.trim_end().len());
    let _ = write!(text, "\n\n### {}\n\n", section.title);
    match &section.body {
        Body::Prose(sentences) => {
            let _ = writeln!(text, "{}", escape(&sentences.join(" ")));
        }
        Body::List(items) => push_list(text, items),
        Body::Steps(steps, sql) => {
            for (place, step) in steps.iter().enumerate() {
                push_step(text, place + 1, step);
            }
            if let Some(sql) = sql {
                text.push('\n');
                push_block(text, sql.lines(), "sql", 0);
            }
        }
        Body::Commands(commands) => push_block(text, commands.iter().map(String::as_str), "", 0),
    }
}

fn push_list(text: &mut String, items: &[String]) {
    for item in items {
        let _ = writeln!(text, "- {}", escape(item));
    }
}

fn push_step(text: &mut String, number: usize, step: &Step) {
    let mark = format!("{number}. ");
    let _ = writeln!(text, "{mark}{}", escape(&step.text));
    match step.commands.as_slice() {
        [] => {}
        [link] if is_link(link) => {
            let _ = write!(text, "\n{:indent$}<{link}>\n\n", "", indent = mark.len());
        }
        commands => {
            text.push('\n');
            push_block(text, commands.iter().map(String::as_str), "", mark.len());
            text.push('\n');
        }
    }
}

/// A fenced block. Its lines are ours, with strangers' texts as SQL literals: one line each, nothing invisible.
fn push_block<'a>(text: &mut String, lines: impl Iterator<Item = &'a str> + Clone, language: &str, indent: usize) {
    let longest = lines.clone().map(longest_run).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    let _ = writeln!(text, "{:indent$}{fence}{language}", "");
    for line in lines {
        let _ = writeln!(text, "{:indent$}{line}", "");
    }
    let _ = writeln!(text, "{:indent$}{fence}", "");
}

/// The longest run of backticks.
fn longest_run(text: &str) -> usize {
    text.split(|c| c != '`').map(str::len).max().unwrap_or(0)
}

/// A text in which nothing is markup, not even an address: a stranger may have chosen it.
fn escape(text: &str) -> String {
    let safe = style::safe(text);
    let words: Vec<String> = safe.split(' ').enumerate().map(|(place, word)| escape_word(word, place == 0)).collect();
    words.join(" ")
}

fn escape_word(word: &str, first: bool) -> String {
    let mut escaped = String::with_capacity(word.len() + 8);
    for (place, (at, c)) in word.char_indices().enumerate() {
        let begins_block = first && place == 0 && matches!(c, '-' | '+' | '=' | ':');
        // `1.` and `1)` begin a list, but only as the whole first word.
        let numbered = first
            && matches!(c, '.' | ')')
            && at + 1 == word.len()
            && word.chars().take(place).all(|before| before.is_ascii_digit());
        // `://` would make a bare address a link.
        let address = c == ':' && word.split_at_checked(at + 1).is_some_and(|(_, rest)| rest.starts_with("//"));
        if begins_block
            || numbered
            || address
            || matches!(c, '\\' | '`' | '*' | '_' | '[' | ']' | '#' | '|' | '~' | '!' | '$')
        {
            escaped.push('\\');
        }
        match c {
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '&' => escaped.push_str("&amp;"),
            c => escaped.push(c),
        }
    }
    escaped
}

/// An http or https address of plain characters, and nothing else.
fn is_link(word: &str) -> bool {
    let rest = word.strip_prefix("https://").or_else(|| word.strip_prefix("http://"));
    rest.is_some_and(|rest| {
        rest.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '[')
            && rest.chars().all(|c| c.is_ascii_alphanumeric() || "-._~/?#[]@!$&'()*+,;=%:".contains(c))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_become_markup() {
        assert_eq!(escape("# a"), "\\# a");
        assert_eq!(escape("1. a"), "1\\. a");
        assert_eq!(escape("pid 4711."), "pid 4711.");
        assert_eq!(escape("127.0.0.1:5432"), "127.0.0.1:5432");
        assert_eq!(escape("<script>alert(1)</script>"), "&lt;script&gt;alert(1)&lt;/script&gt;");
        assert_eq!(escape("[x](javascript:alert(1))"), "\\[x\\](javascript:alert(1))");
        assert_eq!(escape("a\n# b"), "a\\\\n\\# b");
        assert_eq!(escape("```"), "\\`\\`\\`");
    }

    #[test]
    fn only_what_the_dictionary_links_to_is_a_link() {
        assert_eq!(escape("see https://evil.example"), "see https\\://evil.example");
        let step = |link: &str| {
            let mut text = String::new();
            push_step(&mut text, 1, &Step { text: "Read:".to_owned(), commands: vec![link.to_owned()] });
            text
        };
        assert_eq!(step("https://wiki.example/a_b"), "1. Read:\n\n   <https://wiki.example/a_b>\n\n");
        assert!(step("javascript:alert(1)").contains("```"));
        assert!(step("https://x/\"><script>").contains("```"));
    }

    #[test]
    fn a_fence_is_longer_than_what_it_holds() {
        let mut text = String::new();
        push_block(&mut text, "SELECT '````'".lines(), "sql", 3);
        assert_eq!(text, "   `````sql\n   SELECT '````'\n   `````\n");
    }
}
