//! The table: one file per part of libpq's rules in `tests/connect/table`, one `[[case]]` per string or environment.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::Instant;

use serde::Deserialize;

use super::in_parallel;
use super::runs::{Session, Start, ours, psql};
use super::world::{SECRET, World};
use crate::support::say;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    case: Vec<Case>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    name: String,
    dsn: Option<String>,
    #[serde(default)]
    env: BTreeMap<String, String>,
    /// Files in the home folder.
    #[serde(default)]
    files: BTreeMap<String, Contents>,
    /// Whether psql connects: so that a case that fails for another reason than the meant one is noticed.
    connects: bool,
    /// Why we do otherwise, on purpose: then one of the next two says what we do.
    differs: Option<String>,
    /// We refuse, with these words.
    refusal: Option<String>,
    /// We connect.
    #[serde(default)]
    ours_connects: bool,
    /// What the machine must have.
    needs: Option<String>,
    /// The first version of psql that knows it. Before, we only have to do what `connects` says, or to refuse.
    since: Option<u32>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
enum Contents {
    Text(String),
    Mode { text: String, mode: u32 },
    Copy { copy: String },
}

/// At least so many strings, environments and files were asked for.
const AT_LEAST: usize = 150;

#[test]
fn strings_variables_and_files_mean_what_they_mean_to_psql() {
    let began = Instant::now();
    let Some(world) = World::start() else { return };
    let (mut cases, mut left_out) = (Vec::new(), BTreeSet::new());
    for case in read() {
        match case.needs.clone().filter(|needs| !world.has.contains(needs.as_str())) {
            Some(needs) => drop(left_out.insert(needs)),
            None => cases.push(case),
        }
    }
    for needs in left_out {
        say(&format!("SKIPPED: the comparison with psql where it needs this: {needs}"));
    }
    assert!(cases.len() >= AT_LEAST, "only {} cases", cases.len());
    let wrong: Vec<String> = in_parallel(&cases, |case| case.play(&world)).into_iter().flatten().collect();
    assert!(wrong.is_empty(), "{} of {} cases:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
    assert!(began.elapsed().as_secs() < 300, "it took {:?}", began.elapsed());
}

fn read() -> Vec<Case> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/connect/table");
    let mut cases = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let text = fs::read_to_string(&path).unwrap();
        let mut table: Table = toml::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let part = path.file_stem().unwrap().to_string_lossy().into_owned();
        for case in &mut table.case {
            case.name = format!("{part}: {}", case.name);
            assert_eq!(case.differs.is_some(), case.refusal.is_some() || case.ours_connects, "{}", case.name);
        }
        cases.extend(table.case);
    }
    let names: BTreeSet<&str> = cases.iter().map(|case| case.name.as_str()).collect();
    assert_eq!(names.len(), cases.len(), "two cases have one name");
    cases
}

impl Case {
    /// What is wrong, if anything is.
    fn play(&self, world: &World) -> Option<String> {
        let home = tempfile::tempdir().unwrap();
        let here = |text: &str| world.fill(text).replace("{home}", &home.path().display().to_string());
        for (name, contents) in &self.files {
            write(&home.path().join(name), contents, &here);
        }
        let start = Start {
            dsn: self.dsn.as_deref().map(here),
            env: self.env.iter().map(|(name, value)| (name.clone(), here(value))).collect(),
        };
        let ours = ours(home.path(), &start);
        if let Err(said) = &ours
            && said.contains(SECRET)
        {
            return Some(format!("{}: the password is shown: {said}", self.name));
        }
        let known = self.since.is_none_or(|since| world.version >= since);
        let theirs = known.then(|| psql(&world.psql, home.path(), &start));
        self.verdict(theirs.as_ref(), &ours)
            .map(|what| format!("{}: {what}\n    {start:?}\n    psql: {theirs:?}\n    ours: {ours:?}", self.name))
    }

    fn verdict(&self, theirs: Option<&Result<Session, String>>, ours: &Result<Session, String>) -> Option<String> {
        if let Some(theirs) = theirs
            && theirs.is_ok() != self.connects
        {
            return Some("psql does not do what the table says".to_owned());
        }
        match (&self.refusal, ours) {
            (Some(words), Err(said)) if said.contains(words) => return None,
            (Some(words), _) => return Some(format!("we do not refuse with {words:?}")),
            (None, Ok(_)) if self.ours_connects => return None,
            (None, _) if self.ours_connects => return Some("we do not connect".to_owned()),
            (None, _) => {}
        }
        match (theirs, ours) {
            (Some(Ok(theirs)), Ok(ours)) if theirs != ours => Some("not the same session".to_owned()),
            (_, ours) if ours.is_ok() != self.connects => Some("we do otherwise".to_owned()),
            _ => None,
        }
    }
}

fn write(path: &Path, contents: &Contents, here: &impl Fn(&str) -> String) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let (text, mode) = match contents {
        Contents::Text(text) => (here(text), 0o600),
        Contents::Mode { text, mode } => (here(text), *mode),
        Contents::Copy { copy } => (fs::read_to_string(here(copy)).unwrap(), 0o600),
    };
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}
