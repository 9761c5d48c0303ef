//! A screen in a document: a command that was typed and what it printed, and whether it still prints that.
//!
//! Pids, times and ages may differ, and where lines are wrapped. `...` stands for anything, on a line of its own for
//! any number of lines.

use regex::Regex;

use super::markdown::Block;

/// A command and its output.
pub struct Screen {
    /// What was typed, without the prompt.
    pub command: String,
    /// What was printed.
    pub output: String,
    /// The line of the command in the document.
    pub line: usize,
}

impl Screen {
    /// The block's screen. A block has one.
    pub fn of(block: &Block) -> Self {
        let (first, output) = block.text.split_once('\n').unwrap_or((&block.text, ""));
        let command = first.strip_prefix("$ ").unwrap_or_else(|| panic!("line {}: no `$ ` in front", block.line));
        assert!(!output.contains("\n$ "), "line {}: two commands in one block", block.line);
        Self { command: command.to_owned(), output: output.to_owned(), line: block.line }
    }

    /// Whether this is what was printed.
    pub fn shows(&self, printed: &str) -> bool {
        pattern(&self.output).is_match(&plain(printed))
    }
}

fn pattern(output: &str) -> Regex {
    const LINES: &str = "\u{1}";
    const WITHIN: &str = "\u{2}";
    let marked: Vec<String> = output
        .lines()
        .map(|line| if line.trim() == "..." { LINES.to_owned() } else { line.replace("...", WITHIN) })
        .collect();
    let escaped = regex::escape(&plain(&marked.join("\n")));
    // Blanks beside a gap belong to the gap.
    let gaps = Regex::new("( ?)[\u{1}\u{2}]( ?)").unwrap();
    let pattern = gaps.replace_all(&escaped, ".*");
    Regex::new(&format!("^{pattern}$")).unwrap()
}

/// Without what differs from run to run, and with one blank wherever there is white space.
fn plain(text: &str) -> String {
    let mut text = text.to_owned();
    for (what, instead) in [
        (r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z|\+00)?", "TIME"),
        (r"\d\d:\d\d:\d\d", "TIME"),
        (r"\bpids? \d+(, \d+)*", "PID"),
        (r"(?m)^\s+\d{2,7}$", " PID"),
        (r"\b\d+ +([\w-]+ as \w)", "PID $1"),
        (r"\b\d+ s ago\b", "AGE"),
        (r"\b\d+(\.\d+)? ms\b", "AGE"),
        (r"\b(\d+(\.\d+)?[dhms])+\b", "AGE"),
        (r"\b\d+\.\d+\b", "NUMBER"),
        (r"\s+", " "),
    ] {
        text = Regex::new(what).unwrap().replace_all(&text, instead).into_owned();
    }
    text.trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shows(output: &str, printed: &str) -> bool {
        Screen { command: String::new(), output: output.to_owned(), line: 1 }.shows(printed)
    }

    #[test]
    fn what_varies_may_vary_and_nothing_else() {
        let printed = "held >= 2h3m by pid 77; idle 0.3s\nseen 11:12:13, in 8.0 ms\n";
        assert!(shows("held >= 4.5s by pid 4711; idle 1m29s\nseen 09:00:00, in 12 ms\n", printed));
        assert!(shows("held >= 4.5s by\npid 4711; idle 1m29s seen 09:00:00, in 12 ms\n", printed));
        assert!(!shows("held >= 4.5s by pid 4711; busy 1m29s\nseen 09:00:00, in 12 ms\n", printed));
        assert!(!shows("held >= 4.5s by pid 4711; idle 1m29s\n", printed));
    }

    #[test]
    fn gaps_are_within_a_line_or_whole_lines() {
        assert!(shows("a\n...\nd\n", "a\nb\nc\nd\n"));
        assert!(shows("a ... d\n", "a b c d\n"));
        assert!(shows("...\n", "a\n"));
        assert!(!shows("a\n...\nd\n", "a\nb\nc\nd\ne\n"));
        assert!(!shows("b\n...\nd\n", "a\nb\nc\nd\n"));
    }
}
