//! Texts that strangers chose, made safe to stand in SQL that a person will run.
//!
//! Pure. It knows PostgreSQL's lexical rules ("Lexical Structure" in the manual, 4.1) and nothing else.

use std::fmt::Write as _;

/// A string literal. Control characters and backslashes are written as escapes, so that the literal is one line and
/// can neither break a terminal nor mean something else where `standard_conforming_strings` is off.
pub fn literal(text: &str) -> String {
    let plain = !text.chars().any(|c| c == '\\' || is_unsafe(c));
    let mut quoted = String::with_capacity(text.len() + 3);
    quoted.push_str(if plain { "'" } else { "E'" });
    push_escaped(&mut quoted, text, '\'');
    quoted.push('\'');
    quoted
}

/// An identifier, always in double quotes unless it is a plain lower-case word. With control characters it becomes
/// the `U&""` form, which is one line too (it needs `standard_conforming_strings`, which is on by default).
pub fn identifier(text: &str) -> String {
    let mut chars = text.chars();
    let word = chars.next().is_some_and(|c| c.is_ascii_lowercase() || c == '_')
        && chars.all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    // Words that are reserved in some position are quoted too: quoting is never wrong.
    if word && !RESERVED.contains(&text) {
        return text.to_owned();
    }
    if text.chars().any(is_unsafe) {
        let mut quoted = String::from("U&\"");
        for c in text.chars() {
            match c {
                '"' => quoted.push_str("\"\""),
                '\\' => quoted.push_str("\\\\"),
                // Writing to a String cannot fail.
                c if is_unsafe(c) => drop(write!(quoted, "\\+{:06X}", u32::from(c))),
                c => quoted.push(c),
            }
        }
        quoted.push('"');
        return quoted;
    }
    format!("\"{}\"", text.replace('"', "\"\""))
}

/// The schema, if one is named, and the table, from a text such as `ops.locks`. Names are as they are written, without
/// folding of letters; in double quotes a name may hold a dot, and a quote is doubled.
pub fn table_name(text: &str) -> Option<(Option<String>, String)> {
    let (first, rest) = one_name(text)?;
    if rest.is_empty() {
        return Some((None, first));
    }
    let (second, rest) = one_name(rest.strip_prefix('.')?)?;
    rest.is_empty().then_some((Some(first), second))
}

/// The name that a text begins with, and what follows.
fn one_name(text: &str) -> Option<(String, &str)> {
    let Some(mut rest) = text.strip_prefix('"') else {
        let (name, rest) = text.split_at(text.find('.').unwrap_or(text.len()));
        return (!name.is_empty() && !name.contains('"')).then(|| (name.to_owned(), rest));
    };
    let mut name = String::new();
    loop {
        let (part, after) = rest.split_once('"')?;
        name.push_str(part);
        match after.strip_prefix('"') {
            Some(after) => {
                name.push('"');
                rest = after;
            }
            None => return (!name.is_empty()).then_some((name, after)),
        }
    }
}

fn push_escaped(quoted: &mut String, text: &str, quote: char) {
    for c in text.chars() {
        match c {
            c if c == quote => {
                quoted.push(quote);
                quoted.push(quote);
            }
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            c if is_unsafe(c) => drop(write!(quoted, "\\U{:08X}", u32::from(c))),
            c => quoted.push(c),
        }
    }
}

/// Control characters, and the invisible ones that change the direction of what stands beside them.
pub fn is_unsafe(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200B}'..='\u{200F}' | '\u{2028}'..='\u{202E}' | '\u{2060}'..='\u{2069}' | '\u{FEFF}')
}

/// PostgreSQL 18's reserved words (its manual, appendix C).
const RESERVED: &[&str] = &[
    "all",
    "analyse",
    "analyze",
    "and",
    "any",
    "array",
    "as",
    "asc",
    "asymmetric",
    "authorization",
    "between",
    "binary",
    "both",
    "case",
    "cast",
    "check",
    "collate",
    "collation",
    "column",
    "concurrently",
    "constraint",
    "create",
    "cross",
    "current_catalog",
    "current_date",
    "current_role",
    "current_schema",
    "current_time",
    "current_timestamp",
    "current_user",
    "default",
    "deferrable",
    "desc",
    "distinct",
    "do",
    "else",
    "end",
    "except",
    "false",
    "fetch",
    "for",
    "foreign",
    "freeze",
    "from",
    "full",
    "grant",
    "group",
    "having",
    "ilike",
    "in",
    "initially",
    "inner",
    "intersect",
    "into",
    "is",
    "isnull",
    "join",
    "lateral",
    "leading",
    "left",
    "like",
    "limit",
    "localtime",
    "localtimestamp",
    "natural",
    "not",
    "notnull",
    "null",
    "offset",
    "on",
    "only",
    "or",
    "order",
    "outer",
    "overlaps",
    "placing",
    "primary",
    "references",
    "returning",
    "right",
    "select",
    "session_user",
    "similar",
    "some",
    "symmetric",
    "system_user",
    "table",
    "tablesample",
    "then",
    "to",
    "trailing",
    "true",
    "union",
    "unique",
    "user",
    "using",
    "variadic",
    "verbose",
    "when",
    "where",
    "window",
    "with",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_double_quotes_and_escape_what_a_terminal_would_obey() {
        assert_eq!(literal("order '77'"), "'order ''77'''");
        assert_eq!(literal("a\\b"), "E'a\\\\b'");
        assert_eq!(literal("a\n\u{1b}[31m'"), "E'a\\n\\U0000001B[31m'''");
    }

    #[test]
    fn identifiers_are_quoted_unless_plain() {
        assert_eq!(identifier("mon"), "mon");
        assert_eq!(identifier("user"), "\"user\"");
        assert_eq!(identifier("Mon"), "\"Mon\"");
        assert_eq!(identifier("a\"b"), "\"a\"\"b\"");
        assert_eq!(identifier("a\nb"), "U&\"a\\+00000Ab\"");
        assert_eq!(identifier(""), "\"\"");
    }

    #[test]
    fn names_of_tables_are_split_at_dots_outside_quotes() {
        let name = |text| table_name(text).map(|(schema, table)| (schema.unwrap_or_default(), table));
        let both = |schema: &str, table: &str| Some((schema.to_owned(), table.to_owned()));
        assert_eq!(name("keys"), both("", "keys"));
        assert_eq!(name("Ops.Lock Keys"), both("Ops", "Lock Keys"));
        assert_eq!(name("\"a.b\".\"c\"\"d\""), both("a.b", "c\"d"));
        for wrong in ["", ".", "a.", ".a", "a.b.c", "\"a", "\"\"", "a\"b", "\"a\"b"] {
            assert_eq!(name(wrong), None, "{wrong}");
        }
    }
}
