//! YAML as far as a web config needs it: one document of mappings, lists and texts, each with its place.
//!
//! The grammar is granit-parser's; here events become a tree that can be asked. It knows no field of the config. A
//! sentence names keys, never a value: a value may be a secret. An alias shares what it names, so no file grows by
//! being read.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::rc::Rc;

use granit_parser::{Event, Marker, Parser, ScalarStyle, Tag};

use crate::keys::problem::printable;

/// No web config is deeper.
const DEEPEST: usize = 32;

/// So many entries may come in by `<<`: more is no config.
const MERGED: usize = 10_000;

/// Where something begins. Both count from 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Place {
    line: usize,
    column: usize,
}

impl Place {
    fn of(marker: &Marker) -> Self {
        Self { line: marker.line(), column: marker.col() + 1 }
    }

    fn says(self, sentence: impl std::fmt::Display) -> String {
        format!("line {}, column {}: {sentence}", self.line, self.column)
    }
}

#[derive(Debug)]
enum Content {
    /// Nothing at all, `~` or `null`.
    Nothing,
    Text(String),
    List(Vec<Rc<Node>>),
    Mapping(Vec<Entry>),
}

/// A value, and where it stands.
#[derive(Debug)]
struct Node {
    place: Place,
    content: Content,
}

/// A key of a mapping and its value.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    /// The key.
    pub name: String,
    place: Place,
    value: Rc<Node>,
}

/// The entries of the mapping that the text is; none if it says nothing.
///
/// # Errors
/// It is no YAML, more than one document, or no mapping. The sentence begins with the place.
pub(super) fn read(text: &str) -> Result<Vec<Entry>, String> {
    let options = granit_parser::options! { flow_nesting_limit: DEEPEST, block_nesting_limit: DEEPEST };
    let mut builder = Builder::default();
    for event in Parser::new_from_str_with_options(text, options) {
        let (event, span) = event.map_err(|error| Place::of(error.marker()).says(error.kind()))?;
        builder.take(event, Place::of(&span.start))?;
    }
    let Some(root) = builder.root else { return Ok(Vec::new()) };
    match &root.content {
        Content::Nothing => Ok(Vec::new()),
        Content::Mapping(entries) => Ok(entries.clone()),
        Content::Text(_) | Content::List(_) => Err(root.place.says("the file must be a mapping")),
    }
}

impl Entry {
    /// The text; `None` if there is nothing.
    pub fn text(&self) -> Result<Option<String>, String> {
        self.text_of(&self.value)
    }

    fn text_of(&self, node: &Node) -> Result<Option<String>, String> {
        match &node.content {
            Content::Nothing => Ok(None),
            Content::Text(text) => Ok(Some(text.clone())),
            Content::List(_) | Content::Mapping(_) => Err(self.must_be(node, "text")),
        }
    }

    /// Yes or no, in each of YAML's words; `None` if there is nothing.
    pub fn truth(&self) -> Result<Option<bool>, String> {
        match self.text()?.map(|text| text.to_ascii_lowercase()).as_deref() {
            None => Ok(None),
            Some("true" | "yes" | "on" | "y") => Ok(Some(true)),
            Some("false" | "no" | "off" | "n") => Ok(Some(false)),
            Some(_) => Err(self.must_be(&self.value, "true or false")),
        }
    }

    /// The texts of a list; `None` if there is nothing.
    pub fn texts(&self) -> Result<Option<Vec<String>>, String> {
        let required = |node: &Rc<Node>| self.text_of(node)?.ok_or_else(|| self.must_be(node, "a list of texts"));
        match &self.value.content {
            Content::Nothing => Ok(None),
            Content::List(nodes) => nodes.iter().map(required).collect::<Result<_, _>>().map(Some),
            Content::Text(_) | Content::Mapping(_) => Err(self.must_be(&self.value, "a list")),
        }
    }

    /// The entries of a mapping; `None` if there is nothing.
    pub fn entries(&self) -> Result<Option<&[Entry]>, String> {
        match &self.value.content {
            Content::Nothing => Ok(None),
            Content::Mapping(entries) => Ok(Some(entries)),
            Content::Text(_) | Content::List(_) => Err(self.must_be(&self.value, "a mapping")),
        }
    }

