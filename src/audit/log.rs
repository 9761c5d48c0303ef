//! A server log, line by line: unlocks that hit the wrong session, and deadlocks on advisory locks.
//!
//! It reads the three formats that PostgreSQL writes, told apart by themselves: stderr with whatever prefix, csvlog, and
//! jsonlog. It keeps what it looks for and nothing else, so that a log may be of any size. It knows English messages only
//! (`lc_messages`). That a warning has a STATEMENT line needs `log_min_error_statement = warning`; the default is error.

use std::collections::BTreeMap;
use std::io::{self, BufRead, Read as _};
use std::sync::LazyLock;

use regex::Regex;
use serde::Deserialize;

use super::statement::{Verb, calls};
use crate::keys::key;
use crate::model::{KeyNumbers, Oid};

/// So many of each are kept; counts go on.
pub const MOST: usize = 1_000;
/// What is longer than this is no line of a log that we look for; the rest of it is skipped.
const LINE_BYTES: u64 = 1024 * 1024;
/// Sessions whose message may still go on in the next lines.
const PENDING: usize = 1_000;

/// Who wrote a message, and when: as far as the log's format says it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Origin {
    /// The time as the log has it.
    pub time: Option<String>,
    /// The backend's pid.
    pub pid: Option<String>,
    /// The role.
    pub user: Option<String>,
    /// The database.
    pub database: Option<String>,
    /// `application_name`
    pub application: Option<String>,
}

/// An unlock of a lock that its session does not hold: the lock stays with another session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailedUnlock {
    /// The line at which it begins, from 1, over all logs that were read.
    pub line: u64,
    /// Who and when.
    pub origin: Origin,
    /// As `ExclusiveLock`.
    pub mode: String,
    /// The statement, where the log has it.
    pub statement: Option<String>,
    /// The key, where the statement says it.
    pub key: Option<KeyNumbers>,
}

/// A deadlock with an advisory lock in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deadlock {
    /// The line at which it begins, from 1, over all logs that were read.
    pub line: u64,
    /// Who was cancelled, and when.
    pub origin: Origin,
    /// The advisory keys in the circle, with the OID of their database.
    pub keys: Vec<(Oid, KeyNumbers)>,
    /// The statement that was cancelled.
    pub statement: Option<String>,
}

/// What a log says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LogReport {
    /// Lines that were read.
    pub lines: u64,
    /// Lines that are of no format of PostgreSQL's.
    pub unknown_lines: u64,
    /// Logs of which hardly a line is of a format of PostgreSQL's: other files, compressed ones.
    pub unreadable: u64,
    /// The first unlocks that failed.
    pub failed_unlocks: Vec<FailedUnlock>,
    /// How many there were.
    pub failed_unlock_count: u64,
    /// How many of them have no statement.
    pub without_statement: u64,
    /// The first deadlocks.
    pub deadlocks: Vec<Deadlock>,
    /// How many there were.
    pub deadlock_count: u64,
}

/// A message that we look for, while its further lines may still come.
#[derive(Debug, Clone, Default)]
struct Message {
    line: u64,
    origin: Origin,
    text: String,
    detail: String,
    context: String,
    statement: Option<String>,
}

/// Which part of a message a continuation line belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Detail,
    Context,
    Statement,
    Other,
}

/// Reads a log, line by line.
#[derive(Debug, Default)]
pub struct LogReader {
    report: LogReport,
    pending: BTreeMap<String, Message>,
    /// The session and part that a continuation line belongs to.
    current: Option<(String, Part)>,
    /// The beginning of a csvlog record whose quotes are still open.
    record: String,
    /// A quote is open at the end of it.
    open_quote: bool,
}

static HEAD: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(
        r"(?:^|[^A-Z])(DEBUG\d?|INFO|NOTICE|WARNING|ERROR|LOG|FATAL|PANIC|DETAIL|HINT|QUERY|CONTEXT|STATEMENT|LOCATION|BACKTRACE):  (.*)$",
    )
    .ok()
});
static TIME: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:\.\d+)?(?: ?[A-Z]{3,5}| ?[+-]\d\d(?::?\d\d)?)?").ok()
});
static PID: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"\[(\d+)(?:-\d+)?\]|\bpid[=: ](\d+)").ok());
static USER_AT: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"([^\s:@,\[\]]+)@([^\s:,\[\]]+)(.*)$").ok());
static NAMED: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"\b(user|db|app)=([^,\[\]]*?)(?:,|\s*$)").ok());
static KEYS: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"advisory lock \[(\d+),(\d+),(\d+),(\d+)\]").ok());

