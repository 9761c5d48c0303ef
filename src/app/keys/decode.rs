//! `keys decode`: from a number to everything that is known of it.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::sync::Arc;

use serde_json::{Value, json};

use super::{GOOD, USAGE, is_json, write_json};
use crate::cli::keys::KeysArgs;
use crate::keys::hash::{Algorithm, Value as Hashed};
use crate::keys::problem::printable;
use crate::keys::{Entry, KeyBook, LookUp, Matcher, Name, key, presets, well_known};
use crate::model::KeyNumbers;

/// A way from a text of the dictionary to the key.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Origin {
    /// The text.
    text: String,
    /// Of a pair, which number it is; nothing where it is the whole key.
    part: Option<&'static str>,
}

/// Everything known of one key.
struct Decoded {
    key: KeyNumbers,
    remarks: Vec<String>,
    /// A formula over the database's name may know it.
    needs_database: bool,
    entries: Vec<Arc<Entry>>,
    known: Vec<Name>,
    /// Built-in names of a number that anybody may use.
    candidates: Vec<(&'static str, &'static str)>,
    /// With all ways that lead there, as `crc32` or `preset symfony-lock`.
    origins: BTreeMap<Origin, Vec<String>>,
}

pub(super) fn run(
    args: &KeysArgs,
    typed: &[String],
    book: &KeyBook,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> io::Result<u8> {
    let mut code = GOOD;
    let mut values = Vec::new();
    let mut first = true;
    let mut needs_database = false;
    for text in typed {
        match key::parse(text) {
            Ok(numbers) => {
                let decoded = decode(numbers, book, args.database.as_deref());
                if is_json(args) {
                    values.push(decoded.json(text.trim()));
                    continue;
                }
                if !first {
                    writeln!(out)?;
                }
                first = false;
                needs_database |= decoded.needs_database;
                decoded.write(out)?;
            }
            Err(error) => {
                code = USAGE;
                if is_json(args) {
                    values.push(json!({ "input": text.trim(), "error": error.to_string() }));
                } else {
                    writeln!(err, "pglockwatch: {error}")?;
                }
            }
        }
    }
    if is_json(args) {
        write_json(out, &json!({ "schema": 1, "database": args.database, "keys": values }))?;
    }
    if needs_database {
        writeln!(out, "\nWith --database NAME, formulas over a database's name are tried too.")?;
    }
    Ok(code)
}

fn decode(numbers: KeyNumbers, book: &KeyBook, database: Option<&str>) -> Decoded {
    let known = book.well_known_names(numbers, LookUp { database, ..LookUp::default() });
    let entries = entries(numbers, book, database);
    let unnamed = known.is_empty() && entries.is_empty() && book.knows_well_known();
    let candidates = if unnamed { well_known::candidates(numbers) } else { Vec::new() };
    let unknown = known.is_empty() && entries.is_empty();
    let needs_database = unknown && database.is_none() && key::bigint(numbers).is_some();
    let (remarks, origins) = (remarks(numbers), origins(numbers, book));
    Decoded { key: numbers, remarks, needs_database, entries, known, candidates, origins }
}

/// The entries that name the key, exact ones before classes and ranges. Without a database, entries of any database
/// count.
fn entries(numbers: KeyNumbers, book: &KeyBook, database: Option<&str>) -> Vec<Arc<Entry>> {
    let valid = |entry: &&Arc<Entry>| database.is_none_or(|database| entry.databases.matches(database));
    let naming = |exact: bool| {
        let names = move |entry: &&Arc<Entry>| names_key(entry, numbers, database, exact);
        book.entries().iter().filter(valid).filter(names).cloned().collect::<Vec<_>>()
    };
    let exact = naming(true);
    if exact.is_empty() { naming(false) } else { exact }
}

fn names_key(entry: &Entry, numbers: KeyNumbers, database: Option<&str>, exact: bool) -> bool {
    match &entry.matcher {
        Matcher::Class(class) => !exact && key::pair(numbers).is_some_and(|(first, _)| first == *class),
        Matcher::Range(range) => !exact && key::bigint(numbers).is_some_and(|number| range.contains(&number)),
        Matcher::PerDatabase(formula) if exact => match database {
            Some(database) => formula.keys(database).contains(&numbers),
            None => entry.databases.plain().any(|database| formula.keys(database).contains(&numbers)),
        },
        Matcher::PerDatabase(_) => false,
        Matcher::Exact(_) | Matcher::OneOf(_) => exact && entry.matcher.exact().contains(&numbers),
    }
}

/// Every text of the dictionary that gives the key under some hash or preset.
fn origins(numbers: KeyNumbers, book: &KeyBook) -> BTreeMap<Origin, Vec<String>> {
    let mut origins: BTreeMap<Origin, Vec<String>> = BTreeMap::new();
    let mut add = |text: &str, how: &str, part| {
        origins.entry(Origin { text: text.to_owned(), part }).or_default().push(how.to_owned());
    };
    let presets: Vec<_> = presets::all().filter(presets::Preset::is_name_hash).collect();
    let texts: BTreeSet<&str> =
        book.entries_with_inputs().flat_map(|(entry, input)| [Some(entry.name.as_str()), input]).flatten().collect();
    for text in texts {
        for algorithm in Algorithm::ALL {
            let hashed = algorithm.hash(text.as_bytes());
            if key::from_bigint(hashed.bigint()) == numbers {
                add(text, algorithm.name(), None);
            }
            let Hashed::Int4(value) = hashed else { continue };
            if value < 0 && key::from_bigint(i64::from(value.cast_unsigned())) == numbers {
                add(text, &format!("{}, unsigned", algorithm.name()), None);
            }
            if let Some((first, second)) = key::pair(numbers) {
                for (number, part) in [(first, "first number"), (second, "second number")] {
                    if number == value {
                        add(text, algorithm.name(), Some(part));
                    }
                }
            }
        }
        for preset in &presets {
            if preset.keys_of_name(text).contains(&numbers) {
                add(text, &format!("preset {}", preset.name), None);
            }
        }
    }
    origins
}

fn remarks(numbers: KeyNumbers) -> Vec<String> {
    let mut remarks = Vec::new();
    if key::is_sign_extended(numbers) {
        remarks.push("a negative 32-bit number, sign-extended: a hashtext or crc32 of some name".to_owned());
    }
    if let Some(value) = key::bigint(numbers) {
        let bytes = value.to_be_bytes();
        if bytes.iter().all(u8::is_ascii_graphic) {
            let text: String = bytes.iter().copied().map(char::from).collect();
            remarks.push(format!("\"{text}\" in ASCII"));
        }
    }
    remarks
}

impl Decoded {
    /// The second line of numbers: unsigned, and hexadecimal.
    fn other_forms(&self) -> (Option<String>, String) {
        let (classid, objid) = (self.key.classid, self.key.objid);
        match (key::bigint(self.key), key::pair(self.key)) {
            (Some(value), _) => {
                let bits = value.cast_unsigned();
                ((value < 0).then(|| bits.to_string()), format!("0x{bits:X}"))
            }
            (_, Some((first, second))) => (
                (first < 0 || second < 0).then(|| format!("({classid},{objid})")),
                format!("(0x{classid:X},0x{objid:X})"),
            ),
            _ => (None, format!("0x{classid:X}/0x{objid:X}/0x{:X}", self.key.objsubid)),
        }
    }

    fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        let text = key::text(self.key);
        let width = (text.len() + 2).max(15);
        let mut line = |head: &str, tail: &str| writeln!(out, "{head:<width$}{tail}");
        let (classid, objid) = (self.key.classid, self.key.objid);
        let what = match key::space(self.key) {
            "bigint" => format!("bigint, classid {classid}, objid {objid}"),
            "int4-pair" => format!("pair of int4s, classid {classid}, objid {objid}"),
            _ => format!("an extension's, classid {classid}, objid {objid}, objsubid {}", self.key.objsubid),
        };
        line(&text, &what)?;
        let (unsigned, hex) = self.other_forms();
        line(
            "",
            &unsigned.map_or_else(|| format!("hex {hex}"), |unsigned| format!("unsigned {unsigned}   hex {hex}")),
        )?;
        for remark in &self.remarks {
            line("", remark)?;
        }
        for name in &self.known {
            let head = if name.may_be { "may be" } else { "known" };
            line(head, &format!("{}   {}", name.label, name.note.as_deref().unwrap_or_default()))?;
        }
        for (name, note) in &self.candidates {
            line("may be", &format!("{name}   {note}"))?;
        }
        for entry in &self.entries {
            line("dictionary", &described(entry, self.key))?;
        }
        if self.entries.is_empty() {
            line("dictionary", "no entry")?;
        }
        for (origin, ways) in &self.origins {
            line("made of", &origin.sentence(ways))?;
        }
        Ok(())
    }

    fn json(&self, typed: &str) -> Value {
        let (unsigned, hex) = self.other_forms();
        let known = self.known.iter().map(|name| {
            json!({ "name": name.name, "label": name.label, "source": "well-known", "kind": name.kind.name(),
                "note": name.note, "may_be": name.may_be })
        });
        let candidates = self.candidates.iter().map(|(name, note)| {
            json!({ "name": name, "label": name, "source": "well-known", "kind": null, "note": note, "may_be": true })
        });
        let entries = self.entries.iter().map(|entry| {
            json!({ "name": entry.name, "label": entry.label(self.key), "source": "dictionary",
                "kind": entry.kind.name(), "owner": entry.owner, "team": entry.team, "contact": entry.contact,
                "note": entry.note, "may_be": false })
        });
        let origins =
            self.origins.iter().map(|(origin, ways)| json!({ "text": origin.text, "part": origin.part, "ways": ways }));
        json!({
            "input": typed,
            "key": { "text": key::text(self.key), "space": key::space(self.key), "classid": self.key.classid,
                "objid": self.key.objid, "objsubid": self.key.objsubid },
            "unsigned": unsigned,
            "hex": hex,
            "sign_extended": key::is_sign_extended(self.key),
            "remarks": self.remarks,
            "names": entries.chain(known).chain(candidates).collect::<Vec<_>>(),
            "made_of": origins.collect::<Vec<_>>(),
        })
    }
}

impl Origin {
    fn sentence(&self, ways: &[String]) -> String {
        let (text, ways) = (printable(&self.text), ways.join(" or "));
        match self.part {
            Some(part) => format!("the {part} is {ways} of \"{text}\""),
            None => format!("{ways} of \"{text}\""),
        }
    }
}

/// An entry in one line.
fn described(entry: &Entry, numbers: KeyNumbers) -> String {
    let mut parts = vec![entry.kind.name().to_owned()];
    let mut add = |what: &str, value: &Option<String>| {
        if let Some(value) = value {
            parts.push(if what.is_empty() { printable(value) } else { format!("{what} {}", printable(value)) });
        }
    };
    add("owner", &entry.owner);
    add("team", &entry.team);
    add("contact", &entry.contact);
    add("", &entry.note);
    if !entry.databases.is_empty() {
        parts.push(format!("only in {}", printable(&entry.databases.patterns.join(", "))));
    }
    if !entry.targets.is_empty() {
        parts.push(format!("only on {}", printable(&entry.targets.patterns.join(", "))));
    }
    format!("{}   {}", printable(&entry.label(numbers)), parts.join(", "))
}
