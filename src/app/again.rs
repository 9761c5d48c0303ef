//! Commands in an advice, made so that they look at the same target when they are pasted.
//!
//! The rules know no command line: they say `pglockwatch check --key 612001`. Here that gets the options with which
//! this process was told where the target is.

use crate::analysis::report::TargetReport;

/// Adds the target's words to each command that verifies.
pub(super) fn complete(report: &mut TargetReport, words: &str) {
    if words.is_empty() {
        return;
    }
    let words = words.into();
    for finding in &mut report.findings {
        finding.advice.complete(&words);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::fixture::example;
    use crate::rules::advice::VERIFY;

    #[test]
    fn only_the_command_that_verifies_is_completed() {
        let mut report = example();
        let steps = &mut report.findings[0].advice.steps;
        *steps = vec!["Ask somebody.".to_owned(), format!("{VERIFY}pglockwatch check --key 612001")];
        complete(&mut report, " -d 'host=db1 user=mon'");
        let steps = &report.findings[0].advice.steps;
        assert_eq!(steps[0], "Ask somebody.");
        assert_eq!(steps[1], format!("{VERIFY}pglockwatch check --key 612001 -d 'host=db1 user=mon'"));
    }
}
