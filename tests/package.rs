//! The Debian package: made of the binary at hand, installed where nothing else is, run there as its unit runs it, and
//! removed again without a trace. And what it is made of: man pages and completions.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use tempfile::TempDir;

use crate::exporter::harness::{Exporter, dsn, have};
use crate::support::{say, server};

const PACKAGING: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/packaging/deb");

/// Some user without a name and without rights.
const NOBODY: &str = "61184";

fn output(program: &str, args: &[&str]) -> Output {
    Command::new(program).args(args).output().unwrap_or_else(|error| panic!("{program}: {error}"))
}

/// What the program prints; it must end well.
fn printed(program: &str, args: &[&str]) -> String {
    let output = output(program, args);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{program} {args:?}: {}\n{said}", output.status);
    String::from_utf8(output.stdout).unwrap()
}

fn pglockwatch(args: &[&str]) -> String {
    printed(env!("CARGO_BIN_EXE_pglockwatch"), args)
}

/// The package, made in this folder; nothing where the tools are not here.
fn made(folder: &Path) -> Option<PathBuf> {
    if !["dpkg-deb", "dpkg-shlibdeps", "strip"].iter().all(|tool| have(tool, "the Debian package")) {
        return None;
    }
    let binary = ["--binary", env!("CARGO_BIN_EXE_pglockwatch"), "--output", folder.to_str().unwrap()];
    // A debug binary is large: here it need not become small.
    let fast =
        [("DPKG_DEB_COMPRESSOR_TYPE", "gzip"), ("DPKG_DEB_COMPRESSOR_LEVEL", "1"), ("SOURCE_DATE_EPOCH", "1767225600")];
    let output = Command::new(PACKAGING).args(binary).envs(fast).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let path = PathBuf::from(String::from_utf8(output.stdout).unwrap().trim_end());
    assert!(path.is_file(), "{} was not made", path.display());
    Some(path)
}

#[test]
fn the_package_has_what_its_users_look_for_and_is_the_same_each_time() {
    let folder = tempfile::tempdir().unwrap();
    let Some(package) = made(folder.path()) else { return };
    let first = fs::read(&package).unwrap();
    made(folder.path());
    assert!(first == fs::read(&package).unwrap(), "two packages of one binary differ");

    let path = package.to_str().unwrap();
    let field = |name: &str| printed("dpkg-deb", &["--field", path, name]).trim_end().to_owned();
    assert_eq!(field("Version"), concat!(env!("CARGO_PKG_VERSION"), "-1"));
    let depends = field("Depends");
    assert!(depends.contains("libc6 (>= ") && depends.contains("libssl"), "{depends}");

    let listed = printed("dpkg-deb", &["--contents", path]);
    for line in listed.lines() {
        assert!(line.contains(" root/root ") && line.contains(" 2026-01-01 "), "{line}");
        assert!(["drwxr-xr-x", "-rwxr-xr-x", "-rw-r--r--"].contains(&&line[..10]), "{line}");
    }
    let files: BTreeSet<&str> =
        listed.lines().filter(|line| line.starts_with('-')).filter_map(|line| line.rsplit(' ').next()).collect();
    let mut expected = vec![
        "./usr/bin/pglockwatch".to_owned(),
        "./etc/pglockwatch/pglockwatch.toml".to_owned(),
        "./lib/systemd/system/pglockwatch.service".to_owned(),
        "./usr/share/bash-completion/completions/pglockwatch".to_owned(),
        "./usr/share/zsh/vendor-completions/_pglockwatch".to_owned(),
        "./usr/share/fish/vendor_completions.d/pglockwatch.fish".to_owned(),
        "./usr/share/pglockwatch/alerts/pglockwatch.rules.yml".to_owned(),
        "./usr/share/pglockwatch/grafana/pglockwatch-overview.json".to_owned(),
        "./usr/share/doc/pglockwatch/copyright".to_owned(),
        "./usr/share/pglockwatch/role.sql".to_owned(),
        "./usr/share/man/man1/pglockwatch.1.gz".to_owned(),
    ];
    let pages = pglockwatch(&["man", "--list"]);
    expected
        .extend(pages.lines().map(|page| format!("./usr/share/man/man1/pglockwatch-{}.1.gz", page.replace(' ', "-"))));
    for file in &expected {
        assert!(files.contains(file.as_str()), "{file} is missing:\n{listed}");
    }
}

