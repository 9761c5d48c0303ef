//! What to do about a finding: the wording, and the guarded statements.

use super::{Context, Draft};
use crate::analysis::report::Advice;

/// The advice for a draft: steps, the guarded statement, caveats, how to verify and how to prevent it.
pub fn advise(_context: &Context<'_>, draft: &Draft) -> Advice {
    Advice { action: draft.action, steps: Vec::new(), sql: None, caveats: Vec::new(), prevent: Vec::new() }
}
