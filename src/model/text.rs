//! A text that many share.
//!
//! Knows nothing of what it says.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::collections::HashSet;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// A text that many share, in half the room of an `Arc<str>`.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct SharedText(Arc<Box<str>>);

impl SharedText {
    /// The text.
    pub fn as_str(&self) -> &str {
        self
    }
}

impl Deref for SharedText {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl Default for SharedText {
    fn default() -> Self {
        "".into()
    }
}

/// By what they say. The same text needs no look at it.
impl Ord for SharedText {
    fn cmp(&self, other: &Self) -> Ordering {
        if Arc::ptr_eq(&self.0, &other.0) { Ordering::Equal } else { self.0.cmp(&other.0) }
    }
}

impl PartialOrd for SharedText {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl From<&str> for SharedText {
    fn from(text: &str) -> Self {
        Self(Arc::new(text.into()))
    }
}

/// As the text itself: ids of findings are made of it.
impl fmt::Debug for SharedText {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, formatter)
    }
}

impl fmt::Display for SharedText {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&**self, formatter)
    }
}

impl From<String> for SharedText {
    fn from(text: String) -> Self {
        Self(Arc::new(text.into()))
    }
}

impl Borrow<str> for SharedText {
    fn borrow(&self) -> &str {
        self
    }
}

impl PartialEq<str> for SharedText {
    fn eq(&self, other: &str) -> bool {
        **self == *other
    }
}

impl PartialEq<&str> for SharedText {
    fn eq(&self, other: &&str) -> bool {
        **self == **other
    }
}

/// Texts that come again and again: each is kept once, as long as it comes.
#[derive(Debug, Default)]
pub struct Texts {
    now: HashSet<SharedText>,
    before: HashSet<SharedText>,
}

impl Texts {
    /// This text.
    pub fn of(&mut self, text: &str) -> SharedText {
        if let Some(known) = self.now.get(text) {
            return known.clone();
        }
        let text = self.before.take(text).unwrap_or_else(|| text.into());
        self.now.insert(text.clone());
        text
    }

    /// Begins anew: texts that do not come before this is called again are let go then.
    pub fn begin(&mut self) {
        std::mem::swap(&mut self.now, &mut self.before);
        self.now.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_in_the_order_of_what_they_say() {
        let [b, a, same] = ["b", "a", "a"].map(SharedText::from);
        let mut texts = [&b, &a, &same];
        texts.sort();
        assert_eq!(texts.map(SharedText::as_str), ["a", "a", "b"]);
        assert_eq!((a.cmp(&same), a.cmp(&a.clone()), a.cmp(&b)), (Ordering::Equal, Ordering::Equal, Ordering::Less));
    }

    #[test]
    fn a_text_is_kept_once_and_as_long_as_it_comes() {
        let mut texts = Texts::default();
        let first = texts.of("app");
        let users = |text: &SharedText| Arc::strong_count(&text.0);
        assert_eq!((first == "app", users(&texts.of("app"))), (true, 3));
        texts.begin();
        assert_eq!(users(&texts.of("app")), 3, "the text of the last time");
        texts.begin();
        assert_eq!(users(&first), 2, "it may come yet");
        texts.begin();
        assert_eq!(users(&first), 1);
    }
}
