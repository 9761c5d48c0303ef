//! Key text and the numbers of `pg_locks`, both ways.
//!
//! Pure text and numbers. It knows how `pg_locks` splits a key ("pg_locks" in the manual, 54.12) and no name of one.

use std::fmt;
use std::ops::Deref;

use thiserror::Error;

use crate::model::KeyNumbers;

/// A bigint key's numbers.
pub const fn from_bigint(value: i64) -> KeyNumbers {
    let bits = value.cast_unsigned();
    #[allow(clippy::cast_possible_truncation, reason = "the halves of a 64-bit number")]
    KeyNumbers { classid: (bits >> 32) as u32, objid: bits as u32, objsubid: 1 }
}

/// A two-int4 key's numbers.
pub const fn from_pair(first: i32, second: i32) -> KeyNumbers {
    KeyNumbers { classid: first.cast_unsigned(), objid: second.cast_unsigned(), objsubid: 2 }
}

/// The number of a bigint key; nothing for any other form.
pub fn bigint(key: KeyNumbers) -> Option<i64> {
    (key.objsubid == 1).then(|| (u64::from(key.classid) << 32 | u64::from(key.objid)).cast_signed())
}

/// The two numbers of a two-int4 key; nothing for any other form.
pub fn pair(key: KeyNumbers) -> Option<(i32, i32)> {
    (key.objsubid == 2).then(|| (key.classid.cast_signed(), key.objid.cast_signed()))
}

/// The name of the key's form in JSON: `bigint`, `int4-pair` or `extension`.
pub fn space(key: KeyNumbers) -> &'static str {
    match key.objsubid {
        1 => "bigint",
        2 => "int4-pair",
        _ => "extension",
    }
}

/// Whether it is a bigint key that holds a negative 32-bit number: hashtext, a signed crc32 and the like, cast to
/// bigint, fill the upper half with ones.
pub fn is_sign_extended(key: KeyNumbers) -> bool {
    key.objsubid == 1 && key.classid == u32::MAX && key.objid.cast_signed() < 0
}

/// The key as text: `612001`, `(1,42)` or `1001/0/29749`.
pub fn text(key: KeyNumbers) -> String {
    KeyText::of(key).to_string()
}

fn write_text(key: KeyNumbers, to: &mut impl fmt::Write) -> fmt::Result {
    match (bigint(key), pair(key)) {
        (Some(value), _) => write!(to, "{value}"),
        (_, Some((first, second))) => write!(to, "({first},{second})"),
        _ => write!(to, "{}/{}/{}", key.classid, key.objid, key.objsubid),
    }
}

/// A key as [`text`] writes it, in place: there may be very many.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyText {
    bytes: [u8; LONGEST],
    length: u8,
}

/// `4294967295/4294967295/65535`
const LONGEST: usize = 27;

impl KeyText {
    /// The key as text.
    pub fn of(key: KeyNumbers) -> Self {
        let mut this = Self { bytes: [0; LONGEST], length: 0 };
        // No key has a longer text.
        let _ = write_text(key, &mut this);
        this
    }
}

impl fmt::Write for KeyText {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let start = usize::from(self.length);
        let room = self.bytes.get_mut(start..start + text.len()).ok_or(fmt::Error)?;
        room.copy_from_slice(text.as_bytes());
        self.length = u8::try_from(start + text.len()).map_err(|_| fmt::Error)?;
        Ok(())
    }
}

impl Deref for KeyText {
    type Target = str;

    fn deref(&self) -> &str {
        // It is ASCII.
        std::str::from_utf8(&self.bytes[..usize::from(self.length)]).unwrap_or_default()
    }
}

impl fmt::Display for KeyText {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&**self, formatter)
    }
}

impl fmt::Debug for KeyText {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, formatter)
    }
}

/// Why a text is no advisory key: one plain sentence.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum KeyTextError {
    /// Nothing was typed.
    #[error(
        "an advisory key is missing: give a number such as 612001, a pair such as (1,42), or a triple such as 1001/0/29749 from pg_locks"
    )]
    Empty,
    /// Not in any of the forms.
    #[error(
        "`{0}` is not an advisory key: give a number such as 612001, a pair such as (1,42), or a triple such as 1001/0/29749 from pg_locks"
    )]
    Form(String),
    /// A part of it does not fit where it stands.
    #[error("`{text}` is not an advisory key: {part} does not fit into {room}")]
    Range {
        /// What was typed.
        text: String,
        /// The part that does not fit.
        part: String,
        /// What it would have to fit into.
        room: &'static str,
    },
}

