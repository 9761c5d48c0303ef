//! The schema: names and order of the fields are a promise.

use std::borrow::Cow;

use serde::Serialize;

use crate::model::Pid;

#[derive(Serialize)]
pub(super) struct Document<'a> {
    pub schema: u32,
    pub version: &'a str,
    pub status: &'static str,
    pub targets: Vec<Target<'a>>,
}

#[derive(Serialize)]
#[allow(clippy::struct_field_names, reason = "the schema's names")]
pub(super) struct Target<'a> {
    pub target: &'a str,
    pub error: Option<TargetError<'a>>,
    pub server: Option<Server<'a>>,
    pub sampled_at: Option<String>,
    pub polls: u64,
    pub observed_seconds: f64,
    pub poll_seconds: f64,
    #[serde(skip_serializing_if = "is_false")]
    pub truncated: bool,
    pub locks: Vec<Lock<'a>>,
    pub pools: Vec<Pool<'a>>,
    pub leases: Vec<LeaseTableObject<'a>>,
    pub findings: Vec<FindingObject<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

#[derive(Serialize)]
pub(super) struct TargetError<'a> {
    pub kind: &'static str,
    pub message: &'a str,
}

#[derive(Serialize)]
pub(super) struct Server<'a> {
    pub version: &'a str,
    pub in_recovery: bool,
    pub started_at: String,
    pub role: &'a str,
    pub sees_all_sessions: bool,
    pub can_signal: bool,
}

#[derive(Serialize)]
pub(super) struct Lock<'a> {
    pub key: Key<'a>,
    pub mode: &'static str,
    pub scope: &'static str,
    pub hold_expected: bool,
    pub held_seconds: Bounds,
    pub first_seen: Option<FirstSeenObject<'a>>,
    pub holder: Holder<'a>,
    pub waiters: Vec<Waiter<'a>>,
    pub rules: &'a [&'static str],
}

#[derive(Serialize)]
pub(super) struct Key<'a> {
    pub text: &'a str,
    pub space: &'static str,
    pub database: Option<&'a str>,
    pub classid: u32,
    pub objid: u32,
    pub objsubid: u16,
    pub names: Vec<Name<'a>>,
}

#[derive(Serialize)]
#[allow(clippy::struct_field_names, reason = "the schema's names")]
pub(super) struct Name<'a> {
    pub name: &'a str,
    pub source: &'static str,
    pub kind: &'static str,
    pub owner: Option<&'a str>,
    pub team: Option<&'a str>,
    pub note: Option<&'a str>,
}

#[derive(Serialize)]
pub(super) struct Bounds {
    pub at_least: f64,
    pub at_most: Option<f64>,
}

#[derive(Serialize)]
pub(super) struct FirstSeenObject<'a> {
    pub at: String,
    pub query: Option<&'a str>,
    pub certain: bool,
}

#[derive(Serialize)]
pub(super) struct Holder<'a> {
    pub kind: &'static str,
    pub pid: Option<Pid>,
    pub gid: Option<&'a str>,
    pub backend_type: Option<&'a str>,
    pub backend_start: Option<String>,
    pub user: Option<&'a str>,
    pub application: Option<&'a str>,
    pub client_addr: Option<&'a str>,
    pub client_port: Option<i32>,
    pub state: Option<&'static str>,
    pub state_seconds: Option<f64>,
    pub transaction_seconds: Option<f64>,
    pub query: Option<&'a str>,
    pub pooler: Option<PoolerObject<'a>>,
}

#[derive(Serialize)]
pub(super) struct PoolerObject<'a> {
    pub kind: &'static str,
    pub database: &'a str,
    pub pool_mode: &'static str,
    pub linked: bool,
}

#[derive(Serialize)]
pub(super) struct Waiter<'a> {
    pub pid: Pid,
    pub wait_seconds: Option<f64>,
    pub mode: &'static str,
    pub blocked_by: &'a [Pid],
    pub user: Option<&'a str>,
    pub application: Option<&'a str>,
    pub backend_type: Option<&'a str>,
}

#[derive(Serialize)]
pub(super) struct Pool<'a> {
    pub database: Option<&'a str>,
    pub user: Option<&'a str>,
    pub application: &'a str,
    pub client_addr: Option<&'a str>,
    pub sessions: usize,
    pub active: usize,
    pub idle: usize,
    pub idle_in_transaction: usize,
    pub holding: usize,
    pub waiting: usize,
}

#[derive(Serialize)]
pub(super) struct LeaseTableObject<'a> {
    pub lease: &'a str,
    pub table: &'a str,
    pub database: Option<&'a str>,
    pub error: Option<&'a str>,
    pub count: u64,
    pub overdue_count: u64,
    #[serde(skip_serializing_if = "is_false")]
    pub truncated: bool,
    pub rows: Vec<LeaseObject<'a>>,
}

#[derive(Serialize)]
pub(super) struct LeaseObject<'a> {
    pub name: Option<&'a str>,
    pub holder: Option<&'a str>,
    pub taken_at: Option<String>,
    pub held_seconds: Option<f64>,
    pub expires_at: Option<String>,
    pub expires_in_seconds: Option<f64>,
    pub expired_seconds: Option<f64>,
    pub overdue: bool,
}

#[derive(Serialize)]
pub(super) struct FindingObject<'a> {
    pub id: &'a str,
    pub since: Option<String>,
    pub silenced: Option<&'a str>,
    pub rule: &'static str,
    pub severity: &'static str,
    pub summary: &'a str,
    pub detail: &'a [String],
    pub keys: Vec<&'a str>,
    pub key_count: usize,
    #[serde(skip_serializing_if = "is_false")]
    pub truncated: bool,
    pub database: Option<&'a str>,
    pub pids: &'a [Pid],
    pub gid: Option<&'a str>,
    pub waiters: &'a [Pid],
    pub longest_wait_seconds: Option<f64>,
    pub held_seconds: Option<Bounds>,
    pub advice: AdviceObject<'a>,
}

#[derive(Serialize)]
pub(super) struct AdviceObject<'a> {
    pub action: &'static str,
    pub steps: &'a [String],
    pub sql: Option<&'a str>,
    pub caveats: &'a [String],
    pub prevent: &'a [Cow<'static, str>],
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
pub(super) fn is_false(flag: &bool) -> bool {
    !flag
}
