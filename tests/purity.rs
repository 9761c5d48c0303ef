//! What decides and what renders must not know where it is: no clock, file, environment or socket. And a module
//! imports only modules below it. Both are read off the source.

use std::path::{Path, PathBuf};

/// Everything that is pure, tests inside included.
const PURE: &[&str] = &[
    "app/probe/json.rs",
    "app/probe/observed.rs",
    "app/probe/statements.rs",
    "app/probe/text.rs",
    "app/probe/verdict.rs",
    "app/probe/verdict_tests.rs",
    "app/probe/words",
    "app/probe/words.rs",
    "app/top/cells",
    "app/top/columns.rs",
    "app/top/layout.rs",
    "app/top/pages.rs",
    "app/top/state",
    "app/top/theme.rs",
    "app/top/view",
    "model",
    "analysis",
    "rules",
    "render",
    "keys",
    "audit",
    "quote.rs",
    "sql.rs",
    "units.rs",
    "monitor.rs",
    "report_of",
    "report_of.rs",
    "silences.rs",
    "endings.rs",
    "guard",
];

/// What would read a clock, a file, the environment or a socket, or print.
const IMPURE: &[&str] = &[
    "std::fs",
    "std::env",
    "std::net",
    "std::process",
    "std::io::std",
    "Instant::now",
    "Utc::now",
    "Local::now",
    "SystemTime",
    "postgres::",
    "rustix::",
    "println!",
    "print!",
    "dbg!",
];

/// What a module may name as `crate::...`: modules below it, whole or in part. A rule's test may set up everything.
const MAY_NAME: &[(&str, &[&str])] = &[
    ("sql.rs", &[]),
    ("model", &["model", "sql"]),
    ("quote.rs", &[]),
    ("keys", &["keys", "model", "quote"]),
    // Why a server could not be looked at is worded where it happens, and shown as part of a report.
    ("pg", &["pg", "model", "quote", "sql", "analysis::report"]),
    ("audit", &["audit", "analysis::report", "keys", "model", "quote", "sql"]),
    ("pgbouncer", &["pgbouncer", "pg", "model", "sql", "analysis::report"]),
    ("analysis", &["analysis", "keys", "model", "quote"]),
    ("units.rs", &["units", "analysis::report"]),
    ("rules", &["rules", "analysis", "keys", "model", "quote", "units"]),
    ("render", &["render", "audit", "rules", "analysis", "keys", "model", "quote", "units"]),
    ("endings.rs", &["report_of", "monitor", "rules", "analysis", "keys", "model"]),
    ("guard", &["guard", "report_of", "silences", "rules", "analysis", "keys", "model"]),
    ("monitor.rs", &["endings", "report_of", "silences", "rules", "analysis", "keys", "model", "quote", "units"]),
    ("watch.rs", &["watch", "monitor", "pgbouncer", "pg", "rules", "analysis", "keys", "model", "quote", "units"]),
];

#[test]
fn what_decides_reads_no_clock_file_environment_or_socket() {
    let mut wrong = Vec::new();
    for_each_line(PURE, |place, line| {
        // An address is a plain value.
        let line = line.replace("std::net::IpAddr", "").replace("std::net::Ipv", "");
        for impure in IMPURE.iter().filter(|impure| line.contains(**impure)) {
            wrong.push(format!("{place}: {impure}"));
        }
    });
    assert!(wrong.is_empty(), "these must be pure:\n{}", wrong.join("\n"));
}

#[test]
fn a_module_imports_only_modules_below_it() {
    let mut wrong = Vec::new();
    for (module, allowed) in MAY_NAME {
        for_each_line(&[module], |place, line| {
            let of_tests = place.contains("tests.rs") || place.contains("testing.rs");
            for named in line.split("crate::").skip(1).filter(|_| !of_tests) {
                if !allowed.iter().any(|allowed| is_within(named, allowed)) {
                    wrong.push(format!("{place}: crate::{named}"));
                }
            }
        });
    }
    assert!(wrong.is_empty(), "a module must not know the modules above it:\n{}", wrong.join("\n"));
}

/// Whether what is named is this module, or something in it.
fn is_within(named: &str, module: &str) -> bool {
    named.strip_prefix(module).is_some_and(|rest| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_'))
}

/// Every line of code of these modules, without comments, and where it stands.
fn for_each_line(modules: &[&str], mut look: impl FnMut(&str, &str)) {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    for module in modules {
        let files = rust_files(&source.join(module));
        for file in files {
            let text = std::fs::read_to_string(&file).unwrap();
            for (number, line) in text.lines().enumerate() {
                let code = line.split("//").next().unwrap_or_default();
                look(&format!("{}:{}", file.strip_prefix(&source).unwrap().display(), number + 1), code);
            }
        }
    }
}

fn rust_files(path: &Path) -> Vec<PathBuf> {
    if path.is_file() {
        return vec![path.to_owned()];
    }
    let Ok(entries) = std::fs::read_dir(path) else { return Vec::new() };
    let paths = entries.map(|entry| entry.unwrap().path());
    paths
        .filter(|path| path.is_dir() || path.extension().is_some_and(|ext| ext == "rs"))
        .flat_map(|path| rust_files(&path))
        .collect()
}

#[test]
fn the_source_is_where_these_tests_look() {
    let mut seen = 0;
    for_each_line(&["model", "keys"], |_, line| seen += usize::from(line.contains("pub struct")));
    assert!(seen > 5, "{seen} structs in src/model and src/keys");
}