    /// The texts of a mapping, by their keys; `None` if there is nothing.
    pub fn named_texts(&self) -> Result<Option<BTreeMap<String, String>>, String> {
        let named = |entry: &Entry| {
            let text = entry.text()?.ok_or_else(|| entry.must_be(&entry.value, "text"))?;
            Ok((entry.name.clone(), text))
        };
        self.entries()?.map(|entries| entries.iter().map(named).collect()).transpose()
    }

    /// Whether there is anything, whatever it is.
    pub fn says_something(&self) -> bool {
        !matches!(self.value.content, Content::Nothing)
    }

    /// That nobody knows this key.
    pub fn unknown(&self, known: &[&str]) -> String {
        self.place.says(format_args!("unknown field `{}`, expected one of {}", printable(&self.name), known.join(", ")))
    }

    fn must_be(&self, node: &Node, what: &str) -> String {
        node.place.says(format_args!("`{}` must be {what}", printable(&self.name)))
    }
}

/// A key that waits for its value.
struct Key {
    name: String,
    place: Place,
    merges: bool,
}

enum Inside {
    List(Vec<Rc<Node>>),
    Mapping { entries: Vec<Entry>, merged: Vec<Entry>, key: Option<Key> },
}

/// A list or mapping whose end has not come yet.
struct Open {
    place: Place,
    anchor: usize,
    inside: Inside,
}

/// The tree so far.
#[derive(Default)]
struct Builder {
    open: Vec<Open>,
    /// What aliases may name: granit-parser's numbers.
    anchors: HashMap<usize, Rc<Node>>,
    merged: usize,
    root: Option<Rc<Node>>,
}

impl Builder {
    fn take(&mut self, event: Event<'_>, place: Place) -> Result<(), String> {
        match event {
            Event::DocumentStart(..) if self.root.is_some() => {
                Err(place.says("a second document begins here, and only one is read"))
            }
            Event::Scalar(text, style, anchor, tag) => {
                let tagged = known(tag.as_deref(), "str", place)?;
                let plain = style == ScalarStyle::Plain && !tagged;
                let content = match &*text {
                    "" | "~" | "null" | "Null" | "NULL" if plain => Content::Nothing,
                    _ => Content::Text(text.into_owned()),
                };
                let merges = plain && matches!(&content, Content::Text(text) if text == "<<");
                self.place_node(Rc::new(Node { place, content }), anchor, merges)
            }
            Event::SequenceStart(_, anchor, tag) => {
                known(tag.as_deref(), "seq", place)?;
                self.open.push(Open { place, anchor, inside: Inside::List(Vec::new()) });
                Ok(())
            }
            Event::MappingStart(_, anchor, tag) => {
                known(tag.as_deref(), "map", place)?;
                let inside = Inside::Mapping { entries: Vec::new(), merged: Vec::new(), key: None };
                self.open.push(Open { place, anchor, inside });
                Ok(())
            }
            Event::SequenceEnd | Event::MappingEnd => self.close(),
            Event::Alias(anchor) => {
                let named = self.anchors.get(&anchor).cloned();
                let named = named.ok_or_else(|| place.says("an alias stands inside of what it names"))?;
                self.place_node(named, 0, false)
            }
            _ => Ok(()),
        }
    }

    /// Ends the innermost list or mapping.
    fn close(&mut self) -> Result<(), String> {
        let Some(Open { place, anchor, inside }) = self.open.pop() else { return Ok(()) };
        let content = match inside {
            Inside::List(nodes) => Content::List(nodes),
            Inside::Mapping { mut entries, merged, .. } => {
                let mut names = HashSet::new();
                if let Some(again) = entries.iter().find(|entry| !names.insert(entry.name.clone())) {
                    return Err(again.place.says(format_args!("`{}` is there twice", printable(&again.name))));
                }
                // What the mapping says itself comes first, then what was merged first.
                entries.extend(merged.into_iter().filter(|entry| names.insert(entry.name.clone())));
                Content::Mapping(entries)
            }
        };
        self.place_node(Rc::new(Node { place, content }), anchor, false)
    }

