//! `[[silence]]`: which known problem of the dictionary covers a finding.
//!
//! Pure. A silence whose last day has passed, by the server's clock, covers nothing.

use crate::keys::{Globs, Name, Silence};
use crate::model::{AdvisoryKey, Backend, SharedText};
use crate::rules::{Context, Draft};

/// The reason of the first silence that covers this finding. `names` says the names of a key of the draft.
pub fn silenced<'a>(
    context: &Context<'_>,
    draft: &Draft,
    names: &impl Fn(&AdvisoryKey) -> &'a [Name],
) -> Option<String> {
    let covers = |silence: &&std::sync::Arc<Silence>| covers(context, silence, draft, names);
    context.book.silences().iter().find(covers).map(|silence| silence.reason.clone())
}

fn covers<'a>(
    context: &Context<'_>,
    silence: &Silence,
    draft: &Draft,
    names: &impl Fn(&AdvisoryKey) -> &'a [Name],
) -> bool {
    let today = context.observed.snapshot.sampled_at.date_naive();
    if silence.until.is_some_and(|until| until < today) {
        return false;
    }
    let rule = silence.rules.is_empty() || silence.rules.iter().any(|rule| rule == draft.rule);
    rule && covers_keys(context, silence, draft, names) && covers_sessions(context, silence, draft)
}

/// Keys and names must cover every key of the finding; a finding without keys is not covered by them.
fn covers_keys<'a>(
    context: &Context<'_>,
    silence: &Silence,
    draft: &Draft,
    names: &impl Fn(&AdvisoryKey) -> &'a [Name],
) -> bool {
    let has_keys = !draft.keys.is_empty() || !draft.key_texts.is_empty();
    let by_key = silence.keys.is_empty()
        || (has_keys
            && draft.keys.iter().all(|lock| silence.keys.contains(&lock.numbers))
            && draft
                .key_texts
                .iter()
                .all(|text| silence.keys.iter().any(|numbers| crate::keys::key::text(*numbers) == *text)));
    let listed = |name: &str| silence.names.iter().any(|known| known == name);
    // A key that nobody holds is known by its entry alone: holder-count.
    let by_entry = || match &draft.subject {
        crate::rules::Subject::Entry(entry) => listed(entry),
        _ => false,
    };
    // A lease has no key; its table has a name.
    let by_lease = || match &draft.subject {
        crate::rules::Subject::Lease { lease, .. } => listed(lease),
        _ => false,
    };
    let by_name = silence.names.is_empty()
        || (!draft.keys.is_empty() && draft.keys.iter().all(|key| names(key).iter().any(|name| listed(&name.name))))
        || (draft.keys.is_empty() && (by_entry() || by_lease()));
    let by_database = silence.databases.is_empty()
        || (!draft.keys.is_empty()
            && draft.keys.iter().all(|lock| {
                context
                    .observed
                    .snapshot
                    .server
                    .database_name(lock.database)
                    .is_some_and(|database| silence.databases.matches(database))
            }));
    by_key && by_name && by_database
}

/// Applications and users must cover every session of the finding; a prepared transaction has a user only. A finding
/// about the target itself is about no session.
fn covers_sessions(context: &Context<'_>, silence: &Silence, draft: &Draft) -> bool {
    if draft.subject == crate::rules::Subject::Target {
        return silence.applications.is_empty() && silence.users.is_empty();
    }
    let backends = || draft.pids.iter().map(|&pid| context.backend(pid));
    let all = |globs: &Globs, text: &dyn Fn(&Backend) -> Option<SharedText>| {
        globs.is_empty()
            || (!draft.pids.is_empty()
                && backends().all(|backend| backend.and_then(text).is_some_and(|text| globs.matches(&text))))
    };
    let owner_matches = || {
        let owner = draft
            .gid
            .as_ref()
            .and_then(|gid| context.observed.snapshot.prepared.iter().find(|prepared| prepared.gid == *gid));
        draft.pids.is_empty() && owner.is_some_and(|prepared| silence.users.matches(&prepared.owner))
    };
    all(&silence.applications, &|backend| Some(backend.application.clone()))
        && (all(&silence.users, &|backend| backend.user.clone()) || owner_matches())
}
