//! `hidden-sessions`: locks are held by sessions whose state we may not see. Blind is not clean.

use super::{Context, Draft, Rule, Subject, words};
use crate::analysis::report::{Action, Severity};
use crate::analysis::{Hold, HolderRef};
use crate::model::Backend;
use crate::quote;

/// See the module.
#[derive(Debug)]
pub struct HiddenSessions;

/// Holders whose state we may not see. Expected ones and extensions' are not judged anyway.
pub fn hidden_holders(context: &Context<'_>) -> Vec<HolderRef> {
    context
        .observed
        .holders()
        .filter(|holder| match holder {
            HolderRef::Session(pid) => context.backend(*pid).is_some_and(Backend::is_hidden),
            HolderRef::Prepared(_) => false,
        })
        .filter(|holder| !context.judged_holds(*holder).is_empty())
        .collect()
}

impl Rule for HiddenSessions {
    fn name(&self) -> &'static str {
        "hidden-sessions"
    }

    fn judge(&self, context: &Context<'_>, _before: &[Draft]) -> Vec<Draft> {
        let hidden = hidden_holders(context);
        if hidden.is_empty() {
            return Vec::new();
        }
        let holds: Vec<&Hold> = hidden.iter().flat_map(|&holder| context.judged_holds(holder)).collect();
        let server = &context.observed.snapshot.server;
        let backends: Vec<&Backend> = hidden
            .iter()
            .filter_map(|holder| match holder {
                HolderRef::Session(pid) => context.backend(*pid),
                HolderRef::Prepared(_) => None,
            })
            .collect();
        // A session without activity tracking shows when it connected; one that we may not see does not.
        let forbidden = backends.iter().filter(|backend| backend.backend_start.is_none()).count();
        let lent = backends.iter().find(|backend| backend.lent_to_us);
        let action = if forbidden == 0 { Action::Investigate } else { Action::Grant };
        let mut draft = Draft::new(self.name(), Subject::Target, Severity::Unknown, action).with_holds(&holds);
        draft.held = None;
        for &holder in &hidden {
            draft = draft.with_holder(context, holder);
        }
        let judged = context.observed.holders().filter(|&holder| !context.judged_holds(holder).is_empty()).count();
        draft.summary = format!("{} of {} cannot be judged.", hidden.len(), words::count(judged, "holder", "holders"));
        if forbidden > 0 {
            draft.detail.push(format!(
                "Role {} may not see other roles' sessions. Run as a superuser{}:  GRANT pg_monitor TO {};",
                server.role,
                if server.in_recovery { " on the primary" } else { "" },
                quote::identifier(&server.role)
            ));
        }
        if let Some(lent) = lent {
            draft.detail.push(format!(
                "A pooler lent us pid {}, with a lock that somebody left on it: we cannot see how long it has rested. \
                 Name the server directly.",
                lent.pid
            ));
        }
        let untracked =
            backends.iter().filter(|backend| backend.backend_start.is_some() && !backend.lent_to_us).count();
        if untracked > 0 {
            let sessions = words::count(untracked, "session", "sessions");
            draft.detail.push(format!("track_activities is off in {sessions}: no state is reported there."));
        }
        vec![draft]
    }
}
