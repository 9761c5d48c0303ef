//! Writes a saved report into the current folder: readable by nobody else, and never over another file.

use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::path::Path;

use crate::render::style::safe;

/// So many names are tried before it is given up.
const TRIES: u32 = 100;

/// Writes it as `STEM.md` into this folder, or as `STEM-2.md` and so on where there is one. Returns where it is, or
/// one sentence on why it is nowhere.
pub fn save(folder: &Path, stem: &str, text: &str) -> Result<String, String> {
    for number in 1..=TRIES {
        let suffix = if number == 1 { String::new() } else { format!("-{number}") };
        let path = folder.join(format!("{stem}{suffix}.md"));
        match create(&path, text) {
            Ok(()) => return Ok(safe(&path.display().to_string()).into_owned()),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(format!("cannot save {}: {error}", safe(&path.display().to_string()))),
        }
    }
    Err(format!("cannot save {stem}.md: there are {TRIES} files of that name already"))
}

fn create(path: &Path, text: &str) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt as _;
        options.mode(0o600);
    }
    let mut file = options.open(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_private_and_never_written_over_another() {
        let folder = tempfile::tempdir().unwrap();
        let first = save(folder.path(), "pglockwatch-primary-1", "one").unwrap();
        let second = save(folder.path(), "pglockwatch-primary-1", "two").unwrap();
        assert!(first.ends_with("pglockwatch-primary-1.md") && second.ends_with("pglockwatch-primary-1-2.md"));
        assert_eq!(std::fs::read_to_string(&first).unwrap(), "one");
        assert_eq!(std::fs::read_to_string(&second).unwrap(), "two");
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            assert_eq!(std::fs::metadata(&first).unwrap().permissions().mode() & 0o777, 0o600);
        }
    }

    #[test]
    fn a_folder_that_is_not_there_is_one_sentence() {
        let why = save(Path::new("/nonexistent"), "a", "").unwrap_err();
        assert!(why.starts_with("cannot save /nonexistent/a.md: "), "{why}");
    }
}
