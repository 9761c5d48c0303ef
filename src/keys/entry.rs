//! What the dictionary says: entries for keys, for holders, and silences; and the names a key has.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use super::presets::DatabaseFormula;
use super::{Globs, key};
use crate::model::KeyNumbers;

/// What a lock is for. It decides how long a hold is normal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Kind {
    /// A short critical section. The default.
    #[default]
    Mutex,
    /// A job that runs for up to 15 minutes, if the entry does not say otherwise.
    Job,
    /// A schema migration of up to one hour, if the entry does not say otherwise.
    Migration,
    /// One of several processes leads and holds the lock for as long as it lives.
    Leader,
    /// A process registers itself for as long as it lives.
    Registration,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Self; 5] = [Self::Mutex, Self::Job, Self::Migration, Self::Leader, Self::Registration];

    /// The name in the dictionary and in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Mutex => "mutex",
            Self::Job => "job",
            Self::Migration => "migration",
            Self::Leader => "leader",
            Self::Registration => "registration",
        }
    }

    /// The kind of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// The longest normal hold of this kind, where it has one.
    pub fn default_max_hold(self) -> Option<Duration> {
        match self {
            Self::Job => Some(Duration::from_secs(15 * 60)),
            Self::Migration => Some(Duration::from_secs(60 * 60)),
            Self::Mutex | Self::Leader | Self::Registration => None,
        }
    }

    /// Held for as long as a process lives.
    pub fn is_long_lived(self) -> bool {
        matches!(self, Self::Leader | Self::Registration)
    }
}

/// How a lock is meant to be taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scope {
    /// `pg_advisory_lock` and its kind: held until unlocked or disconnected.
    Session,
    /// `pg_advisory_xact_lock` and its kind: held until the transaction ends.
    Transaction,
}

impl Scope {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Session, Self::Transaction];

    /// The name in the dictionary.
    pub fn name(self) -> &'static str {
        match self {
            Self::Session => "session",
            Self::Transaction => "transaction",
        }
    }
}

/// How many holders there should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CountRange(pub RangeInclusive<u32>);

/// Which keys an entry names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Matcher {
    /// Exactly this key.
    Exact(KeyNumbers),
    /// Each of these keys: a preset whose software itself has several spellings (golang-migrate).
    OneOf(Vec<KeyNumbers>),
    /// Every two-int4 key with this first number.
    Class(i32),
    /// Every bigint key in this range.
    Range(RangeInclusive<i64>),
    /// A preset over the name of the lock's own database (as Rails computes it): one key per database.
    PerDatabase(DatabaseFormula),
}

impl Matcher {
    /// The keys that it names one by one; none for a class, a range or a formula.
    pub fn exact(&self) -> &[KeyNumbers] {
        match self {
            Self::Exact(key) => std::slice::from_ref(key),
            Self::OneOf(keys) => keys,
            Self::Class(_) | Self::Range(_) | Self::PerDatabase(_) => &[],
        }
    }

    /// What it names, as text: `612001`, `(2,*)`, `1000..1999`, or the preset and that it depends on the database.
    pub fn text(&self) -> String {
        match self {
            Self::Exact(key) => key::text(*key),
            Self::OneOf(keys) => keys.iter().map(|key| key::text(*key)).collect::<Vec<_>>().join(" or "),
            Self::Class(class) => format!("({class},*)"),
            Self::Range(range) => format!("{}..{}", range.start(), range.end()),
            Self::PerDatabase(formula) => format!("{} of each database", formula.preset()),
        }
    }
}

/// One `[[key]]` of the dictionary.
#[derive(Debug, Clone)]
pub struct Entry {
    /// Unique name.
    pub name: String,
    /// Which keys it names.
    pub matcher: Matcher,
    /// What the lock is for.
    pub kind: Kind,
    /// Module or service.
    pub owner: Option<String>,
    /// Team.
    pub team: Option<String>,
    /// Where to ask.
    pub contact: Option<String>,
    /// Free text.
    pub note: Option<String>,
    /// A link for on-call.
    pub runbook: Option<String>,
    /// How it is meant to be taken, if the entry says so.
    pub scope: Option<Scope>,
    /// Expected to be held for hours: said by the entry, else by its kind.
    pub long_lived: bool,
    /// Followers queue on purpose.
    pub waiters_expected: bool,
    /// How many sessions should hold it.
    pub holders: Option<CountRange>,
    /// The longest normal hold: said by the entry, else by its kind.
    pub max_hold: Option<Duration>,
    /// Which applications may hold it.
    pub applications: Globs,
    /// In which databases the entry is valid.
    pub databases: Globs,
    /// On which targets the entry is valid.
    pub targets: Globs,
}

