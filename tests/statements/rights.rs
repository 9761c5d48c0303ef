//! What a statement does for whom: who sees nothing, who may not signal, who may.

use serde_json::Value;

use super::scene::{SOON, Scene, finding, sql_of};

const TERMINATED: &str = "terminated";
const NOT_VISIBLE: &str = "nothing done: not visible to you";
const NOT_ALLOWED: &str = "nothing done: not allowed to you (needs pg_signal_backend, or the role of the session)";
const SUPERUSER: &str = "nothing done: only a superuser";

pub fn who_may_not_see_or_signal_does_nothing(scene: &Scene<'_>) {
    let idle = scene.played("app", "worker", &["SELECT pg_advisory_lock(801)"]);
    let begin = ["BEGIN", "INSERT INTO notes VALUES ('x')", "SELECT pg_advisory_xact_lock(802)"];
    let in_transaction = scene.played("app", "worker", &begin);
    let failed = scene.played("app", "worker", &["BEGIN", "SELECT pg_advisory_lock(803)", "SELECT 1/0"]);
    scene.until_rests(&idle, "idle");
    scene.until_rests(&in_transaction, "idle in transaction");
    scene.until_rests(&failed, "idle in transaction (aborted)");
    let statements = [
        scene.statement("idle-holder", &[&idle]),
        scene.statement("idle-in-transaction-holder", &[&in_transaction]),
        scene.statement("aborted-transaction-holder", &[&failed]),
    ];
    for statement in &statements {
        scene.says("blind", statement, NOT_VISIBLE);
        scene.says("signaller", statement, NOT_VISIBLE);
        scene.says("seer", statement, NOT_ALLOWED);
    }
    idle.run("SELECT 1", SOON).unwrap();
    for (statement, session) in statements.iter().zip([&idle, &in_transaction, &failed]) {
        scene.says("oncall", statement, TERMINATED);
        scene.until_gone(session);
    }
    assert_eq!(scene.notes(), "");
}

pub fn a_role_ends_its_own_sessions(scene: &Scene<'_>) {
    let holder = scene.played("app", "worker", &["SELECT pg_advisory_lock(811)"]);
    scene.until_rests(&holder, "idle");
    // What a role without any rights sees of its own is enough for the statement.
    let statement = sql_of(&finding(&scene.check("app", &[]), "idle-holder", &[&holder]));
    scene.says("app", &statement, TERMINATED);
    scene.until_gone(&holder);
    scene.is_free(811);
}

pub fn only_a_superuser_ends_the_session_of_a_superuser(scene: &Scene<'_>) {
    let holder = scene.played("postgres", "worker", &["SELECT pg_advisory_lock(821)"]);
    let ordinary = scene.played("app", "worker", &["SELECT pg_advisory_lock(822)"]);
    scene.until_rests(&holder, "idle");
    scene.until_rests(&ordinary, "idle");
    let statement = scene.statement("idle-holder", &[&holder]);
    scene.says("oncall", &statement, SUPERUSER);
    scene.says("oncall", &scene.statement("idle-holder", &[&ordinary]), TERMINATED);
    scene.until_gone(&ordinary);
    // Without its activity not even a superuser knows whether it rests.
    holder.run("SET track_activities = off", SOON).unwrap();
    scene.says("postgres", &statement, NOT_VISIBLE);
    holder.run("SET track_activities = on", SOON).unwrap();
    scene.says("postgres", &statement, TERMINATED);
    scene.until_gone(&holder);
    scene.is_free(821);
}

pub fn the_grant_lets_the_next_check_judge(scene: &Scene<'_>) {
    let role = "the \"new\" monitor's";
    scene.paste("postgres", "CREATE ROLE \"the \"\"new\"\" monitor's\" LOGIN");
    let holder = scene.played("app", "worker", &["SELECT pg_advisory_lock(831)"]);
    scene.until_rests(&holder, "idle");
    // Other scenes may hide sessions of their own at the same time.
    let hides_it = |finding: &&Value| {
        finding["rule"] == "hidden-sessions" && finding["pids"].as_array().unwrap().contains(&holder.pid.into())
    };
    let blind = scene.check(role, &[]);
    assert!(!blind.iter().any(|finding| finding["rule"] == "idle-holder"), "judged blind: {blind:#?}");
    let hidden = blind.iter().find(hides_it).unwrap_or_else(|| panic!("not said to be hidden: {blind:#?}"));
    assert_eq!(hidden["advice"]["action"], "grant");
    scene.paste("postgres", &sql_of(hidden));
    let seeing = scene.check(role, &[]);
    assert!(!seeing.iter().any(|finding| hides_it(&finding)), "{seeing:#?}");
    finding(&seeing, "idle-holder", &[&holder]);
}
