//! How statements are written: their comments, what they begin with, and whether they clean a session up.
//!
//! Pure. It knows PostgreSQL's lexical rules ("Lexical Structure" in the manual, 4.1) and no grammar.

use std::borrow::Cow;

/// The statement with a blank or an end of line for each comment. What looks like a comment inside of quotes is none.
pub(crate) fn without_comments(statement: &str) -> Cow<'_, str> {
    strip(statement).0
}

/// Whether these statements free all session locks, as a pooler's reset query may.
pub(crate) fn frees_session_locks(statements: &str) -> bool {
    let code = without_comments(statements).to_ascii_lowercase();
    let words = code.split_whitespace().collect::<Vec<_>>().join(" ");
    words.contains("discard all") || words.contains("pg_advisory_unlock_all")
}

/// Whether one of the statements in a text begins with this word, in letters of either case: drivers and frameworks
/// write comments before it. A text that was cut off inside of a comment may go on with any word.
pub(crate) fn may_begin_with(statements: &str, word: &str) -> bool {
    let (code, is_cut) = strip(statements);
    code.split(';').any(|statement| first_word(statement).eq_ignore_ascii_case(word))
        || is_cut && code.rsplit(';').next().is_none_or(|last| last.trim().is_empty())
}

fn first_word(statement: &str) -> &str {
    let text = statement.trim_start();
    let end = text.find(|c: char| !(c.is_alphanumeric() || c == '_'));
    end.map_or(text, |end| &text[..end])
}

/// The code without comments, and whether it ends inside of a block comment. These nest ("Comments", 4.1.5); the
/// others end with the line, at a carriage return too (seen on 15 and 18).
fn strip(statement: &str) -> (Cow<'_, str>, bool) {
    if !statement.contains("--") && !statement.contains("/*") {
        return (Cow::Borrowed(statement), false);
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
                chars.by_ref().find(|c| matches!(c, '\n' | '\r'));
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
    (Cow::Owned(code), depth > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_are_left_out_as_the_server_does() {
        // Each was typed into servers of 15 and 18.
        for (statement, code) in [
            ("SELECT 1 -- x\r, 2", "SELECT 1 \n, 2"),
            ("-- a /*\nSELECT 8", "\nSELECT 8"),
            ("/*/ b */SELECT 4", " SELECT 4"),
            ("/*/*/ */ */SELECT 6", "  SELECT 6"),
            ("SELECT 9 /* -- */, 10", "SELECT 9  , 10"),
            ("SELECT '--', \"/*\"", "SELECT '--', \"/*\""),
        ] {
            assert_eq!(without_comments(statement), code, "{statement:?}");
        }
    }

    #[test]
    fn what_frees_session_locks() {
        for text in [
            "DISCARD ALL",
            "discard  all;",
            "SELECT pg_advisory_unlock_all(); RESET ALL",
            "ABORT; DISCARD /* all */ ALL",
            "-- clean up\nDISCARD\nALL",
        ] {
            assert!(frees_session_locks(text), "{text}");
        }
        for text in ["RESET ALL", "DISCARD PLANS", "SELECT 1", "", "RESET ALL -- no DISCARD ALL"] {
            assert!(!frees_session_locks(text), "{text}");
        }
    }

    #[test]
    fn a_word_is_found_behind_comments_and_other_statements() {
        for statement in [
            "EXECUTE take(31)",
            "\n\texecute take",
            "EXECUTE\"take\"",
            "BEGIN; EXECUTE take(31); COMMIT",
            "/* job */ EXECUTE take",
            "/* a /* nested */ one */EXECUTE take",
            "-- job:41\nEXECUTE take",
            "-- job:41\rEXECUTE take",
            "/* a; b */ -- c; d\n /**/ EXECUTE take",
            "BEGIN; /* job */ EXECUTE take",
            "EXECUTE take /* traceparent='00-4bf9-01' */",
            "/* a comment that is longer than what the server ke",
            "BEGIN; /* a comment that is longer",
        ] {
            assert!(may_begin_with(statement, "EXECUTE"), "{statement:?}");
        }
        for statement in [
            "",
            ";",
            "SELECT 1",
            "SELECT 1 /* EXECUTE take */",
            "/* ; EXECUTE take */ SELECT 1",
            "-- ping",
            "/* ping */",
            "-- EXECUTE take",
            "SELECT 1 /* a comment that is longer than",
            "GRANT EXECUTE ON FUNCTION f TO x",
            "SELECT executed FROM t",
            "EXECUTED",
            "EXECUTE_ALL",
        ] {
            assert!(!may_begin_with(statement, "EXECUTE"), "{statement:?}");
        }
    }
}
