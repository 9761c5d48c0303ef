//! Texts that strangers chose, from the bytes that the server sent to UTF-8.
//!
//! A query, a name or a gid is in the encoding of the session that wrote it, which need not be ours, and may be cut
//! in the middle of a character. The statements of [`super::query`] therefore send the bytes in `bytea`'s `escape`
//! format, others as `encode` writes it: both are ASCII. This module knows that format and nothing of servers.

/// The text behind bytes in the `escape` format: `\\` is a backslash, `\ooo` a byte in octal, all else itself. Invalid
/// UTF-8 becomes U+FFFD. If at least `cut_at` bytes came, the text may have been cut, and the beginning of a
/// character at its end is dropped.
pub(crate) fn from_escaped(escaped: &str, cut_at: usize) -> String {
    if !escaped.contains('\\') && escaped.is_ascii() {
        return escaped.to_owned();
    }
    let mut bytes: Vec<u8> = unescape(escaped.as_bytes()).collect();
    if bytes.len() >= cut_at {
        drop_cut_character(&mut bytes);
    }
    String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

/// The bytes, one by one.
pub(crate) fn unescape(mut escaped: &[u8]) -> impl Iterator<Item = u8> {
    std::iter::from_fn(move || {
        let (&first, tail) = escaped.split_first()?;
        let byte;
        (byte, escaped) = match (first, tail) {
            (b'\\', [b'\\', tail @ ..]) => (b'\\', tail),
            (b'\\', [a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', tail @ ..]) => {
                ((a - b'0') << 6 | (b - b'0') << 3 | (c - b'0'), tail)
            }
            _ => (first, tail),
        };
        Some(byte)
    })
}

/// Drops an incomplete character at the end; leaves everything else, valid or not.
fn drop_cut_character(bytes: &mut Vec<u8>) {
    // A character of UTF-8 has at most four bytes: look for its first byte among the last three.
    for back in 1..=bytes.len().min(3) {
        let place = bytes.len() - back;
        let byte = bytes[place];
        if byte < 0x80 {
            return;
        }
        if byte >= 0xC0 {
            if std::str::from_utf8(&bytes[place..]).is_err_and(|error| error.error_len().is_none()) {
                bytes.truncate(place);
            }
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::from_escaped;

    #[test]
    fn plain_text_is_itself() {
        assert_eq!(from_escaped("SELECT 1", 1024), "SELECT 1");
        assert_eq!(from_escaped("", 0), "");
    }

    #[test]
    fn escapes_become_the_bytes_they_stand_for() {
        assert_eq!(from_escaped(r"a\\b", 1024), r"a\b");
        assert_eq!(from_escaped(r"caf\303\251", 1024), "café");
        // A backslash before digits that were text: encode doubles it.
        assert_eq!(from_escaped(r"\\101", 1024), r"\101");
    }

    #[test]
    fn bytes_of_another_encoding_are_replaced_one_by_one() {
        assert_eq!(from_escaped(r"-- caf\351 \344\366", 1024), "-- caf\u{FFFD} \u{FFFD}\u{FFFD}");
    }

    #[test]
    fn a_character_cut_at_the_end_is_dropped_but_only_where_a_cut_was_possible() {
        assert_eq!(from_escaped(r"abc\303", 4), "abc");
        assert_eq!(from_escaped(r"abc\360\237\230", 6), "abc");
        assert_eq!(from_escaped(r"abc\303", 5), "abc\u{FFFD}");
        assert_eq!(from_escaped(r"ab\303\251", 4), "abé");
        // Continuation bytes without a beginning are not a cut character.
        assert_eq!(from_escaped(r"ab\251\251", 4), "ab\u{FFFD}\u{FFFD}");
    }

    /// What `encode(bytes, 'escape')` makes of bytes (PostgreSQL's manual, 9.5).
    fn escaped(bytes: &[u8]) -> String {
        let one = |&byte: &u8| match byte {
            b'\\' => r"\\".to_owned(),
            0 | 0x80.. => format!(r"\{byte:03o}"),
            _ => char::from(byte).to_string(),
        };
        bytes.iter().map(one).collect()
    }

    proptest::proptest! {
        #![proptest_config(proptest::prelude::ProptestConfig { failure_persistence: None, ..Default::default() })]

        #[test]
        fn utf_8_comes_back_and_any_bytes_are_some_text(text in ".{0,40}", bytes in proptest::collection::vec(0_u8.., 0..60), cut in 0_usize..60) {
            proptest::prop_assert_eq!(from_escaped(&escaped(text.as_bytes()), usize::MAX), text);
            let whole = from_escaped(&escaped(&bytes), usize::MAX);
            proptest::prop_assert_eq!(&whole, &String::from_utf8_lossy(&bytes));
            let short = from_escaped(&escaped(&bytes[..cut.min(bytes.len())]), cut);
            proptest::prop_assert!(short.chars().count() <= whole.chars().count() + 3);
        }

        #[test]
        fn no_answer_is_too_strange(answer in "[\\\\0-9a-zé]{0,60}", cut_at in 0_usize..60) {
            let _ = from_escaped(&answer, cut_at);
        }
    }
}
