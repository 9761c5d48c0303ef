//! Glob patterns on names that PostgreSQL shows.
//!
//! `*` is any text, `?` any character, `[ab]` one of these, `{a,b}` one of these texts; `\` takes the meaning away.
//! There is no path here: `*` also matches a slash.

use std::collections::HashMap;
use std::sync::Arc;

use globset::{GlobBuilder, GlobMatcher};

/// Glob patterns of which one must match. An empty list matches everything.
#[derive(Debug, Clone, Default)]
pub struct Globs {
    /// The patterns as written.
    pub patterns: Vec<String>,
    /// In the same order; nothing for a pattern that is a plain text.
    compiled: Arc<[Compiled]>,
}

/// Nothing for a plain text. To compile a pattern takes far longer than to read an entry, and a dictionary repeats the
/// same few patterns: copies share it.
type Compiled = Option<Arc<GlobMatcher>>;

/// The patterns that were compiled before.
#[derive(Debug, Default)]
pub(super) struct GlobCache(HashMap<String, Arc<GlobMatcher>>);

impl Globs {
    /// These patterns.
    ///
    /// # Errors
    /// The place of the first pattern that is wrong, and what is wrong with it.
    pub fn new(patterns: Vec<String>) -> Result<Self, (usize, String)> {
        Self::cached(patterns, &mut GlobCache::default())
    }

    /// These patterns, of which some may have been compiled before.
    pub(super) fn cached(patterns: Vec<String>, cache: &mut GlobCache) -> Result<Self, (usize, String)> {
        let mut compiled = Vec::with_capacity(patterns.len());
        for (place, pattern) in patterns.iter().enumerate() {
            compiled.push(compile(pattern, cache).map_err(|why| (place, why))?);
        }
        Ok(Self { patterns, compiled: compiled.into() })
    }

    /// No pattern was given.
    pub fn is_empty(&self) -> bool {
        self.patterns.is_empty()
    }

    /// Whether one of the patterns matches the whole text, or there is no pattern.
    pub fn matches(&self, text: &str) -> bool {
        self.is_empty() || self.pairs().any(|pair| matches(pair, text))
    }

    /// Whether some text may match both lists. Where both have true patterns it is only sure that they exclude each
    /// other if they begin differently; else the answer is yes.
    pub fn may_overlap(&self, other: &Self) -> bool {
        self.is_empty()
            || other.is_empty()
            || self.pairs().any(|mine| {
                other.pairs().any(|theirs| match (mine.1, theirs.1) {
                    (None, _) => matches(theirs, mine.0),
                    (_, None) => matches(mine, theirs.0),
                    (Some(_), Some(_)) => {
                        let (mine, theirs) = (plain_beginning(mine.0), plain_beginning(theirs.0));
                        mine.starts_with(theirs) || theirs.starts_with(mine)
                    }
                })
            })
    }

    /// The plain texts among the patterns.
    pub fn plain(&self) -> impl Iterator<Item = &str> {
        self.pairs().filter(|(_, glob)| glob.is_none()).map(|(text, _)| text)
    }

    fn pairs(&self) -> impl Iterator<Item = (&str, Option<&GlobMatcher>)> {
        self.patterns.iter().map(String::as_str).zip(self.compiled.iter().map(Option::as_deref))
    }
}

fn matches((pattern, glob): (&str, Option<&GlobMatcher>), text: &str) -> bool {
    glob.map_or(pattern == text, |glob| glob.is_match(text))
}

const SPECIAL: [char; 7] = ['*', '?', '[', ']', '{', '}', '\\'];

fn compile(pattern: &str, cache: &mut GlobCache) -> Result<Compiled, String> {
    if !pattern.contains(SPECIAL) {
        return Ok(None);
    }
    if let Some(known) = cache.0.get(pattern) {
        return Ok(Some(Arc::clone(known)));
    }
    let glob = GlobBuilder::new(pattern).backslash_escape(true).build().map_err(|error| error.kind().to_string())?;
    let matcher = Arc::new(glob.compile_matcher());
    cache.0.insert(pattern.to_owned(), Arc::clone(&matcher));
    Ok(Some(matcher))
}

fn plain_beginning(pattern: &str) -> &str {
    pattern.split(SPECIAL).next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn globs(patterns: &[&str]) -> Globs {
        Globs::new(patterns.iter().map(|&pattern| pattern.to_owned()).collect()).unwrap()
    }

    #[test]
    fn one_of_the_patterns_must_match_the_whole_text() {
        let some = globs(&["report-*", "api", "web?", "{a,b}/[xy]", "st\\*r"]);
        for text in ["report-", "report-7/9\n\"x\"", "api", "web1", "a/x", "b/y", "st*r"] {
            assert!(some.matches(text), "{text}");
        }
        for text in ["", "REPORT-1", "report", "api2", "xapi", "web", "a/z", "star"] {
            assert!(!some.matches(text), "{text}");
        }
        assert!(Globs::default().matches("anything"));
        assert!(globs(&["*"]).matches("a/b\u{1b}\u{fffd}"));
        assert!(globs(&["*.rs"]).matches("a/b.rs") && globs(&["*.rs"]).matches(".rs"));
        assert!(globs(&[""]).matches("") && !globs(&[""]).matches("x"));
    }

    #[test]
    fn a_wrong_pattern_is_told_with_its_place() {
        let (place, why) = Globs::new(vec!["a".to_owned(), "[b".to_owned()]).unwrap_err();
        assert_eq!(place, 1);
        assert!(why.contains("unclosed"), "{why}");
    }

    #[test]
    fn lists_that_exclude_each_other_are_known() {
        let overlap = |a: &[&str], b: &[&str]| globs(a).may_overlap(&globs(b)) && globs(b).may_overlap(&globs(a));
        assert!(overlap(&[], &["app"]));
        assert!(overlap(&["app", "shop"], &["shop"]));
        assert!(overlap(&["app*"], &["application"]));
        assert!(overlap(&["orders-*"], &["orders-eu-*"]));
        assert!(!overlap(&["app"], &["shop"]));
        assert!(!overlap(&["app*"], &["shop"]));
        assert!(!overlap(&["orders-*"], &["billing-*"]));
    }
}
