//! What to do about a finding.
//!
//! Knows the shape of an advice and when it is worded, not its words: those are the rules'.

use std::borrow::Cow;
use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

/// What the step that says how to verify begins with: a front end may set it apart.
pub const VERIFY: &str = "Verify:\n";

/// What a person may do about a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Action {
    /// End the session, guarded.
    Terminate,
    /// Cancel a waiter, guarded.
    CancelWaiter,
    /// Ask the transaction manager, then finish the prepared transaction.
    FinishPrepared,
    /// Let PgBouncer replace its server connections, or end the session, guarded.
    ReconnectPooler,
    /// Grant our role what it needs.
    Grant,
    /// Mend the dictionary.
    FixDictionary,
    /// Look first: it may be work.
    Investigate,
    /// Nothing to do.
    None,
}

impl Action {
    /// The name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Terminate => "terminate",
            Self::CancelWaiter => "cancel-waiter",
            Self::FinishPrepared => "finish-prepared",
            Self::ReconnectPooler => "reconnect-pooler",
            Self::Grant => "grant",
            Self::FixDictionary => "fix-dictionary",
            Self::Investigate => "investigate",
            Self::None => "none",
        }
    }
}

/// What to do about a finding, in words and as a statement that a person may run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Advice {
    /// Which kind of thing to do.
    pub action: Action,
    /// In this order, one sentence each.
    pub steps: Vec<String>,
    /// One statement, guarded: it does nothing once the situation has changed.
    pub sql: Option<String>,
    /// What to know before.
    pub caveats: Vec<String>,
    /// How to prevent it.
    pub prevent: Vec<Cow<'static, str>>,
}

impl Advice {
    /// Adds a target's words to each command that verifies.
    fn complete(&mut self, words: &str) {
        for step in self.steps.iter_mut().filter(|step| step.starts_with(VERIFY)) {
            step.push_str(words);
        }
    }
}

/// Who words the advice about the findings of a poll.
pub trait Adviser: fmt::Debug + Send + Sync {
    /// The advice about the finding that was the one of this number in its poll. The same each time.
    fn advise(&self, number: usize) -> Advice;
}

/// Advice that is worded when somebody first reads it. Thousands of findings may be there for days before anybody does,
/// and their wording costs as much as all judging.
#[derive(Debug, Clone)]
pub struct LateAdvice {
    adviser: Arc<dyn Adviser>,
    number: usize,
    /// What commands that verify end with.
    again: Arc<str>,
    worded: OnceLock<Advice>,
}

impl LateAdvice {
    /// The advice about a finding, by its number.
    pub fn new(adviser: Arc<dyn Adviser>, number: usize) -> Self {
        Self { adviser, number, again: Arc::default(), worded: OnceLock::new() }
    }

    /// Adds a target's words to each command that verifies: the rules know no command line.
    pub fn complete(&mut self, words: &Arc<str>) {
        match self.worded.get_mut() {
            Some(advice) => advice.complete(words),
            None => self.again = Arc::clone(words),
        }
    }

    fn word(&self) -> Advice {
        let mut advice = self.adviser.advise(self.number);
        advice.complete(&self.again);
        advice
    }
}

impl Deref for LateAdvice {
    type Target = Advice;

    fn deref(&self) -> &Advice {
        self.worded.get_or_init(|| self.word())
    }
}

/// For tests: an advice that is there already, and may be changed.
#[cfg(test)]
impl From<Advice> for LateAdvice {
    fn from(advice: Advice) -> Self {
        Self { worded: OnceLock::from(advice), ..Self::new(Arc::new(tests::Nobody), 0) }
    }
}

#[cfg(test)]
impl std::ops::DerefMut for LateAdvice {
    fn deref_mut(&mut self) -> &mut Advice {
        let _ = &**self;
        self.worded.get_mut().unwrap()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// Has nothing to say.
    #[derive(Debug)]
    pub(super) struct Nobody;

    impl Adviser for Nobody {
        fn advise(&self, _number: usize) -> Advice {
            unreachable!("the advice is there already")
        }
    }

    #[derive(Debug, Default)]
    struct Counting(AtomicUsize);

    impl Adviser for Counting {
        fn advise(&self, number: usize) -> Advice {
            self.0.fetch_add(1, Ordering::Relaxed);
            Advice {
                action: Action::Investigate,
                steps: vec![format!("Ask about {number}."), format!("{VERIFY}pglockwatch check")],
                sql: None,
                caveats: Vec::new(),
                prevent: Vec::new(),
            }
        }
    }

    #[test]
    fn it_is_worded_once_and_only_for_who_reads_it() {
        let adviser = Arc::new(Counting::default());
        let mut late = LateAdvice::new(Arc::clone(&adviser) as Arc<dyn Adviser>, 7);
        late.complete(&" -d db1".into());
        assert_eq!(adviser.0.load(Ordering::Relaxed), 0);
        assert_eq!(late.steps, ["Ask about 7.", "Verify:\npglockwatch check -d db1"]);
        assert_eq!(late.action, Action::Investigate);
        assert_eq!(adviser.0.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn what_was_read_already_is_completed_too() {
        let mut late = LateAdvice::new(Arc::new(Counting::default()), 7);
        assert_eq!(late.steps[1], "Verify:\npglockwatch check");
        late.complete(&" -d db1".into());
        assert_eq!(late.steps, ["Ask about 7.", "Verify:\npglockwatch check -d db1"]);
    }
}
