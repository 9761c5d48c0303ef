//! What circumstances say: the holder's application name, user and statement.
//!
//! All three are texts that a stranger chose. They are only searched, and what comes of it is a "may be".

use super::Found;
use crate::keys::{Kind, LookUp};
use crate::model::KeyNumbers;

/// What agrees with a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Agreement {
    /// The application name or the user.
    Application,
    /// Only the statement.
    Statement,
}

/// Whether one of the words stands in the holder's application name, user or statement.
pub(super) fn agreement(words: &[&str], known: LookUp<'_>) -> Option<Agreement> {
    let one_in = |text: &str| has_one(text, words);
    if one_in(known.application) || one_in(known.user) {
        Some(Agreement::Application)
    } else if one_in(known.query) {
        Some(Agreement::Statement)
    } else {
        None
    }
}

/// Whether one of some ASCII words stands in a text, in upper or lower case, with no letter or digit on either side.
fn has_one(text: &str, words: &[&str]) -> bool {
    let mut rest = text.as_bytes();
    let mut in_word = false;
    while let Some((byte, after)) = rest.split_first() {
        if !in_word && words.iter().any(|word| begins_with_word(rest, word.as_bytes())) {
            return true;
        }
        in_word = is_letter(*byte);
        rest = after;
    }
    false
}

fn begins_with_word(text: &[u8], word: &[u8]) -> bool {
    text.split_at_checked(word.len()).is_some_and(|(begin, rest)| {
        begin.eq_ignore_ascii_case(word) && !rest.first().is_some_and(|byte| is_letter(*byte))
    })
}

/// A letter or a digit; a byte that is not ASCII is part of a letter.
fn is_letter(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || !byte.is_ascii()
}

/// Software whose keys are numbers of its own rows: any bigint may be one, so only the application name or the user
/// can tell. The statement is not searched: this runs for every key without a name.
struct AnyKey {
    name: &'static str,
    kind: Kind,
    /// Only numbers from 0 to 2^32-1, as row ids are.
    only_ids: bool,
    words: &'static [&'static str],
    note: &'static str,
}

const ANY_KEY: &[AnyKey] = &[
    AnyKey {
        name: "GoodJob",
        kind: Kind::Job,
        only_ids: false,
        words: &["good_job", "goodjob"],
        note: "md5 of a job's or a process's id, held while the job or the process lives",
    },
    AnyKey {
        name: "Que",
        kind: Kind::Job,
        only_ids: true,
        words: &["que"],
        note: "the job's id in que_jobs, held while the job runs",
    },
    AnyKey {
        name: "Terraform pg backend",
        kind: Kind::Job,
        only_ids: true,
        words: super::TERRAFORM,
        note: "the workspace's id in states, held for a whole plan or apply",
    },
    AnyKey {
        name: "Wolverine",
        kind: Kind::Leader,
        only_ids: false,
        words: &["wolverine-advisory-lock"],
        note: "hash of a schema's name, held for the life of the process by a leader",
    },
];

/// The names of that software.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    ANY_KEY.iter().map(|any| any.name)
}

/// The software that the application name or the user speaks for, of those whose keys can be any bigint.
pub(super) fn any_key(key: KeyNumbers, known: LookUp<'_>) -> impl Iterator<Item = Found> {
    let is_id = key.classid == 0;
    ANY_KEY
        .iter()
        .filter(move |any| key.objsubid == 1 && (is_id || !any.only_ids))
        .filter(move |any| has_one(known.application, any.words) || has_one(known.user, any.words))
        .map(|any| Found::new(any.name, any.kind, any.note).only(Agreement::Application))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_stands_alone_in_any_case() {
        for text in ["airflow", "Airflow Scheduler", "x-AIRFLOW-2", "airflow_db", "a=airflow", "\n\"airflow\""] {
            assert!(has_one(text, &["airflow"]), "{text}");
        }
        for text in ["", "air", "airflows", "myairflow", "airflow2", "éairflow", "airflowé", "queue"] {
            assert!(!has_one(text, &["airflow"]), "{text}");
        }
        assert!(!has_one("SELECT * FROM queue", &["que"]));
        assert!(has_one("SELECT * FROM que_jobs", &["jobs", "que"]));
    }

    #[test]
    fn the_application_weighs_more_than_the_statement() {
        let query = "SELECT 1 FROM dag_run";
        let known = |application, user| LookUp { application, user, query, ..LookUp::default() };
        assert_eq!(agreement(super::super::AIRFLOW, known("airflow", "x")), Some(Agreement::Application));
        assert_eq!(agreement(super::super::AIRFLOW, known("x", "airflow")), Some(Agreement::Application));
        assert_eq!(agreement(super::super::AIRFLOW, known("x", "x")), Some(Agreement::Statement));
        assert_eq!(agreement(&["coder"], known("decoder", "x")), None);
    }
}
