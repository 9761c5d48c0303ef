//! One statement: which advisory lock functions it calls, in which form, and where in it.
//!
//! Pure. It knows SQL's lexical rules and the shape of a query, and nothing of tables or of what a planner will do.

use std::iter::Peekable;
use std::str::Chars;

use crate::keys::hash::hashtext;
use crate::keys::key;
use crate::model::KeyNumbers;
use crate::sql::without_comments;

/// What a function does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verb {
    /// Waits until it has the lock.
    Lock,
    /// Takes the lock or says false.
    Try,
    /// Gives one lock back.
    Unlock,
    /// Gives all locks of the session back.
    UnlockAll,
}

/// A key's form: locks of different forms are different locks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Form {
    /// One bigint.
    Bigint,
    /// Two int4.
    Pair,
}

impl Form {
    /// As people call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bigint => "one bigint",
            Self::Pair => "two ints",
        }
    }
}

/// One call of an advisory lock function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// The function's name, in lower case.
    pub function: String,
    /// What it does.
    pub verb: Verb,
    /// Its lock ends with the transaction.
    pub transaction: bool,
    /// The mode is shared.
    pub shared: bool,
    /// The key's form; nothing where the arguments are cut off.
    pub form: Option<Form>,
    /// The key, where it stands in the statement itself.
    pub key: Option<KeyNumbers>,
    /// It stands in a string or a body, as in a DO block: it is run as a statement of its own.
    pub nested: bool,
    /// It stands in a condition over rows, or beside a LIMIT: the planner decides for how many rows it is called.
    pub by_row: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    Word(String),
    /// A string, or the body between dollar quotes.
    Text(String),
    Symbol(char),
}

/// The calls in a statement, in order. Names in comments, and of other things, are no calls.
pub fn calls(statement: &str) -> Vec<Call> {
    let tokens = tokens(&without_comments(statement));
    let mut found = Found::default();
    found.read(&tokens);
    let mut calls = found.finish();
    for token in &tokens {
        if let Token::Text(text) = token
            && text.contains("advisory")
        {
            calls.extend(self::calls(text).into_iter().map(|call| Call { nested: true, ..call }));
        }
    }
    calls
}

fn tokens(code: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut chars = code.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\'' => tokens.push(Token::Text(quoted(&mut chars, '\''))),
            '"' => tokens.push(Token::Word(quoted(&mut chars, '"'))),
            '$' => match dollar_tag(&chars) {
                Some(tag) => tokens.push(Token::Text(dollar_quoted(&mut chars, &tag))),
                None => tokens.push(Token::Word(format!("${}", word(&mut chars)))),
            },
            c if is_word(c) => {
                let rest = word(&mut chars);
                tokens.push(Token::Word(format!("{c}{rest}").to_lowercase()));
            }
            c if c.is_whitespace() => {}
            c => tokens.push(Token::Symbol(c)),
        }
    }
    tokens
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn word(chars: &mut Peekable<Chars<'_>>) -> String {
    let mut word = String::new();
    while let Some(c) = chars.next_if(|c| is_word(*c)) {
        word.push(c);
    }
    word
}

/// Up to the quote that ends it; doubled quotes are one.
fn quoted(chars: &mut Peekable<Chars<'_>>, quote: char) -> String {
    let mut text = String::new();
    while let Some(c) = chars.next() {
        if c == quote && chars.next_if_eq(&quote).is_none() {
            break;
        }
        text.push(c);
    }
    text
}

/// The tag of the dollar quote that begins here: `$$` has the empty one. `$1` is a parameter.
fn dollar_tag(chars: &Peekable<Chars<'_>>) -> Option<String> {
    let mut tag = String::new();
    for c in chars.clone() {
        match c {
            '$' => return Some(tag),
            c if is_word(c) && !(tag.is_empty() && c.is_ascii_digit()) => tag.push(c),
            _ => return None,
        }
    }
    None
}

fn dollar_quoted(chars: &mut Peekable<Chars<'_>>, tag: &str) -> String {
    let rest: String = chars.clone().collect();
    let body = rest.get(tag.len() + 1..).unwrap_or_default();
    let end = format!("${tag}$");
    let text = body.split_once(&end).map_or(body, |(text, _)| text);
    for _ in 0..(tag.chars().count() + 1 + text.chars().count() + end.chars().count()) {
        chars.next();
    }
    text.to_owned()
}

/// Where in a query something stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Clause {
    Output,
    From,
    Condition,
}

/// What is between two parentheses, or outside of all.
#[derive(Debug, Clone)]
struct Level {
    is_query: bool,
    clause: Clause,
    /// It reads rows.
    has_rows: bool,
    has_limit: bool,
}

impl Level {
    const NEW: Self = Self { is_query: false, clause: Clause::Output, has_rows: false, has_limit: false };
}

/// Calls, and the query and clause in which each stands.
#[derive(Default)]
struct Found {
    levels: Vec<Level>,
    open: Vec<usize>,
    calls: Vec<(Call, usize, Clause)>,
}

impl Found {
    fn read(&mut self, tokens: &[Token]) {
        self.enter();
        for (place, token) in tokens.iter().enumerate() {
            match token {
                Token::Symbol('(') => self.enter(),
                Token::Symbol(')') if self.open.len() > 1 => drop(self.open.pop()),
                Token::Symbol(';') => {
                    self.open.clear();
                    self.enter();
                }
                Token::Word(word) => self.word(word, tokens, place),
                Token::Symbol(_) | Token::Text(_) => {}
            }
        }
    }