/// jsonlog's fields that we look at.
#[derive(Deserialize)]
struct JsonLine {
    timestamp: Option<String>,
    user: Option<String>,
    dbname: Option<String>,
    pid: Option<i64>,
    application_name: Option<String>,
    message: Option<String>,
    detail: Option<String>,
    context: Option<String>,
    statement: Option<String>,
}

const FAILED: &str = "you don't own a lock of type ";
const DEADLOCK: &str = "deadlock detected";

fn is_looked_for(message: &str) -> bool {
    message.starts_with(FAILED) || message == DEADLOCK
}

/// Whether a message that is looked for may stand somewhere in these bytes.
fn may_be_looked_for(line: &str) -> bool {
    line.contains(FAILED) || line.contains(DEADLOCK)
}

impl LogReader {
    /// Reads to the end. Several logs may be read one after the other.
    ///
    /// # Errors
    /// Those of reading.
    pub fn read(&mut self, log: &mut dyn BufRead) -> io::Result<()> {
        let mut bytes = Vec::new();
        let (lines, unknown) = (self.report.lines, self.report.unknown_lines);
        loop {
            bytes.clear();
            if log.take(LINE_BYTES).read_until(b'\n', &mut bytes)? == 0 {
                break;
            }
            let whole = bytes.last() == Some(&b'\n');
            self.line(String::from_utf8_lossy(&bytes).trim_end_matches(['\n', '\r']));
            if !whole {
                skip_line(log)?;
            }
        }
        self.current = None;
        self.record.clear();
        for message in std::mem::take(&mut self.pending).into_values() {
            self.tell(message);
        }
        // Not most: what syslog writes of long statements goes on over many lines without a mark.
        let (lines, unknown) = (self.report.lines - lines, self.report.unknown_lines - unknown);
        self.report.unreadable += u64::from(unknown * 10 > lines * 9);
        Ok(())
    }

    /// What was found.
    pub fn into_report(mut self) -> LogReport {
        // What a message says is known when the next one of its session begins.
        self.report.failed_unlocks.sort_by_key(|unlock| unlock.line);
        self.report.deadlocks.sort_by_key(|deadlock| deadlock.line);
        self.report
    }

    fn line(&mut self, line: &str) {
        self.report.lines += 1;
        if !self.record.is_empty() {
            self.record.push('\n');
            self.record.push_str(line);
            return self.csv(line);
        }
        if line.starts_with('{') {
            return self.json(line);
        }
        if is_csv(line) {
            line.clone_into(&mut self.record);
            self.open_quote = false;
            return self.csv(line);
        }
        self.plain(line);
    }

    fn json(&mut self, line: &str) {
        if line.ends_with('}') && !may_be_looked_for(line) {
            return;
        }
        let Ok(line) = serde_json::from_str::<JsonLine>(line) else {
            self.report.unknown_lines += 1;
            return;
        };
        let text = line.message.unwrap_or_default();
        if is_looked_for(&text) {
            let origin = Origin {
                time: line.timestamp,
                pid: line.pid.map(|pid| pid.to_string()),
                user: line.user,
                database: line.dbname,
                application: line.application_name,
            };
            let (detail, context) = (line.detail.unwrap_or_default(), line.context.unwrap_or_default());
            let at = self.report.lines;
            self.tell(Message { line: at, origin, text, detail, context, statement: line.statement });
        }
    }

