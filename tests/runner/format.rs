//! The format of a case file. An unknown field is an error, and so is a case that contradicts itself.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Deserializer};

/// One situation, and what pglockwatch must say about it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// The file's name without `.toml`.
    #[serde(skip)]
    pub name: String,
    pub title: String,
    #[serde(default)]
    pub why: String,
    #[serde(default)]
    pub server: Server,
    #[serde(default)]
    pub session: BTreeMap<String, Session>,
    pub step: Vec<Step>,
    #[serde(default)]
    pub run: Run,
    pub expect: Expect,
    #[serde(default)]
    pub forbid: Vec<FindingPattern>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Server {
    pub min_version: Option<u32>,
    pub max_version: Option<u32>,
    /// The server is a hot standby without a primary: read only.
    pub standby: bool,
    pub settings: BTreeMap<String, toml::Value>,
    pub setup: Vec<String>,
    pub teardown: Vec<String>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Session {
    pub user: Option<String>,
    pub database: Option<String>,
    pub application_name: Option<String>,
    pub replication: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    pub on: String,
    #[serde(default, deserialize_with = "duration")]
    pub after: Option<Duration>,
    pub sql: Option<String>,
    #[serde(default)]
    pub blocks: bool,
    #[serde(default, deserialize_with = "duration")]
    pub every: Option<Duration>,
    #[serde(default)]
    pub error: bool,
    #[serde(rename = "loop")]
    pub turns: Option<Vec<String>>,
    #[serde(default)]
    pub disconnect: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Run {
    pub user: Option<String>,
    #[serde(deserialize_with = "duration")]
    pub idle_threshold: Option<Duration>,
    #[serde(deserialize_with = "duration")]
    pub wait_threshold: Option<Duration>,
    #[serde(deserialize_with = "duration")]
    pub observe: Option<Duration>,
    #[serde(deserialize_with = "duration")]
    pub interval: Option<Duration>,
    pub keys: Option<String>,
    #[serde(deserialize_with = "duration")]
    pub settle: Option<Duration>,
    pub args: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expect {
    pub exit: Option<i32>,
    #[serde(default)]
    pub only: bool,
    pub advice_frees: Option<String>,
    #[serde(default)]
    pub finding: Vec<FindingPattern>,
    #[serde(default)]
    pub lock: Vec<LockPattern>,
}

/// A finding is like this when every field that is named agrees.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FindingPattern {
    pub rule: Option<String>,
    pub severity: Option<String>,
    pub key: Option<String>,
    pub key_count: Option<u64>,
    pub database: Option<String>,
    pub session: Option<String>,
    pub sessions: Option<Vec<String>>,
    pub waiters: Option<Vec<String>>,
    pub gid: Option<String>,
    pub action: Option<String>,
    #[serde(deserialize_with = "duration")]
    pub held_at_least: Option<Duration>,
    #[serde(deserialize_with = "duration")]
    pub waited_at_least: Option<Duration>,
    pub silenced: Option<bool>,
    /// With a statement to run, or without.
    pub sql: Option<bool>,
    #[serde(deserialize_with = "one_or_more")]
    pub text: Vec<String>,
}

/// A lock is like this when every field that is named agrees.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LockPattern {
    pub text: Option<String>,
    pub space: Option<String>,
    pub database: Option<String>,
    pub classid: Option<u64>,
    pub objid: Option<u64>,
    pub objsubid: Option<u64>,
    pub names: Option<Vec<String>>,
    pub mode: Option<String>,
    pub scope: Option<String>,
    pub kind: Option<String>,
    pub gid: Option<String>,
    pub state: Option<String>,
    pub backend_type: Option<String>,
    pub session: Option<String>,
    pub waiters: Option<Vec<String>>,
    /// Waiters that are said to be blocked by these sessions: `{ C = ["A", "B"] }`.
    pub blocked_by: Option<BTreeMap<String, Vec<String>>>,
    pub hold_expected: Option<bool>,
    #[serde(deserialize_with = "duration")]
    pub held_at_least: Option<Duration>,
    #[serde(deserialize_with = "duration")]
    pub held_under: Option<Duration>,
    /// A part of `first_seen.query`, where that statement is certain.
    pub taken_by: Option<String>,
    /// The rules that name it, sorted.
    pub rules: Option<Vec<String>>,
    pub count: Option<usize>,
}

fn duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    let text = String::deserialize(deserializer)?;
    humantime::parse_duration(&text).map(Some).map_err(serde::de::Error::custom)
}

