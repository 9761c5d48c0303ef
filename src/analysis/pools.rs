//! Client pools: sessions that share database, user, application group and client address.
//!
//! Knows backends and who of them holds or waits; knows no threshold.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use regex::Regex;

use super::report::PoolReport;
use crate::model::{Backend, BackendState, Pid, SharedText, Texts};

/// How an `application_name` becomes an application group.
#[derive(Debug, Clone, Default)]
pub struct Grouping {
    regex: Option<Regex>,
}

impl Grouping {
    /// The config's own rule: the group is what the first capture group matches, or the whole match where there is
    /// none; a name that does not match stays as it is.
    pub fn by_regex(regex: Regex) -> Self {
        Self { regex: Some(regex) }
    }

    /// The application group: a trailing `[...]` is dropped and every run of digits becomes `#`, or as the config's
    /// regex says.
    pub fn group(&self, application: &str) -> String {
        if let Some(regex) = &self.regex {
            let captures = regex.captures(application);
            let part = captures.as_ref().and_then(|captures| captures.get(1).or_else(|| captures.get(0)));
            return part.map_or(application, |part| part.as_str()).to_owned();
        }
        let mut kept = application.trim_end();
        if kept.ends_with(']')
            && let Some(open) = kept.rfind('[')
        {
            kept = kept[..open].trim_end();
        }
        let mut group = String::with_capacity(kept.len());
        let mut in_digits = false;
        for c in kept.chars() {
            let digit = c.is_ascii_digit();
            if !digit {
                group.push(c);
            } else if !in_digits {
                group.push('#');
            }
            in_digits = digit;
        }
        group
    }
}

/// One pool and its sessions.
pub(super) type Pool = (PoolReport, Vec<Pid>);

/// The application group of each of these backends.
pub(super) fn groups(backends: &[Backend], grouping: &Grouping) -> Vec<SharedText> {
    let mut known: HashMap<&SharedText, SharedText> = HashMap::new();
    let mut texts = Texts::default();
    let mut group = |application| {
        known.entry(application).or_insert_with_key(|application| texts.of(&grouping.group(application))).clone()
    };
    backends.iter().map(|backend| group(&backend.application)).collect()
}

/// How many application groups connect from each address; sessions without a name are of none.
pub(super) fn applications_at(backends: &[Backend], groups: &[SharedText]) -> HashMap<SharedText, usize> {
    let mut found: HashMap<&SharedText, BTreeSet<&str>> = HashMap::new();
    for (backend, group) in backends.iter().zip(groups) {
        if let Some(address) = &backend.client_addr
            && !group.is_empty()
        {
            found.entry(address).or_default().insert(group);
        }
    }
    found.into_iter().map(|(address, groups)| (address.clone(), groups.len())).collect()
}

/// The pools of these backends, those with locks first, then by size, then by name.
pub(super) fn pools(
    backends: &[Backend],
    groups: &[SharedText],
    holding: &BTreeSet<Pid>,
    waiting: &BTreeSet<Pid>,
) -> Vec<Pool> {
    let mut pools: BTreeMap<_, Pool> = BTreeMap::new();
    for (backend, group) in backends.iter().zip(groups).filter(|(backend, _)| backend.is_client()) {
        let key = (&backend.database, &backend.user, group, &backend.client_addr);
        let (report, pids) = pools.entry(key).or_insert_with(|| {
            let report = PoolReport {
                database: backend.database.clone(),
                user: backend.user.clone(),
                application: group.clone(),
                client_addr: backend.client_addr.clone(),
                sessions: 0,
                active: 0,
                idle: 0,
                idle_in_transaction: 0,
                holding: 0,
                waiting: 0,
            };
            (report, Vec::new())
        });
        report.sessions += 1;
        match backend.state {
            Some(BackendState::Active | BackendState::Fastpath) => report.active += 1,
            Some(BackendState::Idle) => report.idle += 1,
            Some(BackendState::IdleInTransaction | BackendState::IdleInTransactionAborted) => {
                report.idle_in_transaction += 1;
            }
            Some(BackendState::Disabled) | None => {}
        }
        report.holding += usize::from(holding.contains(&backend.pid));
        report.waiting += usize::from(waiting.contains(&backend.pid));
        pids.push(backend.pid);
    }
    let mut pools: Vec<Pool> = pools.into_values().collect();
    for (_, pids) in &mut pools {
        pids.sort_unstable();
    }
    pools.sort_by_key(|(report, _)| std::cmp::Reverse((report.holding + report.waiting, report.sessions)));
    pools
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_and_a_trailing_bracket_do_not_make_a_group() {
        let rule = Grouping::default();
        assert_eq!(rule.group("good_job worker 3"), "good_job worker #");
        assert_eq!(rule.group("puma: cluster worker 12: 4711 [shop]"), "puma: cluster worker #: #");
        assert_eq!(rule.group("[x]"), "");
        assert_eq!(rule.group("a]"), "a]");
        assert_eq!(rule.group("日本12"), "日本#");
    }

    #[test]
    fn the_configs_regex_replaces_the_rule() {
        let rule = Grouping::by_regex(Regex::new("^([a-z]+)-").unwrap());
        assert_eq!(rule.group("api-5f7c9"), "api");
        assert_eq!(rule.group("API 7"), "API 7");
    }
}
