//! A dictionary read piece by piece.
//!
//! The parser's tokens and tables are many times larger than the text. Of a long file the memory, which the system must
//! hand out, costs as much as the work: cut into pieces, 100,000 entries take two thirds of the time.
//!
//! A file is cut only where that cannot change what it means, and only good news comes from here: a file with anything
//! wrong or unusual in it is read as a whole instead.

use std::iter;

use toml::de::DeTable;

use super::fields::Reporter;
use super::{Read, TABLES};
use crate::keys::problem::SourceText;

/// A piece is at least so long: some hundred entries.
const PIECE: usize = 16 * 1024;
/// A line that begins so begins an entry, unless it stands in a text of several lines.
const HEADER: &str = "\n[[key]]";

/// All entries, or nothing if the file must be read as a whole.
pub(super) fn read(source: &SourceText) -> Option<Read> {
    let text = source.text();
    if ["\"\"\"", "'''"].iter().any(|quotes| text.contains(quotes)) {
        return None;
    }
    let mut report = Reporter::new(source, false);
    let mut read = Read::default();
    let mut begin = 0;
    for piece in pieces(text) {
        let table = DeTable::parse(piece).ok()?;
        if !holds_only_lists(table.get_ref(), piece) {
            return None;
        }
        let mut part = Read::default();
        part.add(table.get_ref(), &mut report);
        if !report.problems.is_empty() {
            return None;
        }
        read.append(part, begin);
        begin += piece.len();
    }
    Some(read)
}

/// The text in pieces that begin with the header of an entry, but for the first.
fn pieces(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = Some(text);
    iter::from_fn(move || {
        let text = rest?;
        let cut = text.as_bytes().get(PIECE..).and_then(|after| {
            let found = after.windows(HEADER.len()).position(|window| window == HEADER.as_bytes())?;
            text.split_at_checked(PIECE + found + 1)
        });
        let (piece, after) = cut.map_or((text, None), |(piece, after)| (piece, Some(after)));
        rest = after;
        Some(piece)
    })
}

/// Whether all there is are `[[key]]`, `[[holder]]` and `[[silence]]`: lists that go on in the next piece. Anything
/// else could be there twice.
fn holds_only_lists(table: &DeTable<'_>, piece: &str) -> bool {
    table.iter().all(|(name, value)| {
        let is_list = || piece.get(value.span()).is_some_and(|text| text.starts_with("[["));
        TABLES.contains(&name.get_ref().as_ref()) && value.get_ref().is_array() && is_list()
    })
}

#[cfg(test)]
mod tests {
    use super::super::Dictionary;
    use super::*;

    /// Some of everything, longer than several pieces.
    fn long() -> String {
        let entry = |number: i64| {
            format!(
                "[[key]]\nname = \"größe {number}\" # [[key]]\nkey = {number}\nholders = 1\ndatabases = [\"a*\"]\n\n\
                 [[holder]]\nname = \"h{number}\"\nusers = [\"u\"]\n[[silence]]\nnames = [\"x\"]\nreason = \"r\"\n"
            )
        };
        (0..1000).map(entry).collect()
    }

    fn whole(text: &str) -> Dictionary {
        Dictionary::parse_tables("keys.toml", text, DeTable::parse(text).unwrap().get_ref()).unwrap()
    }

    #[test]
    fn pieces_make_up_the_text() {
        let text = long();
        let pieces: Vec<&str> = pieces(&text).collect();
        assert!(pieces.len() > 5 && pieces.iter().all(|piece| piece.starts_with("[[key]]")), "{}", pieces.len());
        assert_eq!(pieces.concat(), text);
        assert_eq!(super::pieces("").collect::<Vec<_>>(), [""]);
    }

    #[test]
    fn entries_and_their_places_are_those_of_the_whole() {
        let text = long();
        assert!(read(&SourceText::new("keys.toml", &text)).is_some());
        let (read, whole) = (Dictionary::parse("keys.toml", &text).unwrap(), whole(&text));
        assert_eq!(format!("{:?}", read.keys), format!("{:?}", whole.keys));
        assert_eq!(format!("{:?}", read.holders), format!("{:?}", whole.holders));
        assert_eq!(format!("{:?}", read.silences), format!("{:?}", whole.silences));
    }

    #[test]
    fn what_is_wrong_far_behind_is_told_with_its_place() {
        let line = |text: &str| Dictionary::parse("keys.toml", text).unwrap_err()[0].line;
        let text = long();
        let last = text.lines().count() + 1;
        assert_eq!(line(&format!("{text}[[key]]\nname = \"größe 0\"\nkey = -1\n")), last + 1);
        assert_eq!(line(&format!("{text}[[key]]\nname = \"x\"\nkeys = 1\n")), last);
        assert_eq!(line(&format!("{text}[holder]\nname = \"x\"\n")), last);
        assert_eq!(line(&format!("{text}[[key]\n")), last);
        assert_eq!(line(&format!("holder = [{{ name = \"x\", users = [\"u\"] }}]\n{text}")), 8);
    }

    #[test]
    fn a_header_in_a_text_of_several_lines_is_no_header() {
        for quotes in ["\"\"\"", "'''"] {
            let text = format!("{}[[key]]\nname = \"x\"\nkey = -1\nnote = {quotes}\n[[key]]\n{quotes}\n", long());
            let text = format!("{text}{}", long().replace("größe", "x").replace("\"h", "\"i"));
            assert!(read(&SourceText::new("keys.toml", &text)).is_none());
            assert_eq!(Dictionary::parse("keys.toml", &text).unwrap().keys.len(), 2001);
        }
    }
}