/// The key that a text means. Spaces are of no account.
///
/// Accepted are a bigint, signed or unsigned, decimal or hex (`-5`, `18446744073709551611` and `0xFFFFFFFFFFFFFFFB`
/// are one key); a pair of int4s, each signed or unsigned, with or without parentheses; and a raw triple of classid,
/// objid and objsubid as it is copied from `pg_locks`, with slashes or with psql's bars in between.
///
/// # Errors
/// A sentence that says what is wrong with the text.
pub fn parse(text: &str) -> Result<KeyNumbers, KeyTextError> {
    let typed = text.trim();
    if typed.is_empty() {
        return Err(KeyTextError::Empty);
    }
    let triple = typed.contains(['/', '|']);
    let inner = typed.strip_prefix('(').and_then(|rest| rest.strip_suffix(')'));
    let bare = inner.unwrap_or(typed);
    let parts: Vec<&str> = if triple { typed.split(['/', '|']).collect() } else { bare.split(',').collect() };
    match *parts.as_slice() {
        [number] if inner.is_none() => Ok(from_bigint(wide(typed, number)?.cast_signed())),
        [first, second] if !triple => {
            Ok(from_pair(narrow(typed, first)?.cast_signed(), narrow(typed, second)?.cast_signed()))
        }
        [classid, objid, objsubid] if triple => Ok(KeyNumbers {
            classid: narrow(typed, classid)?,
            objid: narrow(typed, objid)?,
            objsubid: short(typed, objsubid)?,
        }),
        _ => Err(form(typed)),
    }
}

/// 64 bits, signed or not.
fn wide(typed: &str, part: &str) -> Result<u64, KeyTextError> {
    let value = number(typed, part)?;
    let signed = i64::try_from(value).map(i64::cast_unsigned);
    signed.or_else(|_| u64::try_from(value)).map_err(|_| range(typed, part, "64 bits"))
}

/// 32 bits, signed or not.
fn narrow(typed: &str, part: &str) -> Result<u32, KeyTextError> {
    let value = number(typed, part)?;
    let signed = i32::try_from(value).map(i32::cast_unsigned);
    signed.or_else(|_| u32::try_from(value)).map_err(|_| range(typed, part, "32 bits"))
}

/// objsubid: 16 bits, which `pg_locks` shows as a signed smallint.
fn short(typed: &str, part: &str) -> Result<u16, KeyTextError> {
    let value = number(typed, part)?;
    let signed = i16::try_from(value).map(i16::cast_unsigned);
    signed.or_else(|_| u16::try_from(value)).map_err(|_| range(typed, part, "the 16 bits of objsubid"))
}

fn number(typed: &str, part: &str) -> Result<i128, KeyTextError> {
    let part = part.trim();
    let (negative, digits) = match part.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, part.strip_prefix('+').unwrap_or(part)),
    };
    let (radix, digits) = match digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
        Some(digits) => (16, digits),
        None => (10, digits),
    };
    if digits.is_empty() || !digits.chars().all(|c| c.is_digit(radix)) {
        return Err(form(typed));
    }
    // Longer than any number that fits, whatever its leading zeros.
    let value = i128::from_str_radix(digits, radix).map_err(|_| range(typed, part, "64 bits"))?;
    Ok(if negative { -value } else { value })
}

fn form(typed: &str) -> KeyTextError {
    KeyTextError::Form(shown(typed))
}

fn range(typed: &str, part: &str, room: &'static str) -> KeyTextError {
    KeyTextError::Range { text: shown(typed), part: shown(part.trim()), room }
}

