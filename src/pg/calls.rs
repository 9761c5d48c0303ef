//! Which advisory lock functions a statement calls, by its text.
//!
//! Knows the names of PostgreSQL's functions ("Advisory Lock Functions" in the manual, 9.28.10) and how comments and
//! literals are written. Comments are left out: people and frameworks write names into them. Literals are not: dynamic
//! SQL is called from there. A function that calls another one is not seen through.

use std::borrow::Cow;
use std::sync::LazyLock;

use regex::Regex;

/// What a statement calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Calls {
    /// Any advisory lock function.
    pub any: bool,
    /// One for session locks: a lock, a try, an unlock.
    pub session: bool,
}

static CALL: LazyLock<Option<Regex>> = LazyLock::new(|| {
    // Without the opening parenthesis only at the end of a text that was cut there.
    Regex::new(r#"(?i)\bpg_(?:try_)?advisory_(?:xact_)?(?:un)?lock(?:_all)?(?:_shared)?"?\s*(?:\(|\z)"#).ok()
});

impl Calls {
    /// The calls in this statement.
    pub(crate) fn of(statement: &str) -> Self {
        let code = without_comments(statement);
        let mut calls = Self::default();
        // By its text, and not by a group: each session with a lock may have such a statement, and groups cost more.
        for call in CALL.iter().flat_map(|pattern| pattern.find_iter(&code)) {
            calls.any = true;
            calls.session |= !call.as_str().to_ascii_lowercase().contains("_xact_");
        }
        calls
    }
}

/// The statement with a blank for each comment. Block comments nest ("Comments" in the manual, 4.1.5).
pub(crate) fn without_comments(statement: &str) -> Cow<'_, str> {
    if !statement.contains("--") && !statement.contains("/*") {
        return Cow::Borrowed(statement);
    }
    let mut code = String::with_capacity(statement.len());
    let mut chars = statement.chars().peekable();
    let (mut depth, mut quote) = (0_usize, None);
    while let Some(c) = chars.next() {
        let next = chars.peek().copied();
        match (c, next) {
            ('/', Some('*')) if quote.is_none() => {
                depth += 1;
                chars.next();
            }
            ('*', Some('/')) if depth > 0 => {
                depth -= 1;
                chars.next();
                code.push(' ');
            }
            _ if depth > 0 => {}
            ('-', Some('-')) if quote.is_none() => {
                chars.by_ref().find(|c| *c == '\n');
                code.push('\n');
            }
            _ => {
                if quote == Some(c) {
                    quote = None;
                } else if quote.is_none() && matches!(c, '\'' | '"') {
                    quote = Some(c);
                }
                code.push(c);
            }
        }
    }
    Cow::Owned(code)
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
}
