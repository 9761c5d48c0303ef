//! Which advisory lock functions a statement calls, by its text.
//!
//! Knows the names of PostgreSQL's functions ("Advisory Lock Functions" in the manual, 9.28.10). Comments are left out:
//! people and frameworks write names into them. Literals are not: dynamic SQL is called from there. A function that calls
//! another one is not seen through.

use crate::sql::without_comments;

/// What a statement calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Calls {
    /// Any advisory lock function.
    pub any: bool,
    /// One for session locks: a lock, a try, an unlock.
    pub session: bool,
}

impl Calls {
    /// The calls in this statement.
    pub(crate) fn of(statement: &str) -> Self {
        let code = without_comments(statement);
        let mut calls = Self::default();
        // By hand: each session with a lock has such a statement in each poll, and an automaton keeps memory for each
        // thread that has used it.
        for (at, _) in code.match_indices('_') {
            let (head, tail) = code.split_at(at);
            if let Some(transaction) = call(head, tail) {
                calls.any = true;
                calls.session |= !transaction;
            }
        }
        calls
    }
}

/// Whether a call's name has its `advisory` before and its `_` after here; then, whether it is of transaction locks.
fn call(head: &str, tail: &str) -> Option<bool> {
    let head = before(head, "advisory")?;
    let head = before(before(head, "try_").unwrap_or(head), "pg_")?;
    if head.ends_with(|c: char| c.is_alphanumeric() || c == '_') {
        return None;
    }
    let tail = after(tail, "_")?;
    let (tail, transaction) = after(tail, "xact_").map_or((tail, false), |tail| (tail, true));
    let tail = after(after(tail, "un").unwrap_or(tail), "lock")?;
    let tail = after(tail, "_all").unwrap_or(tail);
    let tail = after(tail, "_shared").unwrap_or(tail);
    let tail = after(tail, "\"").unwrap_or(tail).trim_start();
    // Without the opening parenthesis only at the end of a text that was cut there.
    (tail.is_empty() || tail.starts_with('(')).then_some(transaction)
}

/// What comes before the word that the text ends with, in letters of either case.
fn before<'t>(text: &'t str, word: &str) -> Option<&'t str> {
    let (rest, end) = text.split_at_checked(text.len().checked_sub(word.len())?)?;
    end.eq_ignore_ascii_case(word).then_some(rest)
}

/// What comes after the word that the text begins with, in letters of either case.
fn after<'t>(text: &'t str, word: &str) -> Option<&'t str> {
    let (beginning, rest) = text.split_at_checked(word.len())?;
    beginning.eq_ignore_ascii_case(word).then_some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn calls(statement: &str) -> (bool, bool) {
        let calls = Calls::of(statement);
        (calls.any, calls.session)
    }

    #[test]
    fn every_function_is_known_by_its_scope() {
        for name in ["pg_advisory_lock", "pg_try_advisory_lock_shared", "pg_advisory_unlock", "PG_ADVISORY_UNLOCK_ALL"]
        {
            assert_eq!(calls(&format!("SELECT {name} (1)")), (true, true), "{name}");
        }
        for name in ["pg_advisory_xact_lock", "pg_try_advisory_xact_lock_shared", "pg_catalog.pg_advisory_xact_lock"] {
            assert_eq!(calls(&format!("SELECT {name}(1)")), (true, false), "{name}");
        }
        assert_eq!(calls("SELECT \"pg_advisory_lock\"(1)"), (true, true));
    }

    #[test]
    fn names_in_comments_and_of_other_things_are_no_calls() {
        assert_eq!(calls("SELECT 1 /* pg_advisory_lock(5) /* nested */ pg_advisory_lock(6) */"), (false, false));
        assert_eq!(calls("SELECT 1 -- pg_advisory_lock(5)\n, 2"), (false, false));
        assert_eq!(calls("SELECT 1 -- one\r, pg_advisory_lock(5)"), (true, true), "a comment ends with its line");
        assert_eq!(calls("SELECT * FROM advisory_notes WHERE locked"), (false, false));
        assert_eq!(calls("SELECT my_pg_advisory_lock(1)"), (false, false));
        assert_eq!(calls("SELECT pg_advisory_lock_id FROM t"), (false, false));
    }

    #[test]
    fn dynamic_sql_and_what_only_looks_like_a_comment_count() {
        assert_eq!(calls("DO $$BEGIN EXECUTE 'SELECT pg_advisory_lock(1)'; END$$"), (true, true));
        assert_eq!(calls("SELECT '--', '/*', pg_advisory_lock(1)"), (true, true));
        assert_eq!(calls("SELECT pg_advisory_lock"), (true, true), "cut at its end");
    }

    proptest::proptest! {
        #![proptest_config(proptest::prelude::ProptestConfig { cases: 1_000, failure_persistence: None, ..Default::default() })]

        /// The names as a regular expression has them.
        #[test]
        fn calls_are_found_as_by_a_regular_expression(
            words in proptest::collection::vec("pg_|PG_|try_|Try_|advisory|ADVISORY|_|xact_|XACT_|un|Un|lock|LOCK|_all|_shared|[(\"' \u{e9}a$\u{3000}\n]|[pP]g_(try_)?advisory_(xact_)?(un)?[lL]ock(_all)?(_shared)?\"?[ (]", 0..9)
        ) {
            let pattern = r#"(?i)\bpg_(?:try_)?advisory_(?:xact_)?(?:un)?lock(?:_all)?(?:_shared)?"?\s*(?:\(|\z)"#;
            let text = words.concat();
            let found: Vec<bool> = regex::Regex::new(pattern)
                .unwrap()
                .find_iter(&text)
                .map(|call| call.as_str().to_ascii_lowercase().contains("_xact_"))
                .collect();
            proptest::prop_assert_eq!(calls(&text), (!found.is_empty(), found.contains(&false)), "{}", text);
        }
    }
}
