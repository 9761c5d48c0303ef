//! Files that are not ours, and files that others want to have written.

use std::os::unix::fs::symlink;

use super::*;

/// The file of a look at one target.
fn written(folder: &Path) -> PathBuf {
    let path = folder.join("check.state");
    update(&path, vec![("primary".to_owned(), state())]).unwrap();
    path
}

/// What a monitor remembers of an empty server.
fn state() -> MonitorState {
    use crate::analysis::{Grouping, Thresholds};
    let mut monitor = crate::monitor::Monitor::new(
        "primary".to_owned(),
        Thresholds::default(),
        std::sync::Arc::default(),
        Grouping::default(),
        false,
    );
    monitor.observe(crate::model::testing::World::new().poll());
    monitor.state().unwrap()
}

#[test]
fn it_is_private_and_comes_back_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let path = written(folder.path());
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o600);
    let mut memories = read(&path).unwrap();
    assert_eq!(memories.take("primary"), Some(state()));
    assert_eq!(memories.take("other"), None);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing else is left in the folder");
}

#[test]
fn other_targets_stay_until_they_are_old() {
    let folder = tempfile::tempdir().unwrap();
    let path = written(folder.path());
    update(&path, vec![("other".to_owned(), state())]).unwrap();
    let memories = read(&path).unwrap();
    assert_eq!(memories.targets.keys().collect::<Vec<_>>(), ["other", "primary"]);
    let text = fs::read_to_string(&path).unwrap();
    let saved = memories.targets["primary"].saved;
    fs::write(&path, text.replace(&saved.to_string(), &(saved - 3_700).to_string())).unwrap();
    update(&path, vec![("third".to_owned(), state())]).unwrap();
    assert_eq!(read(&path).unwrap().targets.keys().collect::<Vec<_>>(), ["third"]);
}

#[test]
fn what_is_not_surely_ours_is_one_sentence_and_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let path = written(folder.path());
    let good = fs::read_to_string(&path).unwrap();
    let half = good[..good.len() / 2].to_owned();
    let other = good.replace("\"pglockwatch_state\":1", "\"pglockwatch_state\":2");
    for (text, why) in [
        ("", "damaged"),
        ("hunter2\n", "damaged"),
        ("[]", "damaged"),
        ("{\"pglockwatch_state\":1}", "damaged"),
        (&half, "damaged"),
        (&"[".repeat(100_000), "damaged"),
        (&other, "another version"),
    ] {
        fs::write(&path, text).unwrap();
        let said = read(&path).unwrap_err();
        assert!(said.contains(why) && !said.contains("hunter2") && !said.contains('\n'), "{said}");
        update(&path, vec![("primary".to_owned(), state())]).unwrap();
        assert_eq!(read(&path).unwrap().take("primary"), Some(state()));
    }
    fs::write(&path, [0xff, 0xfe, 0]).unwrap();
    assert!(read(&path).is_err());
    fs::write(&path, &good).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
    assert!(read(&path).unwrap_err().contains("others can write"));
    update(&path, Vec::new()).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o600);
}

#[test]
fn a_symbolic_link_is_replaced_and_what_it_leads_to_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let (path, precious) = (folder.path().join("check.state"), folder.path().join("precious"));
    fs::write(&precious, "precious").unwrap();
    symlink(&precious, &path).unwrap();
    assert!(read(&path).unwrap_err().contains("symbolic link"));
    update(&path, vec![("primary".to_owned(), state())]).unwrap();
    assert_eq!(fs::read_to_string(&precious).unwrap(), "precious");
    assert!(fs::symlink_metadata(&path).unwrap().is_file());
}

#[test]
fn two_at_once_leave_one_whole_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = written(folder.path());
    std::thread::scope(|scope| {
        for name in ["a", "b", "c", "d"] {
            let path = &path;
            scope.spawn(move || {
                for _ in 0..20 {
                    update(path, vec![(name.to_owned(), state())]).unwrap();
                    read(path).unwrap();
                }
            });
        }
    });
    assert!(read(&path).unwrap().targets.len() >= 2);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn a_place_for_no_file_is_refused_at_once() {
    let folder = tempfile::tempdir().unwrap();
    assert!(refuse_unfit(folder.path()).unwrap_err().text().contains("is a folder"));
    assert!(refuse_unfit(Path::new("/dev/null")).unwrap_err().text().contains("not a regular file"));
    assert!(refuse_unfit(&folder.path().join("none/check.state")).unwrap_err().text().contains("in no folder"));
    assert!(refuse_unfit(&folder.path().join("check.state")).is_ok());
    assert!(refuse_unfit(Path::new("check.state")).is_ok());
}

#[test]
fn looks_at_different_targets_at_once_lose_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("check.state");
    std::thread::scope(|scope| {
        for place in 0..16 {
            let path = &path;
            let long = Duration::from_secs(60);
            scope.spawn(move || update_within(long, path, vec![(format!("target {place}"), state())]).unwrap());
        }
    });
    assert_eq!(read(&path).unwrap().targets.len(), 16);
}

#[test]
fn a_look_that_hangs_holds_nobody_up() {
    let folder = tempfile::tempdir().unwrap();
    let path = written(folder.path());
    let hanging = lock(&path, Duration::ZERO).unwrap();
    update_within(Duration::from_millis(1), &path, vec![("other".to_owned(), state())]).unwrap();
    drop(hanging);
    assert_eq!(read(&path).unwrap().targets.len(), 2);
}