    /// Puts a complete value where it belongs.
    fn place_node(&mut self, node: Rc<Node>, anchor: usize, merges: bool) -> Result<(), String> {
        if anchor != 0 {
            self.anchors.insert(anchor, Rc::clone(&node));
        }
        match self.open.last_mut().map(|open| &mut open.inside) {
            None => self.root = Some(node),
            Some(Inside::List(nodes)) => nodes.push(node),
            Some(Inside::Mapping { entries, merged, key }) => match key.take() {
                None => *key = Some(as_key(&node, merges)?),
                Some(Key { merges: true, .. }) => {
                    for mapping in mappings(&node)? {
                        self.merged += mapping.len();
                        if self.merged > MERGED {
                            return Err(node.place.says("too much is merged with <<"));
                        }
                        merged.extend_from_slice(mapping);
                    }
                }
                Some(Key { name, place, .. }) => entries.push(Entry { name, place, value: node }),
            },
        }
        Ok(())
    }
}

/// Whether there is a tag. Only the one that says what the value is anyway is known.
fn known(tag: Option<&Tag>, kind: &str, place: Place) -> Result<bool, String> {
    match tag {
        None => Ok(false),
        Some(tag) if tag.is_yaml_core_schema_tag(kind) => Ok(true),
        Some(_) => Err(place.says(format_args!("of the tags only !!{kind} is known here"))),
    }
}

fn as_key(node: &Node, merges: bool) -> Result<Key, String> {
    match &node.content {
        Content::Text(name) => Ok(Key { name: name.clone(), place: node.place, merges }),
        _ => Err(node.place.says("a key must be text")),
    }
}

