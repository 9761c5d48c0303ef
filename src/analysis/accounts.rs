//! Sessions by their account: the database and the role.
//!
//! Knows backends and what they do; knows no lock and no threshold.

use std::cmp::Reverse;
use std::collections::HashMap;

use crate::model::{Backend, BackendState};

/// See [`Observed::colleagues`](super::Observed::colleagues).
#[derive(Debug, Clone, Default)]
pub(crate) struct Accounts {
    /// For each account the places of its client sessions whose state is to be seen: those that work first.
    places: Vec<Vec<usize>>,
    /// The account of each backend.
    accounts: Vec<usize>,
}

impl Accounts {
    /// The accounts of these backends.
    pub fn of(backends: &[Backend]) -> Self {
        let mut known: HashMap<(Option<&str>, Option<&str>), usize> = HashMap::new();
        let mut all = Self::default();
        for (place, backend) in backends.iter().enumerate() {
            let account =
                *known.entry((backend.database.as_deref(), backend.user.as_deref())).or_insert(all.places.len());
            if account == all.places.len() {
                all.places.push(Vec::new());
            }
            all.accounts.push(account);
            if backend.is_client() && !backend.is_hidden() {
                all.places[account].push(place);
            }
        }
        for places in &mut all.places {
            places.sort_by_key(|&place| {
                let backend = &backends[place];
                match backend.state {
                    Some(BackendState::Idle) => (1, Reverse(backend.state_change)),
                    Some(_) => (0, Reverse(None)),
                    None => (2, Reverse(None)),
                }
            });
        }
        all
    }

    /// The places of all sessions of the account that the backend at this place has.
    pub fn of_account(&self, place: usize) -> &[usize] {
        self.accounts.get(place).map_or(&[], |&account| &self.places[account])
    }
}
