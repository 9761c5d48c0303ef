//! Colours and attributes. Only what every terminal has, on dark and on light: the default foreground and background,
//! the named colours, bold, dim and reverse. Colour repeats what a word or a sign already says.

use ratatui::style::{Color, Modifier, Style};

use crate::analysis::report::Severity;

/// Whether there are colours. Attributes stay without them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Theme {
    /// Use the named colours.
    pub color: bool,
}

/// Nothing special.
pub const PLAIN: Style = Style::new();
/// Stands out.
pub const BOLD: Style = Style::new().add_modifier(Modifier::BOLD);
/// Steps back.
pub const DIM: Style = Style::new().add_modifier(Modifier::DIM);
/// The selected row, the open view.
pub const SELECTED: Style = Style::new().add_modifier(Modifier::REVERSED);

impl Theme {
    fn colored(self, color: Color, without: Style) -> Style {
        if self.color { without.fg(color) } else { without }
    }

    /// A word on a ground of its own: readable whatever the terminal's background is.
    pub fn badge(self, severity: Severity) -> Style {
        let (ground, text, without) = match severity {
            Severity::Critical => (Color::Red, Color::White, BOLD.add_modifier(Modifier::REVERSED)),
            Severity::Warning => (Color::Yellow, Color::Black, BOLD),
            Severity::Unknown => (Color::Magenta, Color::White, BOLD),
            Severity::Info => (Color::Cyan, Color::Black, PLAIN),
        };
        if self.color { BOLD.fg(text).bg(ground) } else { without }
    }

    /// Holding, in bars.
    pub fn holding(self) -> Style {
        self.colored(Color::Red, BOLD)
    }

    /// Waiting, in bars and trees.
    pub fn waiting(self) -> Style {
        self.colored(Color::Magenta, PLAIN)
    }

    /// Working.
    pub fn working(self) -> Style {
        self.colored(Color::Green, PLAIN)
    }

    /// What may be typed.
    pub fn key(self) -> Style {
        self.colored(Color::Cyan, BOLD)
    }

    /// All is well.
    pub fn good(self) -> Style {
        self.colored(Color::Green, PLAIN)
    }
}