#[test]
fn what_the_binary_says_of_itself_depends_on_no_clock_and_no_build() {
    let said = |args: &[&str], epoch: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pglockwatch"));
        let output = command.args(args).env("SOURCE_DATE_EPOCH", epoch).output().unwrap();
        assert!(output.status.success(), "{args:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    assert_eq!(said(&["--version"], "0"), concat!("pglockwatch ", env!("CARGO_PKG_VERSION"), "\n"));
    let dated = regex::Regex::new(r"\b(19|20)[0-9]{2}\b").unwrap();
    for args in [&["man"][..], &["man", "check"], &["completions", "bash"]] {
        let page = said(args, "0");
        assert_eq!(page, said(args, "1767225600"), "{args:?}");
        // A title line is where man pages have their date.
        let title = page.lines().find(|line| line.starts_with(".TH")).unwrap_or_default();
        assert!(!dated.is_match(title), "{title}");
    }
    assert!(!Path::new(env!("CARGO_MANIFEST_DIR")).join("build.rs").exists(), "a build script may bring in a time");
}

#[test]
fn every_command_has_a_sound_man_page() {
    let pages = pglockwatch(&["man", "--list"]);
    let names: BTreeSet<&str> = pages.lines().collect();
    for command in pglockwatch::cli::command().get_subcommands() {
        assert!(names.contains(command.get_name()), "no page of {}", command.get_name());
        for sub in command.get_subcommands() {
            let name = format!("{} {}", command.get_name(), sub.get_name());
            assert!(names.contains(name.as_str()), "no page of {name}");
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let mandoc = have("mandoc", "the lint of man pages");
    let refers = regex::Regex::new(r"pglockwatch\\-([a-z\\-]+)\(1\)").unwrap();
    for name in std::iter::once("").chain(names.iter().copied()) {
        let words: Vec<&str> = std::iter::once("man").chain(name.split_whitespace()).collect();
        let page = pglockwatch(&words);
        for head in [".TH pglockwatch", ".SH NAME", ".SH SYNOPSIS", ".SH OPTIONS"] {
            assert!(page.contains(head), "no {head:?} in the page of {name:?}");
        }
        // A page that another one refers to is there.
        for reference in refers.captures_iter(&page) {
            let other = reference[1].replace("\\-", " ");
            assert!(names.contains(other.as_str()), "the page of {name:?} refers to {other:?}");
        }
        if mandoc {
            let file = folder.path().join("page.1");
            fs::write(&file, page).unwrap();
            let linted = output("mandoc", &["-T", "lint", "-W", "error", file.to_str().unwrap()]);
            assert!(linted.status.success(), "{name:?}: {}", String::from_utf8_lossy(&linted.stdout));
        }
    }
    let unknown = output(env!("CARGO_BIN_EXE_pglockwatch"), &["man", "keys", "nonsense"]);
    assert_eq!(unknown.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&unknown.stderr).contains("decode"), "{unknown:?}");
}

#[test]
fn completions_are_read_by_their_shells() {
    let folder = tempfile::tempdir().unwrap();
    for (shell, check) in [("bash", "-n"), ("zsh", "-n"), ("fish", "--no-execute")] {
        let text = pglockwatch(&["completions", shell]);
        assert!(text.contains("runbook") && text.contains("--dsn-file"), "{shell}");
        if have(shell, &format!("its completions in {shell}")) {
            let file = folder.path().join(shell);
            fs::write(&file, text).unwrap();
            printed(shell, &[check, file.to_str().unwrap()]);
        }
    }
    let fish = pglockwatch(&["completions", "fish"]);
    let specs = fish.lines().find(|line| line.contains("string join \\n ")).unwrap();
    assert!(specs.contains(" config= ") && !specs.contains('.'), "fish refuses this list: {specs}");
    let file = folder.path().join("fish");
    if file.exists() {
        let asked = format!("source {}; complete -C 'pglockwatch --config x run'", file.display());
        let answer = printed("fish", &["-c", &asked]);
        assert!(answer.starts_with("runbook\t"), "{answer}");
    }
    // Typed for real: the candidates for a word that has begun.
    let file = folder.path().join("bash");
    let asked = "source \"$0\"; COMP_WORDS=(pglockwatch run); COMP_CWORD=1; _pglockwatch pglockwatch run pglockwatch; \
                 echo \"${COMPREPLY[*]}\"";
    if file.exists() {
        assert_eq!(printed("bash", &["-c", asked, file.to_str().unwrap()]), "runbook\n");
    }
}

#[test]
fn lintian_finds_no_error() {
    if !have("lintian", "lintian on the Debian package") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let Some(package) = made(folder.path()) else { return };
    let linted = Command::new("lintian")
        .args(["--allow-root", "--fail-on", "error", "--tag-display-limit", "0"])
        .arg(&package)
        .output()
        .unwrap();
    assert!(linted.status.success(), "{}", String::from_utf8_lossy(&linted.stdout));
}

/// A minimal Debian in a folder of its own.
struct CleanRoot {
    folder: TempDir,
}

impl CleanRoot {
    /// Nothing, with a word on why, where there is none.
    fn unpack() -> Option<Self> {
        let Some(debian) = std::env::var_os("PGLOCKWATCH_TEST_DEBIAN").map(PathBuf::from) else {
            say(
                "SKIPPED: the package on a clean root: PGLOCKWATCH_TEST_DEBIAN names none (tests/run makes one as root)",
            );
            return None;
        };
        if !rustix::process::geteuid().is_root() {
            say("SKIPPED: the package on a clean root: only root can install one");
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        // The root of a system is open to everybody.
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let archive = debian.join("root.tar");
        printed("tar", &["-xf", archive.to_str().unwrap(), "-C", folder.path().to_str().unwrap()]);
        let root = Self { folder };
        fs::create_dir(root.path("packages")).unwrap();
        for file in fs::read_dir(debian).unwrap().map(|entry| entry.unwrap().path()) {
            if file.extension().is_some_and(|end| end == "deb") {
                fs::copy(&file, root.path("packages").join(file.file_name().unwrap())).unwrap();
            }
        }
        Some(root)
    }

    fn path(&self, inside: &str) -> PathBuf {
        self.folder.path().join(inside.trim_start_matches('/'))
    }

    /// A command in there, as root.
    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new("chroot");
        command.arg(self.folder.path()).args(words);
        command.env_clear().envs([("PATH", "/usr/sbin:/usr/bin:/sbin:/bin"), ("LC_ALL", "C.UTF-8")]);
        command
    }

    /// How a command in there ended, and all that it said.
    fn run(&self, words: &[&str]) -> (bool, String) {
        let output = self.command(words).env("DEBIAN_FRONTEND", "noninteractive").output().unwrap();
        (output.status.success(), String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
    }

    fn must(&self, words: &[&str]) -> String {
        let (well, said) = self.run(words);
        assert!(well, "{words:?}: {said}");
        said
    }

    /// Every path in it, but for dpkg's own memory.
    fn listing(&self) -> BTreeSet<String> {
        let found = printed("find", &[self.folder.path().to_str().unwrap(), "-printf", "%P\n"]);
        let own = ["var/lib/dpkg", "var/log", "var/cache", "packages"];
        found.lines().filter(|path| !own.iter().any(|own| path.starts_with(own))).map(str::to_owned).collect()
    }
}

#[test]
fn on_a_clean_root_it_installs_is_scraped_and_goes_without_a_trace() {
    let folder = tempfile::tempdir().unwrap();
    let Some(root) = CleanRoot::unpack() else { return };
    let Some(package) = made(folder.path()) else { return };
    let empty = root.listing();
    fs::copy(&package, root.path("packages/pglockwatch.deb")).unwrap();

    let (well, said) = root.run(&["dpkg", "-i", "/packages/pglockwatch.deb"]);
    assert!(
        !well && said.contains("pglockwatch depends on libssl"),
        "without OpenSSL it must say what is missing: {said}"
    );
    root.must(&["sh", "-c", "dpkg -i /packages/libssl*.deb && dpkg --configure pglockwatch"]);
    assert_eq!(root.must(&["pglockwatch", "--version"]), concat!("pglockwatch ", env!("CARGO_PKG_VERSION"), "\n"));

    let unit = fs::read_to_string(root.path("/lib/systemd/system/pglockwatch.service")).unwrap();
    assert!(unit.contains("\nDynamicUser=yes\n"), "{unit}");
    verify_unit(&root);
    is_scraped(&root, &unit);

    // A new version leaves what the administrator wrote.
    let config = root.path("/etc/pglockwatch/pglockwatch.toml");
    let written = fs::read_to_string(&config).unwrap();
    root.must(&["dpkg", "-i", "/packages/pglockwatch.deb"]);
    assert_eq!(fs::read_to_string(&config).unwrap(), written);
    root.must(&["dpkg", "--remove", "pglockwatch"]);
    assert!(config.exists(), "a removed package leaves its configuration");
    root.must(&["dpkg", "--purge", "pglockwatch"]);
    root.must(&["sh", "-c", "dpkg --purge $(dpkg-query -W -f '${Package} ' 'libssl*')"]);
    let left: Vec<String> = root.listing().difference(&empty).cloned().collect();
    assert!(left.is_empty(), "left behind: {left:?}");
}

fn verify_unit(root: &CleanRoot) {
    if !have("systemd-analyze", "the check of the unit") {
        return;
    }
    let inside = format!("--root={}", root.folder.path().display());
    let verified = output("systemd-analyze", &["verify", "--man=no", &inside, "pglockwatch.service"]);
    let said = String::from_utf8_lossy(&verified.stderr).into_owned();
    // There is no systemd in a minimal Debian: its own units are missing, and ours is judged all the same.
    let is_ours = |line: &&str| line.contains("pglockwatch") && !line.contains(".target not found");
    let about: Vec<&str> = said.lines().filter(is_ours).collect();
    assert!(about.is_empty(), "{about:?}");
    let exposure = ["security", "--offline=yes", "--threshold=20", "--no-pager", &inside, "pglockwatch.service"];
    let judged = output("systemd-analyze", &exposure);
    assert!(judged.status.success(), "exposed too much: {}", String::from_utf8_lossy(&judged.stdout));
}

/// Starts what the unit starts, as somebody without rights, and scrapes it.
fn is_scraped(root: &CleanRoot, unit: &str) {
    let cluster = server::start(&server::any(), &[]);
    let config = root.path("/etc/pglockwatch/pglockwatch.toml");
    let shipped = fs::read_to_string(&config).unwrap();
    let changed = shipped
        .replace("127.0.0.1:10187", "127.0.0.1:0")
        .replace("host=/var/run/postgresql dbname=postgres user=pglockwatch", &dsn(&cluster));
    assert_ne!(changed, shipped);
    fs::write(&config, changed).unwrap();
    let start = unit.lines().find_map(|line| line.strip_prefix("ExecStart=")).unwrap();
    let rights = ["--clear-groups", "--no-new-privs", "--inh-caps=-all", "--bounding-set=-all"];
    let who = [format!("--reuid={NOBODY}"), format!("--regid={NOBODY}")];
    let words: Vec<&str> = std::iter::once("setpriv")
        .chain(who.iter().map(String::as_str))
        .chain(rights)
        .chain(start.split(' '))
        .collect();
    let exporter = Exporter::start_as(root.folder.path(), root.command(&words)).ready();
    let status = fs::read_to_string(format!("/proc/{}/status", exporter.pid())).unwrap();
    assert!(status.contains(&format!("Uid:\t{NOBODY}\t{NOBODY}")), "{status}");
    assert!(status.contains("CapEff:\t0000000000000000"), "{status}");
    let url = format!("http://{}/metrics", exporter.addresses[0]);
    let page = if have("curl", "the scrape with curl") {
        printed("curl", &["-fsS", "--max-time", "20", &url])
    } else {
        exporter.metrics("").body
    };
    assert!(page.contains("\npglockwatch_up{target=\"local\"} 1"), "{page}");
    exporter.signal("TERM");
    let mut exporter = exporter;
    assert_eq!(exporter.ended(Duration::from_secs(20)).and_then(|status| status.code()), Some(0));
}
