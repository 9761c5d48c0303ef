//! What `keys lint` looks at: the texts of all dictionaries, and of the config, before anything is made of them.

use std::path::Path;

use super::{Surroundings, files};
use crate::cli::GlobalArgs;
use crate::config::{self, Config};
use crate::error::Result;

/// One file.
#[derive(Debug)]
pub struct LintFile {
    /// Its path as it was written.
    pub name: String,
    /// Its text.
    pub text: String,
    /// It is the config: other tables may stand in it.
    pub is_config: bool,
    /// The targets that use it; empty: all.
    pub targets: Vec<String>,
}

/// All files, and how many targets there are.
#[derive(Debug, Default)]
pub struct LintFiles {
    /// In the order in which they are used, each once.
    pub files: Vec<LintFile>,
    /// How many targets use them.
    pub targets: usize,
}

impl LintFiles {
    /// Reads them all.
    ///
    /// # Errors
    /// A file cannot be read, or the config is wrong outside the dictionary's tables.
    pub fn read(args: &GlobalArgs, around: Surroundings<'_>) -> Result<Self> {
        let mut found = Self { files: Vec::new(), targets: args.dsn.len().max(1) };
        for path in &args.dictionaries {
            found.add(path, &[], around)?;
        }
        let Some(path) = &args.config else { return Ok(found) };
        let (text, _) = files::read(path, around.environment)?;
        let name = path.display().to_string();
        let config = config::parse_without_dictionary(&text, &name, &super::folder(path))?;
        found.targets = found.targets.max(config.targets.len());
        found.add_all(&config, around)?;
        if config.has_dictionary {
            found.files.push(LintFile { name, text, is_config: true, targets: Vec::new() });
        }
        Ok(found)
    }

    fn add_all(&mut self, config: &Config, around: Surroundings<'_>) -> Result<()> {
        for path in &config.keys {
            self.add(path, &[], around)?;
        }
        for (place, target) in config.targets.iter().enumerate() {
            let name = target.name.clone().unwrap_or_else(|| format!("[[target]] number {}", place + 1));
            for path in &target.keys {
                self.add(path, std::slice::from_ref(&name), around)?;
            }
        }
        Ok(())
    }

    /// Adds a file, or the targets that use it too.
    fn add(&mut self, path: &Path, targets: &[String], around: Surroundings<'_>) -> Result<()> {
        let name = path.display().to_string();
        if let Some(known) = self.files.iter_mut().find(|file| file.name == name) {
            // Empty means all targets already.
            if !known.targets.is_empty() {
                known.targets.extend(targets.iter().cloned());
            }
            return Ok(());
        }
        let (text, _) = files::read(path, around.environment)?;
        self.files.push(LintFile { name, text, is_config: false, targets: targets.to_vec() });
        Ok(())
    }
}
