//! All SQL that stands in a document, on a rule's page or in an example, typed into psql as it stands, on each version.

use std::fmt::Write as _;
use std::path::Path;

use pglockwatch::app::demo::Binaries;

use super::markdown::{Document, blocks};
use crate::support::command::{pglockwatch, run};
use crate::support::session::superuser;
use crate::support::{psql, server};

const WHAT: &str = "the SQL of documents and pages";

server::on_each_major!(WHAT, play);

/// The SQL of a text's blocks.
fn sql_of(text: &str) -> String {
    blocks(text).iter().filter(|block| block.language == "sql").map(|block| block.text.as_str()).collect()
}

/// The pages of all rules, as the program prints them.
fn pages(format: &str) -> String {
    let home = tempfile::tempdir().unwrap();
    let mut command = pglockwatch(home.path());
    command.args(["runbook", "--all", "--format", format]);
    let ran = run(command, std::time::Duration::from_secs(60));
    assert_eq!(ran.code, Some(0), "{ran:?}");
    ran.stdout
}

fn play(binaries: &Binaries) {
    if !psql::is_here() {
        return;
    }
    let mut texts: Vec<(String, String)> = Document::all()
        .iter()
        .map(|document| (document.path.display().to_string(), sql_of(&document.text)))
        .filter(|(_, sql)| !sql.is_empty())
        .collect();
    assert!(!texts.is_empty());
    texts.push(("runbook --all".to_owned(), sql_of(&pages("markdown"))));
    let role = "examples/exporter/role.sql";
    texts.push((role.to_owned(), std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(role)).unwrap()));

    let cluster = server::start(binaries, &["max_prepared_transactions=5".to_owned()]);
    let (host, port) = (cluster.host(), cluster.port().to_string());
    let to = ["-h", &host, "-p", &port, "-U", "postgres", "-d", "postgres"];
    let mut failed = String::new();
    for (name, sql) in &texts {
        if let Err(said) = psql::typed(&to, "-c client_min_messages=error", sql) {
            writeln!(failed, "{name}: {said}{sql}").unwrap();
        }
        // More than one of them makes these roles.
        superuser(&cluster).batch_execute("DROP ROLE IF EXISTS pglockwatch, oncall").unwrap();
    }
    assert!(failed.is_empty(), "on PostgreSQL {}: {failed}", binaries.major);
}

#[test]
fn a_page_prints_its_sql_to_a_terminal_as_it_stands() {
    let (plain, sql) = (pages("text"), sql_of(&pages("markdown")));
    let printed: std::collections::HashSet<&str> = plain.lines().map(str::trim).collect();
    let missing: Vec<&str> = sql.lines().map(str::trim).filter(|line| !printed.contains(line)).collect();
    assert!(sql.lines().count() > 100 && missing.is_empty(), "not in the text: {missing:#?}");
}