/// A typed text in an error: on one line, without control characters, not longer than a line.
fn shown(text: &str) -> String {
    const MOST: usize = 60;
    let mut shown: String = text.chars().take(MOST).map(|c| if crate::quote::is_unsafe(c) { '?' } else { c }).collect();
    if text.chars().nth(MOST).is_some() {
        shown.push_str("...");
    }
    shown
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn triple(classid: u32, objid: u32, objsubid: u16) -> KeyNumbers {
        KeyNumbers { classid, objid, objsubid }
    }

    #[test]
    fn every_typed_form_of_a_bigint_is_one_key() {
        for typed in ["-5", " -5 ", "18446744073709551611", "0xFFFFFFFFFFFFFFFB", "0xfffffffffffffffb", "-0x5"] {
            assert_eq!(parse(typed), Ok(from_bigint(-5)), "{typed}");
        }
        assert_eq!(parse("4294967295/4294967291/1"), Ok(from_bigint(-5)));
        assert_eq!(parse("-9223372036854775808"), Ok(from_bigint(i64::MIN)));
        assert_eq!(parse("0x8000000000000000"), Ok(from_bigint(i64::MIN)));
        assert_eq!(parse("9223372036854775807"), Ok(from_bigint(i64::MAX)));
        assert_eq!(parse("+42"), Ok(from_bigint(42)));
        assert_eq!(parse("000042"), Ok(from_bigint(42)));
    }

    #[test]
    fn the_longest_texts_have_room() {
        let texts = [from_bigint(i64::MIN), from_pair(i32::MIN, i32::MIN), triple(u32::MAX, u32::MAX, u16::MAX)];
        let expected = ["-9223372036854775808", "(-2147483648,-2147483648)", "4294967295/4294967295/65535"];
        assert_eq!(texts.map(text), expected);
    }

    #[test]
    fn every_typed_form_of_a_pair_is_one_key() {
        for typed in ["(1,42)", "( 1 , 42 )", "1,42", "1, 42", "(0x1,0x2A)", "1/42/2", "1 | 42 | 2"] {
            assert_eq!(parse(typed), Ok(from_pair(1, 42)), "{typed}");
        }
        for typed in ["(-1,-2147483648)", "(4294967295,2147483648)", "-1,-2147483648", "4294967295/2147483648/2"] {
            assert_eq!(parse(typed), Ok(from_pair(-1, i32::MIN)), "{typed}");
        }
    }

    #[test]
    fn raw_triples_of_extensions_stay_what_they_are() {
        assert_eq!(parse("1001/0/29749"), Ok(triple(1001, 0, 29749)));
        assert_eq!(parse(" 1001 |     0 |    29749"), Ok(triple(1001, 0, 29749)));
        assert_eq!(parse("1/2/-1"), Ok(triple(1, 2, 65535)), "objsubid is shown as a signed smallint");
        assert_eq!(text(triple(1001, 0, 29749)), "1001/0/29749");
    }

    #[test]
    fn what_is_no_key_is_refused_in_one_sentence() {
        for typed in [
            "", "  ", "x", "1.5", "1e3", "0x", "-", "--5", "(1)", "(1,2", "1,2)", "(1,2,3)", "1,2,3", "1/2", "1/2/3/4",
            "(1/2/3)", "1,,2", "١", "1 2", "0b1",
        ] {
            assert!(parse(typed).is_err(), "{typed}");
        }
        let message = |typed| parse(typed).unwrap_err().to_string();
        assert_eq!(
            message("18446744073709551616"),
            "`18446744073709551616` is not an advisory key: 18446744073709551616 does not fit into 64 bits"
        );
        assert_eq!(
            message("(1,4294967296)"),
            "`(1,4294967296)` is not an advisory key: 4294967296 does not fit into 32 bits"
        );
        assert_eq!(
            message("1/2/65536"),
            "`1/2/65536` is not an advisory key: 65536 does not fit into the 16 bits of objsubid"
        );
        assert!(message("-9223372036854775809").contains("does not fit"));
        assert!(message("\u{1b}[31m\n").starts_with("`?[31m` is not"), "{}", message("\u{1b}[31m\n"));
        assert!(message(&"9".repeat(5000)).len() < 300);
    }

    #[test]
    fn a_sign_extended_number_is_known_as_one() {
        assert!(is_sign_extended(from_bigint(-1_010_065_801)));
        assert!(is_sign_extended(from_bigint(-1)));
        assert!(!is_sign_extended(from_bigint(-4_294_967_295)));
        assert!(!is_sign_extended(from_pair(-1, -1)));
    }

    proptest! {
        #[test]
        fn text_and_numbers_are_inverse(classid: u32, objid: u32, objsubid: u16) {
            let key = triple(classid, objid, objsubid);
            prop_assert_eq!(parse(&text(key)), Ok(key));
            prop_assert_eq!(parse(&format!("{classid}/{objid}/{objsubid}")), Ok(key));
        }

        #[test]
        fn no_text_makes_it_panic(typed in "\\PC*") {
            if let Err(error) = parse(&typed) {
                prop_assert!(!error.to_string().contains('\n'));
            }
        }

        #[test]
        fn a_bigint_in_hex_and_unsigned_is_the_same_key(value: i64) {
            let bits = value.cast_unsigned();
            prop_assert_eq!(parse(&bits.to_string()), Ok(from_bigint(value)));
            prop_assert_eq!(parse(&format!("0x{bits:X}")), Ok(from_bigint(value)));
        }
    }
}
