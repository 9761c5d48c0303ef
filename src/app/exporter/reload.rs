//! Files that are read again when they change: config, dictionaries, passwords, the web config.
//!
//! What is read is written down, with what the file looked like, so nothing has to know which files there are. A broken
//! new version is refused: the old one stays in use, and metrics and log say so.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::web_config::{self, WebConfig};
use crate::cli::GlobalArgs;
use crate::cli::exporter::ExporterArgs;
use crate::config;
use crate::error::Result;
use crate::pg::{Environment, SmallFile};
use crate::settings::{Settings, Surroundings, Target};

/// What tells a file from a changed one; nothing where there is none.
type Stamp = Option<(u64, u64, u64, i64, i64)>;

fn stamp(path: &Path) -> Stamp {
    let file = std::fs::metadata(path).ok()?;
    Some((file.dev(), file.ino(), file.size(), file.mtime(), file.mtime_nsec()))
}

/// An environment that writes down which files were read.
struct Recording<'a> {
    inner: &'a dyn Environment,
    read: RefCell<Vec<(PathBuf, Stamp)>>,
}

impl Environment for Recording<'_> {
    fn var(&self, name: &str) -> Option<String> {
        self.inner.var(name)
    }

    fn home(&self) -> Option<PathBuf> {
        self.inner.home()
    }

    fn os_user(&self) -> Option<String> {
        self.inner.os_user()
    }

    fn read(&self, path: &Path) -> io::Result<SmallFile> {
        // Before it is read: what changes in between is seen as a change.
        self.read.borrow_mut().push((path.to_owned(), stamp(path)));
        self.inner.read(path)
    }

    fn exists(&self, path: &Path) -> bool {
        self.inner.exists(path)
    }
}

/// What was typed, and what is around: from these everything is read again.
pub(super) struct Source<'a> {
    pub global: GlobalArgs,
    pub args: ExporterArgs,
    pub around: Surroundings<'a>,
    pub habits: crate::settings::Habits,
}

/// Everything that was read.
pub(super) struct Loaded {
    pub settings: Settings,
    pub targets: Vec<Target>,
    /// The options, those of the config's `[web]` among them.
    pub args: ExporterArgs,
    pub web: WebConfig,
}

/// Which part of a new version is broken, and why.
pub(super) enum Broken {
    Config(crate::error::Error),
    Dictionary(crate::error::Error),
}

/// The files that were read, as they were.
#[derive(Default)]
pub(super) struct Files(BTreeMap<PathBuf, Stamp>);

impl Files {
    /// Whether one has changed since it was read.
    pub fn have_changed(&self) -> bool {
        self.0.iter().any(|(path, before)| stamp(path) != *before)
    }
}

impl Source<'_> {
    /// Reads everything. The files that were read are in `files` whatever comes of it: a broken file is looked at
    /// again when it changes again.
    pub fn load(&self, files: &mut Files) -> Result<Loaded, Broken> {
        let recording = Recording { inner: self.around.environment, read: RefCell::default() };
        let around = Surroundings { environment: &recording, ..self.around };
        let loaded = self.read(around);
        let read = recording.read.into_inner();
        let last = read.last().map(|(path, _)| path.clone());
        if loaded.is_ok() {
            files.0.clear();
        }
        files.0.extend(read);
        loaded.map_err(|error| {
            if last.is_some_and(|path| self.is_dictionary(&path)) {
                Broken::Dictionary(error)
            } else {
                Broken::Config(error)
            }
        })
    }

    fn read(&self, around: Surroundings<'_>) -> Result<Loaded> {
        let mut settings = Settings::new(self.global.clone(), around)?;
        let targets = settings.targets(around, self.habits)?;
        let args = self.args.clone().or(settings.web());
        let web = match &args.config_file {
            Some(path) => web_config::read(path, around.environment)?,
            None => WebConfig::default(),
        };
        Ok(Loaded { settings, targets, args, web })
    }

    /// Whether a path is that of a dictionary: named on the command line, or by the config.
    fn is_dictionary(&self, path: &Path) -> bool {
        let in_config = || {
            let file = self.global.config.as_ref()?;
            let text = self.around.environment.read(file).ok()?.text;
            let folder = file.parent().map(Path::to_path_buf).unwrap_or_default();
            let config = config::parse(&text, "", &folder).ok()?;
            let own = config.targets.iter().flat_map(|target| &target.keys);
            Some(config.keys.iter().chain(own).any(|known| known == path))
        };
        self.global.dictionaries.iter().any(|known| known == path) || in_config().unwrap_or_default()
    }
}