/// One `[[holder]]` of the dictionary: who may hold, whatever the key.
#[derive(Debug, Clone)]
pub struct HolderEntry {
    /// Name.
    pub name: String,
    /// Globs on `application_name`.
    pub applications: Globs,
    /// Globs on the role's name.
    pub users: Globs,
    /// Globs on the database's name.
    pub databases: Globs,
    /// Client networks; empty matches everything.
    pub clients: Vec<ipnet::IpNet>,
    /// Its holds are expected.
    pub expected: bool,
    /// The longest normal hold.
    pub max_hold: Option<Duration>,
}

impl HolderEntry {
    /// Whether the entry covers this holder: everything that it names must match.
    pub fn matches(
        &self,
        application: Option<&str>,
        user: Option<&str>,
        database: Option<&str>,
        client: Option<&str>,
    ) -> bool {
        let known =
            |globs: &Globs, text: Option<&str>| globs.is_empty() || text.is_some_and(|text| globs.matches(text));
        known(&self.applications, application)
            && known(&self.users, user)
            && known(&self.databases, database)
            && (self.clients.is_empty()
                || client
                    .and_then(|client| client.parse::<core::net::IpAddr>().ok())
                    .is_some_and(|client| self.clients.iter().any(|net| net.contains(&client))))
    }
}

/// One `[[silence]]` of the dictionary: a known problem, shown and never counted.
#[derive(Debug, Clone, Default)]
pub struct Silence {
    /// Rules by name; empty: any.
    pub rules: Vec<String>,
    /// Dictionary or well-known names; they must cover every key of the finding.
    pub names: Vec<String>,
    /// Keys; they must cover every key of the finding.
    pub keys: Vec<KeyNumbers>,
    /// Globs on `application_name`.
    pub applications: Globs,
    /// Globs on the role's name.
    pub users: Globs,
    /// Globs on the database's name.
    pub databases: Globs,
    /// Why it is known.
    pub reason: String,
    /// The last day (server's clock, UTC) on which it holds.
    pub until: Option<chrono::NaiveDate>,
}

impl Entry {
    /// Whether the entry is valid for that target and in that database. A database whose name is not known is in no
    /// list.
    pub fn covers(&self, target: &str, database: Option<&str>) -> bool {
        self.targets.matches(target)
            && (self.databases.is_empty() || database.is_some_and(|database| self.databases.matches(database)))
    }

    /// The name as people read it: with the second number where the entry is a class.
    pub fn label(&self, key: KeyNumbers) -> String {
        match (&self.matcher, key::pair(key)) {
            (Matcher::Class(_), Some((_, second))) => format!("{}({second})", self.name),
            _ => self.name.clone(),
        }
    }
}

/// Where a name comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Source {
    /// The team's own dictionary.
    Dictionary,
    /// The built-in catalogue of popular software.
    WellKnown,
}

/// A name that a key has.
#[derive(Debug, Clone)]
pub struct Name {
    /// The bare name, for JSON and labels.
    pub name: String,
    /// The name as people read it: with the second number of a class, as `customer-rebuild(1234)`.
    pub label: String,
    /// Where it comes from.
    pub source: Source,
    /// What the lock is for.
    pub kind: Kind,
    /// Held for hours on purpose.
    pub long_lived: bool,
    /// Followers queue on purpose.
    pub waiters_expected: bool,
    /// The longest normal hold.
    pub max_hold: Option<Duration>,
    /// What else the catalogue says of it, or the entry's note.
    pub note: Option<String>,
    /// A built-in name of a small number that only circumstances speak for: say "may be".
    pub may_be: bool,
    /// The dictionary's entry; nothing for a well-known name.
    pub entry: Option<Arc<Entry>>,
}