    /// A record of csvlog, once its quotes are closed by this line of it. The columns are those of the manual, 20.8.4: versions only add some
    /// at the end.
    fn csv(&mut self, line: &str) {
        self.open_quote ^= line.matches('"').count() % 2 == 1;
        if self.open_quote {
            if self.record.len() as u64 > LINE_BYTES {
                self.record.clear();
                self.report.unknown_lines += 1;
            }
            return;
        }
        let record = std::mem::take(&mut self.record);
        let fields = csv_fields(&record);
        let field = |place: usize| fields.get(place).filter(|text| !text.is_empty()).cloned();
        let text = field(13).unwrap_or_default();
        if is_looked_for(&text) {
            let origin =
                Origin { time: field(0), pid: field(3), user: field(1), database: field(2), application: field(22) };
            let (detail, context) = (field(14).unwrap_or_default(), field(18).unwrap_or_default());
            let line = self.report.lines;
            self.tell(Message { line, origin, text, detail, context, statement: field(19) });
        }
    }

    /// A line of the stderr format: the beginning of a message, one of its further parts, or what these go on with.
    fn plain(&mut self, line: &str) {
        if let Some(more) = line.strip_prefix('\t') {
            if let Some((session, part)) = self.current.clone()
                && let Some(message) = self.pending.get_mut(&session)
            {
                message.add(part, more);
            }
            return;
        }
        // A statement is the last part of a message.
        if let Some((session, Part::Statement)) = self.current.take()
            && let Some(message) = self.pending.remove(&session)
        {
            self.tell(message);
        }
        // Nearly all lines of a large log end here.
        if self.pending.is_empty() && !may_be_looked_for(line) {
            self.report.unknown_lines += u64::from(!line.contains(":  ") && !line.trim().is_empty());
            return;
        }
        let Some(head) = HEAD.as_ref().and_then(|head| head.captures(line)) else {
            self.report.unknown_lines += u64::from(!line.trim().is_empty());
            return;
        };
        let (Some(kind), Some(text)) = (head.get(1), head.get(2)) else { return };
        let origin = origin(&line[..kind.start()]);
        let session = origin.pid.clone().unwrap_or_default();
        let part = match kind.as_str() {
            "DETAIL" => Part::Detail,
            "CONTEXT" => Part::Context,
            "STATEMENT" => Part::Statement,
            "HINT" | "QUERY" | "LOCATION" | "BACKTRACE" => Part::Other,
            _ => return self.begin(session, origin, text.as_str()),
        };
        if let Some(message) = self.pending.get_mut(&session) {
            message.add(part, text.as_str());
            self.current = Some((session, part));
        } else {
            self.current = None;
        }
    }

    /// A new message of a session: the one before has ended.
    fn begin(&mut self, session: String, origin: Origin, text: &str) {
        self.current = None;
        if let Some(before) = self.pending.remove(&session) {
            self.tell(before);
        }
        if is_looked_for(text) {
            if self.pending.len() >= PENDING
                && let Some((_, oldest)) = self.pending.pop_first()
            {
                self.tell(oldest);
            }
            self.current = Some((session.clone(), Part::Other));
            let line = self.report.lines;
            let message = Message { line, origin, text: text.to_owned(), ..Message::default() };
            self.pending.insert(session, message);
        }
    }

    fn tell(&mut self, message: Message) {
        if let Some(mode) = message.text.strip_prefix(FAILED) {
            let key = unlocked_key(&message);
            self.report.failed_unlock_count += 1;
            self.report.without_statement += u64::from(message.statement.is_none() && message.context.is_empty());
            if self.report.failed_unlocks.len() < MOST {
                let mode = mode.to_owned();
                let Message { line, origin, statement, .. } = message;
                self.report.failed_unlocks.push(FailedUnlock { line, origin, mode, statement, key });
            }
            return;
        }
        let keys = deadlocked_keys(&message.detail);
        if keys.is_empty() {
            return;
        }
        self.report.deadlock_count += 1;
        if self.report.deadlocks.len() < MOST {
            let Message { line, origin, statement, .. } = message;
            self.report.deadlocks.push(Deadlock { line, origin, keys, statement });
        }
    }
}

impl Message {
    fn add(&mut self, part: Part, line: &str) {
        let text = match part {
            Part::Detail => &mut self.detail,
            Part::Context => &mut self.context,
            Part::Statement => self.statement.get_or_insert_default(),
            Part::Other => return,
        };
        // What an application sends may be of any size.
        if text.len() < 16 * 1024 {
            if !text.is_empty() {
                text.push('\n');
            }
            text.push_str(line);
        }
    }
}

