//! `runbook`: what on-call should do now about each finding, or the pages of the rules.
//!
//! The pure part: who polls hands in the reports. For pages no server is needed.

use crate::analysis::report::TargetReport;
use crate::cli::runbook::RunbookFormat;
use crate::render::runbook::{self, Selection};
use crate::render::style::Screen;
use crate::render::{runbook_markdown, runbook_page};
use crate::rules::{ALL, pages};

/// The findings of these reports that are wanted, with what to do about each.
pub fn render(reports: &[TargetReport], selection: &Selection, format: RunbookFormat, screen: Screen) -> String {
    match format {
        RunbookFormat::Text => runbook::render(reports, selection, screen),
        RunbookFormat::Markdown => runbook_markdown::render(reports, selection),
    }
}

/// The page of a rule.
///
/// # Errors
/// A sentence that lists the rules, where there is none of this name.
pub fn page(rule: &str, format: RunbookFormat, screen: Screen) -> Result<String, String> {
    let page = pages::page(rule).ok_or_else(|| {
        let names: Vec<&str> = ALL.iter().map(|rule| rule.name()).collect();
        let close = names.iter().find(|name| name.starts_with(rule) || name.contains(rule)).filter(|_| rule.len() > 2);
        let hint = close.map(|name| format!(" Do you mean {name}?")).unwrap_or_default();
        format!("there is no rule of that name.{hint} The rules are: {}.", names.join(", "))
    })?;
    Ok(one(page, format, screen))
}

/// The pages of all rules, in the order in which they judge.
pub fn all_pages(format: RunbookFormat, screen: Screen) -> String {
    let pages: Vec<String> =
        ALL.iter().filter_map(|rule| pages::page(rule.name())).map(|page| one(page, format, screen)).collect();
    pages.join("\n")
}

fn one(page: &str, format: RunbookFormat, screen: Screen) -> String {
    match format {
        RunbookFormat::Text => runbook_page::render(page, screen),
        RunbookFormat::Markdown => page.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_rule_is_answered_with_the_rules_there_are() {
        let error = page("idle", RunbookFormat::Text, Screen::default()).unwrap_err();
        assert!(error.contains("Do you mean idle-holder?") && error.contains("standby-lock"), "{error}");
        let error = page("x", RunbookFormat::Text, Screen::default()).unwrap_err();
        assert!(!error.contains("Do you mean"), "{error}");
    }

    #[test]
    fn all_pages_are_there_in_both_formats() {
        for format in [RunbookFormat::Text, RunbookFormat::Markdown] {
            let text = all_pages(format, Screen::default());
            for rule in ALL {
                assert!(text.contains(rule.name()), "{}", rule.name());
            }
            assert_eq!(text.matches("Mitigation\n").count(), ALL.len());
        }
    }
}
