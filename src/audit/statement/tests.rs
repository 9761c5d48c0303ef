use super::*;

fn only(statement: &str) -> Call {
    let mut calls = calls(statement);
    assert_eq!(calls.len(), 1, "{statement}: {calls:?}");
    calls.remove(0)
}

#[test]
fn every_function_is_known() {
    let of = |name: &str| {
        let call = only(&format!("SELECT {name}($1)"));
        (call.verb, call.transaction, call.shared)
    };
    assert_eq!(of("pg_advisory_lock"), (Verb::Lock, false, false));
    assert_eq!(of("pg_catalog.PG_TRY_Advisory_lock_shared"), (Verb::Try, false, true));
    assert_eq!(of("pg_advisory_xact_lock_shared"), (Verb::Lock, true, true));
    assert_eq!(of("pg_try_advisory_xact_lock"), (Verb::Try, true, false));
    assert_eq!(of("\"pg_advisory_unlock_shared\""), (Verb::Unlock, false, true));
    assert_eq!(only("SELECT pg_advisory_unlock_all()").verb, Verb::UnlockAll);
    for other in
        ["my_pg_advisory_lock(1)", "pg_advisory_lock_id FROM t", "1 /* pg_advisory_lock(1) */", "advisory_lock(1)"]
    {
        assert_eq!(calls(&format!("SELECT {other}")), [], "{other}");
    }
}

#[test]
fn the_form_is_the_number_of_arguments() {
    let form = |arguments: &str| only(&format!("SELECT pg_advisory_lock({arguments})")).form;
    assert_eq!(form("$1"), Some(Form::Bigint));
    assert_eq!(form("$1, $2"), Some(Form::Pair));
    assert_eq!(form("coalesce($1, $2), array_length(ARRAY[1,2],1)"), Some(Form::Pair));
    assert_eq!(form("hashtext('a,b')"), Some(Form::Bigint));
    assert_eq!(only("SELECT pg_advisory_lock(").form, None);
    assert_eq!(only("SELECT pg_advisory_lock").form, None, "cut at its end");
}

#[test]
fn keys_are_read_where_they_stand() {
    let text = |arguments: &str| only(&format!("select pg_advisory_unlock({arguments})")).key.map(key::text);
    assert_eq!(text("612001"), Some("612001".to_owned()));
    assert_eq!(text("-5"), Some("-5".to_owned()));
    assert_eq!(text("'7'::bigint"), Some("7".to_owned()));
    assert_eq!(text("7, -8"), Some("(7,-8)".to_owned()));
    assert_eq!(text("hashtext('stock-sync')"), Some("378298467".to_owned()));
    for unknown in ["$1", "id", "a + 1", "hashtext(name)", "99999999999999999999"] {
        assert_eq!(text(unknown), None, "{unknown}");
    }
}

#[test]
fn conditions_and_limits_let_the_planner_choose() {
    for by_row in [
        "SELECT * FROM jobs WHERE pg_try_advisory_lock(id)",
        "SELECT * FROM jobs WHERE NOT done AND (pg_try_advisory_lock($1, id)) ORDER BY id LIMIT 1",
        "SELECT pg_advisory_lock(id) FROM jobs ORDER BY id LIMIT $1",
        "SELECT id FROM a JOIN b ON pg_try_advisory_lock(a.id)",
        "UPDATE jobs SET taken = true WHERE pg_try_advisory_lock(id)",
        "SELECT 1 FROM (SELECT id FROM jobs WHERE pg_try_advisory_lock(id)) AS q",
    ] {
        assert!(only(by_row).by_row, "{by_row}");
    }
    for sure in [
        "SELECT pg_advisory_lock(id) FROM jobs WHERE id = $1",
        "SELECT pg_advisory_lock(q.id) FROM (SELECT id FROM jobs WHERE id > 12345 LIMIT 100) AS q",
        "SELECT 1 WHERE pg_try_advisory_lock(1)",
        "SELECT pg_try_advisory_lock($1) LIMIT 1",
        "SELECT a IS DISTINCT FROM b, pg_advisory_lock(1) LIMIT 1",
        "SELECT pg_advisory_lock(extract(epoch FROM now())::bigint) LIMIT 1",
        "SELECT * FROM pg_try_advisory_lock(1) LIMIT 1",
    ] {
        assert!(!only(sure).by_row, "{sure}");
    }
}

#[test]
fn bodies_and_strings_are_statements_of_their_own() {
    assert!(only("DO $$ BEGIN PERFORM pg_advisory_unlock(88); END $$").nested);
    assert!(only("DO $x$ EXECUTE 'SELECT pg_advisory_lock(''1'')' $x$").nested);
    assert_eq!(calls("PREPARE x AS SELECT pg_advisory_lock($1), $2").len(), 1);
    assert_eq!(calls("SELECT pg_advisory_lock(1); SELECT pg_advisory_unlock(1)").len(), 2);
    for broken in ["'", "$$", "$a$ pg_advisory_lock(", "\"", "((((", "))))", "$", "pg_advisory_lock((("] {
        let _ = calls(broken);
    }
}