fn one_or_more<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum OneOrMore {
        One(String),
        More(Vec<String>),
    }
    Ok(match OneOrMore::deserialize(deserializer)? {
        OneOrMore::One(text) => vec![text],
        OneOrMore::More(texts) => texts,
    })
}

impl Case {
    /// Reads a case file.
    pub fn read(path: &Path) -> Result<Self, String> {
        let text = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        Self::parse(&name, &text)
    }

    fn parse(name: &str, text: &str) -> Result<Self, String> {
        let mut case: Self = toml::from_str(text).map_err(|error| error.to_string())?;
        name.clone_into(&mut case.name);
        case.check()?;
        Ok(case)
    }

    fn check(&self) -> Result<(), String> {
        let mut repeating = Vec::new();
        for step in &self.step {
            step.check()?;
            if repeating.contains(&&step.on) {
                return Err(format!("session {} repeats a step until the end and cannot take another", step.on));
            }
            if step.every.is_some() || step.turns.is_some() {
                repeating.push(&step.on);
            }
        }
        let stepped = |name: &String| self.step.iter().any(|step| step.on == *name);
        if let Some(name) = self.session.keys().chain(self.mentioned()).find(|name| !stepped(name)) {
            return Err(format!("session {name} has no step"));
        }
        let meant = self.expect.only
            || self.expect.exit.is_some()
            || !(self.expect.finding.is_empty() && self.expect.lock.is_empty() && self.forbid.is_empty());
        if meant { Ok(()) } else { Err("the case expects nothing".to_owned()) }
    }

    /// Sessions that expectations name.
    fn mentioned(&self) -> impl Iterator<Item = &String> {
        let findings = self.expect.finding.iter().chain(&self.forbid);
        let in_findings = findings.flat_map(|pattern| {
            pattern.session.iter().chain(pattern.sessions.iter().flatten()).chain(pattern.waiters.iter().flatten())
        });
        let in_locks = self.expect.lock.iter().flat_map(|pattern| {
            let blocked =
                pattern.blocked_by.iter().flatten().flat_map(|(waiter, by)| std::iter::once(waiter).chain(by));
            pattern.session.iter().chain(pattern.waiters.iter().flatten()).chain(blocked)
        });
        in_findings.chain(in_locks)
    }

    /// Whether a server of this major version can show the situation.
    pub fn runs_on(&self, major: u32) -> bool {
        self.server.min_version.is_none_or(|least| major >= least)
            && self.server.max_version.is_none_or(|most| major <= most)
    }

    /// The server's settings as `name=value`.
    pub fn settings(&self) -> Vec<String> {
        self.server
            .settings
            .iter()
            .map(|(name, value)| match value {
                toml::Value::String(text) => format!("{name}={text}"),
                other => format!("{name}={other}"),
            })
            .collect()
    }
}

impl Step {
    fn check(&self) -> Result<(), String> {
        let kinds = [self.sql.is_some(), self.turns.is_some(), self.disconnect];
        if kinds.into_iter().filter(|given| *given).count() != 1 {
            return Err(format!("a step on {} needs exactly one of sql, loop, disconnect", self.on));
        }
        if (self.blocks || self.every.is_some()) && self.sql.is_none() {
            return Err(format!("a step on {}: blocks and every go with sql only", self.on));
        }
        if self.blocks && self.every.is_some() {
            return Err(format!("a step on {}: blocks and every exclude each other", self.on));
        }
        Ok(())
    }
}

#[test]
fn a_case_with_an_unknown_field_or_a_contradiction_is_refused() {
    let refused = |text: &str| Case::parse("x", text).expect_err(text);
    let whole = "title = 't'\n[[step]]\non = 'A'\nsql = 'SELECT 1'\n[expect]\nexit = 0\n";
    assert!(Case::parse("x", whole).is_ok());
    assert!(refused(&format!("{whole}exits = 1\n")).contains("exits"));
    assert!(refused(&whole.replace("sql = 'SELECT 1'", "sql = 'SELECT 1'\ndisconnect = true")).contains("exactly one"));
    assert!(refused(&format!("{whole}[[expect.finding]]\nsession = 'B'\n")).contains("session B"));
    assert!(refused(&whole.replace("exit = 0\n", "")).contains("expects nothing"));
    assert!(refused(&whole.replace("on = 'A'\n", "on = 'A'\nafter = 'soon'\n")).contains("after"));
}
