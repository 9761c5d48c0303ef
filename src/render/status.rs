//! The one word that a whole look comes down to: `status` in JSON, the first word of the plugin line, the exit code.

use crate::analysis::report::{Finding, Severity, TargetReport};

/// The outcome of a look at all targets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Status {
    /// Nothing is wrong.
    Ok,
    /// At least one warning, and nothing worse.
    Warning,
    /// At least one critical finding.
    Critical,
    /// A target could not be looked at, or holders could not be judged.
    Unknown,
}

impl Status {
    /// Critical first; then a target that could not be looked at, for its findings may be worse than any warning;
    /// then warnings; then holders that could not be judged.
    pub fn of(reports: &[TargetReport]) -> Self {
        let any = |severity| reports.iter().flat_map(counted).any(|finding| finding.severity == severity);
        if any(Severity::Critical) {
            Self::Critical
        } else if reports.iter().any(|report| report.failure.is_some()) {
            Self::Unknown
        } else if any(Severity::Warning) {
            Self::Warning
        } else if any(Severity::Unknown) {
            Self::Unknown
        } else {
            Self::Ok
        }
    }

    /// The name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warning => "warning",
            Self::Critical => "critical",
            Self::Unknown => "unknown",
        }
    }
}

/// Whether a finding counts for anything: it is not silenced and more than information.
pub fn counts(finding: &Finding) -> bool {
    finding.silenced.is_none() && finding.severity != Severity::Info
}

/// The findings of a target that count, worst first.
pub fn counted(report: &TargetReport) -> impl Iterator<Item = &Finding> {
    report.findings.iter().filter(|finding| counts(finding))
}