/// What `<<` merges: a mapping, or each of a list.
fn mappings(node: &Node) -> Result<Vec<&[Entry]>, String> {
    fn mapping(node: &Node) -> Option<&[Entry]> {
        if let Content::Mapping(entries) = &node.content { Some(entries) } else { None }
    }
    let all = match &node.content {
        Content::List(nodes) => nodes.iter().map(|node| mapping(node)).collect(),
        _ => mapping(node).map(|entries| vec![entries]),
    };
    all.ok_or_else(|| node.place.says("what is merged with << must be a mapping or a list of mappings"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The texts of the mapping `a`, as `name=text`.
    fn texts(text: &str) -> Result<Vec<String>, String> {
        let entries = read(text)?;
        let entry = entries.iter().find(|entry| entry.name == "a").unwrap();
        Ok(entry.named_texts()?.unwrap().iter().map(|(name, text)| format!("{name}={text}")).collect())
    }

    #[test]
    fn a_value_is_read_as_people_mean_it() {
        for (written, text) in [
            ("x", Some("x")),
            ("12", Some("12")),
            ("1.20", Some("1.20")),
            ("'it''s'", Some("it's")),
            ("\"\\x41\\n\"", Some("A\n")),
            ("y#z # a remark", Some("y#z")),
            ("|\n   x\n   y\n", Some("x\ny\n")),
            (">-\n   x\n   y\n", Some("x y")),
            ("''", Some("")),
            ("'null'", Some("null")),
            ("!!str null", Some("null")),
            ("!!str 12", Some("12")),
            ("", None),
            ("~", None),
            ("null", None),
        ] {
            let entries = read(&format!("key: {written}\n")).unwrap();
            assert_eq!(entries[0].text().unwrap().as_deref(), text, "{written}");
            assert_eq!(entries[0].says_something(), text.is_some(), "{written}");
        }
        for (written, truth) in [("true", Some(true)), ("\"No\"", Some(false)), ("ON", Some(true)), ("", None)] {
            assert_eq!(read(&format!("key: {written}\n")).unwrap()[0].truth().unwrap(), truth, "{written}");
        }
        assert_eq!(read("key: [a, 1]\n").unwrap()[0].texts().unwrap().unwrap(), ["a", "1"]);
        assert!(read("\u{feff}key:\r\n  - a\r\n").unwrap()[0].texts().unwrap().is_some());
        for nothing in ["", "\n", "---\n", "# a remark", "~", "{}", "...\n", "--- # a remark\n...\n"] {
            assert!(read(nothing).unwrap().is_empty(), "{nothing:?}");
        }
    }

    #[test]
    fn aliases_share_and_merging_adds_what_is_not_there() {
        assert_eq!(texts("b: &b {x: 1}\na: *b\n").unwrap(), ["x=1"]);
        assert_eq!(texts("a: {x: &x 1, y: *x}\n").unwrap(), ["x=1", "y=1"]);
        assert_eq!(texts("b: &b {x: 1, y: 2}\na:\n  <<: *b\n  y: 3\n").unwrap(), ["x=1", "y=3"]);
        assert_eq!(texts("a: {<<: [{x: 1}, {x: 2, y: 3}]}\n").unwrap(), ["x=1", "y=3"]);
        assert_eq!(texts("a: {'<<': 1}\n").unwrap(), ["<<=1"]);
        for (text, said) in [
            ("a: *b\n", "line 1, column 4: while parsing node, found unknown anchor"),
            ("a: &a\n  x: *a\n", "line 2, column 6: an alias stands inside of what it names"),
            ("a: {<<: 1}\n", "line 1, column 9: what is merged with << must be a mapping or a list of mappings"),
            ("a: {<<: [1]}\n", "line 1, column 9: what is merged with << must be a mapping or a list of mappings"),
        ] {
            assert_eq!(texts(text).unwrap_err(), said);
        }
    }

    #[test]
    fn no_file_grows_by_being_read() {
        let doubled = |by: &dyn Fn(String) -> String| {
            let level = |n: usize| format!("b{}: &b{} {}\n", n + 1, n + 1, by(vec![format!("*b{n}"); 10].join(", ")));
            format!("b0: &b0 {{x: 1}}\n{}", (0..20).map(level).collect::<String>())
        };
        let entries = read(&doubled(&|aliases| format!("[{aliases}]"))).unwrap();
        assert_eq!((entries.len(), entries[20].texts().is_err()), (21, true));
        // A mapping that is merged has each key once.
        assert_eq!(
            read(&doubled(&|aliases| format!("{{<<: [{aliases}]}}"))).unwrap()[20].entries().unwrap().unwrap().len(),
            1
        );
        let many = (0..2_000).fold(String::new(), |keys, n| keys + &format!("k{n}: 1, "));
        let error = read(&format!("b: &b {{{many}}}\na: {{<<: [*b, *b, *b, *b, *b, *b]}}\n")).unwrap_err();
        assert_eq!(error, "line 2, column 9: too much is merged with <<");
        for deep in ["[".repeat(100_000), "- ".repeat(100_000), "{a: ".repeat(100_000), "? ".repeat(100_000)] {
            let error = read(&deep).unwrap_err();
            assert!(error.starts_with("line 1, column ") && error.len() < 100, "{error}");
        }
    }

    #[test]
    fn what_is_not_one_document_of_known_things_is_refused() {
        for (text, said) in [
            ("a: 1\n---\na: 1\n", "line 2, column 1: a second document begins here, and only one is read"),
            ("a: 1\n...\nhunter2: 1\n", "line 3, column 1: a second document begins here, and only one is read"),
            ("a: !!binary aHVudGVyMg==\n", "line 1, column 13: of the tags only !!str is known here"),
            ("a: !hunter2 x\n", "line 1, column 13: of the tags only !!str is known here"),
            ("a: !!set {x}\n", "line 1, column 10: of the tags only !!map is known here"),
            ("a: !!map [x]\n", "line 1, column 10: of the tags only !!seq is known here"),
            ("a:\n\tb: hunter2\n", "line 2, column 2: tabs "),
            ("a: 'hunter2\n", "line 1, column "),
            ("a: hunter2: x\n", "line 1, column "),
            ("a: [hunter2\n", "line "),
            ("@hunter2", "line 1, column 1: unexpected character: `@'"),
        ] {
            let error = read(text).unwrap_err();
            assert!(
                error.starts_with(said) && !error.contains("hunter2") && !error.contains('\n'),
                "{text:?}: {error}"
            );
        }
    }
}