fn skip_line(log: &mut dyn BufRead) -> io::Result<()> {
    loop {
        let buffer = log.fill_buf()?;
        if buffer.is_empty() {
            return Ok(());
        }
        let (used, ended) = match buffer.iter().position(|byte| *byte == b'\n') {
            Some(place) => (place + 1, true),
            None => (buffer.len(), false),
        };
        log.consume(used);
        if ended {
            return Ok(());
        }
    }
}

/// Whether a line begins a csvlog record: a time, and right behind it a comma.
fn is_csv(line: &str) -> bool {
    if !line.starts_with(|c: char| c.is_ascii_digit()) {
        return false;
    }
    let time = TIME.as_ref().and_then(|time| time.find(line.get(..40).unwrap_or(line)));
    time.is_some_and(|time| time.start() == 0 && line[time.end()..].starts_with(','))
}

fn csv_fields(record: &str) -> Vec<String> {
    let mut fields = vec![String::new()];
    let mut chars = record.chars().peekable();
    let mut quoted = false;
    while let Some(c) = chars.next() {
        let Some(field) = fields.last_mut() else { break };
        match c {
            '"' if quoted && chars.next_if_eq(&'"').is_some() => field.push('"'),
            '"' => quoted = !quoted,
            ',' if !quoted => fields.push(String::new()),
            c => field.push(c),
        }
    }
    fields
}

/// What a `log_line_prefix` says, in the forms that people use.
fn origin(prefix: &str) -> Origin {
    let capture = |pattern: &LazyLock<Option<Regex>>| pattern.as_ref().and_then(|pattern| pattern.captures(prefix));
    let known =
        |text: &str| Some(text.trim()).filter(|text| !text.is_empty() && *text != "[unknown]").map(str::to_owned);
    let mut origin = Origin {
        time: capture(&TIME).and_then(|found| known(found.get(0)?.as_str())),
        pid: capture(&PID).and_then(|found| found.iter().skip(1).flatten().next().and_then(|pid| known(pid.as_str()))),
        ..Origin::default()
    };
    let mut named = false;
    for found in NAMED.iter().flat_map(|pattern| pattern.captures_iter(prefix)) {
        let value = found.get(2).and_then(|value| known(value.as_str()));
        named = true;
        match found.get(1).map(|name| name.as_str()) {
            Some("user") => origin.user = value,
            Some("db") => origin.database = value,
            _ => origin.application = value,
        }
    }
    if !named && let Some(found) = capture(&USER_AT) {
        let part = |place: usize| found.get(place).and_then(|text| known(text.as_str()));
        (origin.user, origin.database) = (part(1), part(2));
        // Only words that follow without a bracket are a name.
        origin.application = part(3).filter(|rest| !rest.starts_with([':', '[', ',', '(']));
    }
    origin
}

/// The key of the unlock: of the innermost statement that has just one unlock in this mode.
fn unlocked_key(message: &Message) -> Option<KeyNumbers> {
    let shared = message.text.contains("ShareLock");
    let inner = message.context.split_once("SQL statement \"").map(|(_, rest)| rest);
    let statements = [inner, message.statement.as_deref()];
    statements.into_iter().flatten().find_map(|statement| {
        let mut unlocks =
            calls(statement).into_iter().filter(|call| call.verb == Verb::Unlock && call.shared == shared);
        unlocks.next().filter(|_| unlocks.next().is_none())?.key
    })
}

fn deadlocked_keys(detail: &str) -> Vec<(Oid, KeyNumbers)> {
    let mut keys: Vec<(Oid, KeyNumbers)> = Vec::new();
    for found in KEYS.iter().flat_map(|pattern| pattern.captures_iter(detail)) {
        let Some(database) = found.get(1).and_then(|oid| oid.as_str().parse().ok()) else { continue };
        let part = |place: usize| found.get(place).map_or("", |text| text.as_str());
        let Ok(numbers) = key::parse(&format!("{}/{}/{}", part(2), part(3), part(4))) else { continue };
        if !keys.contains(&(database, numbers)) {
            keys.push((database, numbers));
        }
    }
    keys
}

#[cfg(test)]
mod tests;