    fn enter(&mut self) {
        self.open.push(self.levels.len());
        self.levels.push(Level::NEW);
    }

    fn word(&mut self, word: &str, tokens: &[Token], place: usize) {
        if let Some(call) = call(word, tokens.get(place + 1..).unwrap_or_default()) {
            let query = self.open.iter().rev().copied().find(|level| self.levels[*level].is_query);
            let query = query.or(self.open.first().copied()).unwrap_or_default();
            self.calls.push((call, query, self.levels[query].clause));
            return;
        }
        let Some(level) = self.open.last().and_then(|level| self.levels.get_mut(*level)) else { return };
        let before = place.checked_sub(1).and_then(|before| tokens.get(before));
        let distinct_from = before == Some(&Token::Word("distinct".to_owned()));
        match word {
            "select" | "perform" => (level.is_query, level.clause) = (true, Clause::Output),
            "update" | "delete" | "merge" => (level.is_query, level.has_rows) = (true, true),
            "from" | "using" if level.is_query && !distinct_from => {
                (level.has_rows, level.clause) = (true, Clause::From);
            }
            "where" | "on" | "having" if level.is_query => level.clause = Clause::Condition,
            "group" | "order" | "returning" | "set" if level.is_query => level.clause = Clause::Output,
            "limit" | "fetch" if level.is_query => level.has_limit = true,
            _ => {}
        }
    }

    fn finish(self) -> Vec<Call> {
        let Self { levels, calls, .. } = self;
        let by_row = |query: usize, clause: Clause| {
            levels.get(query).is_some_and(|level| {
                level.has_rows
                    && match clause {
                        Clause::Condition => true,
                        Clause::Output => level.has_limit,
                        Clause::From => false,
                    }
            })
        };
        calls.into_iter().map(|(call, query, clause)| Call { by_row: by_row(query, clause), ..call }).collect()
    }
}

/// The call, if a word is the name of an advisory lock function and an opening parenthesis follows; or nothing at all,
/// for the statement may have been cut there.
fn call(word: &str, rest: &[Token]) -> Option<Call> {
    let name = word.strip_prefix("pg_")?;
    let (tries, name) = name.strip_prefix("try_").map_or((false, name), |name| (true, name));
    let name = name.strip_prefix("advisory_")?;
    let (transaction, name) = name.strip_prefix("xact_").map_or((false, name), |name| (true, name));
    let (name, shared) = name.strip_suffix("_shared").map_or((name, false), |name| (name, true));
    let verb = match (name, tries, transaction) {
        ("lock", true, _) => Verb::Try,
        ("lock", false, _) => Verb::Lock,
        ("unlock", false, false) => Verb::Unlock,
        ("unlock_all", false, false) if !shared => Verb::UnlockAll,
        _ => return None,
    };
    let arguments = match rest.first() {
        Some(Token::Symbol('(')) => arguments(&rest[1..]),
        None => None,
        Some(_) => return None,
    };
    let form = arguments.as_ref().and_then(|arguments| match arguments.len() {
        1 => Some(Form::Bigint),
        2 => Some(Form::Pair),
        _ => None,
    });
    let numbers: Option<Vec<i64>> =
        arguments.as_ref().and_then(|arguments| arguments.iter().map(|argument| number(argument)).collect());
    let key = numbers.and_then(|numbers| match numbers.as_slice() {
        [number] => key::parse(&number.to_string()).ok(),
        [class, object] => key::parse(&format!("({class},{object})")).ok(),
        _ => None,
    });
    Some(Call { function: word.to_owned(), verb, transaction, shared, form, key, nested: false, by_row: false })
}

/// The arguments up to the parenthesis that ends them; nothing if that is not there.
fn arguments(tokens: &[Token]) -> Option<Vec<&[Token]>> {
    let mut arguments = Vec::new();
    let (mut depth, mut from) = (0_usize, 0);
    for (place, token) in tokens.iter().enumerate() {
        match token {
            Token::Symbol('(' | '[') => depth += 1,
            Token::Symbol(')') if depth == 0 => {
                if place > from {
                    arguments.push(&tokens[from..place]);
                }
                return Some(arguments);
            }
            Token::Symbol(')' | ']') => depth = depth.saturating_sub(1),
            Token::Symbol(',') if depth == 0 => {
                arguments.push(&tokens[from..place]);
                from = place + 1;
            }
            _ => {}
        }
    }
    None
}

/// The number that an argument says by itself: `-5`, `'7'::bigint`, `hashtext('name')`.
fn number(argument: &[Token]) -> Option<i64> {
    let cast = argument.windows(2).position(|pair| pair == [Token::Symbol(':'), Token::Symbol(':')]);
    match &argument[..cast.unwrap_or(argument.len())] {
        [Token::Symbol('-'), Token::Word(digits)] => format!("-{digits}").parse().ok(),
        [Token::Word(digits)] => digits.parse().ok(),
        [Token::Text(digits)] => digits.trim().parse().ok(),
        [Token::Word(name), Token::Symbol('('), Token::Text(text), Token::Symbol(')')] if name == "hashtext" => {
            Some(i64::from(hashtext(text.as_bytes())))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests;
