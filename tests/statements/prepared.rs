//! Prepared transactions: no statement to run blindly, but steps for psql.

use serde_json::Value;

use super::scene::{SOON, Scene};
use crate::support::say;

/// Hostile to psql, to SQL and to a terminal.
const GID: &str = "E'order ''77'' :x \\\\ \"q\"\\n\\x1b[31m \\\\gexec; $$ --'";

pub fn a_prepared_transaction_is_finished_by_its_gid(scene: &Scene<'_>) {
    if !scene.has_psql() {
        say("SKIPPED: finishing prepared transactions in psql, which is not here");
        return;
    }
    let manager = scene.session("app", "manager");
    let prepare = |gid: &str, key: u32| {
        let note = format!("INSERT INTO notes VALUES ('{key}')");
        for sql in
            ["BEGIN", &note, &format!("SELECT pg_advisory_xact_lock({key})"), &format!("PREPARE TRANSACTION {gid}")]
        {
            manager.run(sql, SOON).unwrap();
        }
        scene.until("SELECT bool_and(clock_timestamp() - prepared > '250 milliseconds') FROM pg_prepared_xacts");
    };
    prepare(GID, 951);
    prepare("'bystander'", 952);
    let first = steps(scene, "951");
    for verb in ["ROLLBACK", "COMMIT"] {
        let step = guarded(&first, verb);
        // Of another moment, or of another transaction.
        for (part, other) in [("AND prepared = ", "AND prepared > "), ("AND transaction = ", "AND transaction <> ")] {
            assert_eq!(step.matches(part).count(), 1, "{step}");
            assert_eq!(scene.psql("app", &step.replace(part, other)), [""; 0], "{step}");
        }
    }
    is_there(scene, GID, 1);

    // Its manager finishes it, and prepares the next one under the same gid.
    manager.run(&format!("ROLLBACK PREPARED {GID}"), SOON).unwrap();
    for verb in ["ROLLBACK", "COMMIT"] {
        assert_eq!(scene.psql("app", &guarded(&first, verb)), [""; 0]);
    }
    prepare(GID, 953);
    for verb in ["ROLLBACK", "COMMIT"] {
        assert_eq!(scene.psql("app", &guarded(&first, verb)), [""; 0]);
    }
    is_there(scene, GID, 1);

    let second = steps(scene, "953");
    assert_eq!(scene.psql("app", &guarded(&second, "ROLLBACK")), ["ROLLBACK PREPARED"]);
    is_there(scene, GID, 0);
    is_there(scene, "'bystander'", 1);
    scene.is_free(953);
    assert_eq!(scene.notes(), "");

    prepare(GID, 954);
    let third = steps(scene, "954");
    assert_eq!(scene.psql("postgres", &guarded(&third, "COMMIT")), ["COMMIT PREPARED"]);
    is_there(scene, GID, 0);
    is_there(scene, "'bystander'", 1);
    scene.is_free(954);
    assert_eq!(scene.notes(), "954");

    // The plain statements beside them.
    for (key, verb, notes) in [("955", "ROLLBACK", "954"), ("956", "COMMIT", "954 956")] {
        prepare(GID, key.parse().unwrap());
        let plain = statement(&steps(scene, key), &format!("{verb} PREPARED "));
        assert_eq!(scene.psql("app", &plain), [format!("{verb} PREPARED")]);
        assert_eq!(scene.notes(), notes);
    }
    is_there(scene, "'bystander'", 1);
}

#[track_caller]
fn is_there(scene: &Scene<'_>, gid: &str, times: u32) {
    scene.until(&format!("SELECT count(*) = {times} FROM pg_prepared_xacts WHERE gid = {gid}"));
}

/// The steps of the finding about this key. It has no statement and no pid.
#[track_caller]
fn steps(scene: &Scene<'_>, key: &str) -> Vec<String> {
    let findings = scene.check("postgres", &[]);
    let about = |finding: &&Value| finding["rule"] == "prepared-transaction-holder" && finding["keys"][0] == key;
    let finding = findings.iter().find(about).unwrap_or_else(|| panic!("nothing about {key}: {findings:#?}"));
    let advice = &finding["advice"];
    assert_eq!(advice["action"], "finish-prepared");
    assert!(advice["sql"].is_null() && finding["pids"] == Value::Array(Vec::new()), "{finding:#}");
    advice["steps"].as_array().unwrap().iter().map(|step| step.as_str().unwrap().to_owned()).collect()
}

/// What is to be typed in the step that finishes it under guard.
#[track_caller]
fn guarded(steps: &[String], verb: &str) -> String {
    let typed = statement(steps, &format!("SELECT format('{verb} PREPARED %L', gid)"));
    assert!(typed.ends_with("\\gexec"), "{typed}");
    typed
}

/// The lines below the words of the step whose first such line begins so.
#[track_caller]
fn statement(steps: &[String], begins: &str) -> String {
    let typed = steps.iter().filter_map(|step| step.split_once('\n')).find(|(_, typed)| typed.starts_with(begins));
    typed.unwrap_or_else(|| panic!("no step has {begins:?}: {steps:#?}")).1.to_owned()
}
