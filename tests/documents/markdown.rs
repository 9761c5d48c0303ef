//! What a markdown document is made of, as far as the tests want to know: fenced blocks, tables, links.

use std::path::{Path, PathBuf};

/// A document of the project.
pub struct Document {
    /// Where it is.
    pub path: PathBuf,
    /// What it says.
    pub text: String,
}

/// A fenced block.
#[derive(Debug, Clone)]
pub struct Block {
    /// What it calls itself: `sql`, `toml`, `console`.
    pub language: String,
    /// Its lines.
    pub text: String,
    /// The line of its first line in the document, from 1.
    pub line: usize,
}

impl Document {
    /// The document of that name, in the project's folder.
    pub fn read(name: &str) -> Self {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
        let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        Self { path, text }
    }

    /// All documents in the project's folder.
    pub fn all() -> Vec<Self> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
        let mut paths: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        paths.retain(|path| path.extension().is_some_and(|extension| extension == "md"));
        paths.sort();
        paths.iter().map(|path| Self::read(path.file_name().unwrap().to_str().unwrap())).collect()
    }

    /// Its blocks of that language.
    pub fn blocks(&self, language: &str) -> Vec<Block> {
        blocks(&self.text).into_iter().filter(|block| block.language == language).collect()
    }

    /// The first cells of the table whose head begins with this cell.
    pub fn first_cells(&self, head: &str) -> Vec<String> {
        let cell = |line: &str| line.trim_start_matches('|').split('|').next().unwrap_or_default().trim().to_owned();
        self.text
            .lines()
            .skip_while(|line| !(line.starts_with('|') && cell(line) == head))
            .skip(2)
            .take_while(|line| line.starts_with('|'))
            .map(cell)
            .collect()
    }

    /// Where its links lead to.
    pub fn links(&self) -> Vec<String> {
        self.text
            .split("](")
            .skip(1)
            .filter_map(|rest| rest.split_once(')'))
            .map(|(target, _)| target.to_owned())
            .collect()
    }

    /// The anchors of its headings, as GitHub makes them.
    pub fn anchors(&self) -> Vec<String> {
        self.text
            .lines()
            .filter(|line| line.starts_with('#'))
            .map(|line| line.trim_start_matches('#').trim().to_lowercase())
            .map(|title| title.replace(' ', "-").chars().filter(|c| c.is_alphanumeric() || "-_".contains(*c)).collect())
            .collect()
    }

    /// All that stands in backticks within a line, outside of blocks.
    pub fn code_spans(&self) -> Vec<String> {
        let mut inside = false;
        let mut spans = Vec::new();
        for line in self.text.lines() {
            if line.trim_start().starts_with("```") {
                inside = !inside;
            } else if !inside {
                spans.extend(line.split('`').skip(1).step_by(2).map(str::to_owned));
            }
        }
        spans
    }
}

/// The fenced blocks of a text.
pub fn blocks(text: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut open: Option<Block> = None;
    for (number, line) in text.lines().enumerate() {
        match (line.strip_prefix("```"), &mut open) {
            (Some(language), None) => {
                open = Some(Block { language: language.to_owned(), text: String::new(), line: number + 2 });
            }
            (Some(_), Some(_)) => blocks.extend(open.take()),
            (None, Some(block)) => {
                block.text.push_str(line);
                block.text.push('\n');
            }
            (None, None) => {}
        }
    }
    assert!(open.is_none(), "a block is not closed");
    blocks
}
