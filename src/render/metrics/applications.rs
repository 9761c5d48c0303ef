//! Which application groups have a label of their own.
//!
//! Application names are chosen by strangers, and some carry a job's or a host's name. So the first 50 groups of a
//! target keep their label for as long as they have sessions and an hour longer; whoever comes later is `other`.

use std::borrow::Cow;
use std::collections::HashMap;
use std::time::Duration;

use super::labels::OTHER;
use crate::render::style::safe;

/// So many groups have a label.
pub(super) const MOST: usize = 50;

/// So long a group without sessions keeps its label.
const KEPT: Duration = Duration::from_secs(60 * 60);

/// The groups of one target that have a label.
#[derive(Debug, Default, Clone)]
pub struct Applications {
    /// When each last had a session.
    seen: HashMap<String, Duration>,
}

impl Applications {
    /// Takes in the groups that have sessions now, the more important ones first.
    pub(super) fn observe<'a>(&mut self, groups: impl Iterator<Item = &'a str>, now: Duration) {
        let mut newcomers = Vec::new();
        for group in groups {
            match self.seen.get_mut(group) {
                Some(seen) => *seen = now,
                None => newcomers.push(group),
            }
        }
        self.seen.retain(|_, seen| now.saturating_sub(*seen) <= KEPT);
        for group in newcomers {
            if self.seen.len() < MOST {
                self.seen.insert(group.to_owned(), now);
            }
        }
    }

    /// The label of a group.
    pub(super) fn label<'a>(&self, group: &'a str) -> Cow<'a, str> {
        if self.seen.contains_key(group) { safe(group) } else { Cow::Borrowed(OTHER) }
    }
}
