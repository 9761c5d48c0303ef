//! The Kubernetes example: it is YAML, its parts fit together, and the exporter takes its options and answers its probes.

use std::fs;
use std::path::Path;
use std::time::Duration;

use pglockwatch::cli;
use serde_json::Value;

use super::harness::Exporter;

fn objects() -> Vec<Value> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/exporter/kubernetes.yaml");
    serde_saphyr::from_multiple(&fs::read_to_string(file).unwrap()).unwrap()
}

fn object(kind: &str) -> Value {
    let mut found = objects().into_iter().filter(|object| object["kind"] == kind);
    let object = found.next().unwrap_or_else(|| panic!("no {kind}"));
    assert_eq!((found.next(), &object["metadata"]["name"]), (None, &Value::from("pglockwatch")));
    object
}

#[test]
fn the_kubernetes_example_runs_an_exporter_that_answers_its_probes() {
    let deployment = object("Deployment");
    let pod = &deployment["spec"]["template"]["spec"];
    let container = &pod["containers"][0];
    // Where the Secret is mounted, it is a file in this folder here.
    let mounted = container["volumeMounts"][0]["mountPath"].as_str().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let secret = object("Secret");
    let (file, dsn) = secret["stringData"].as_object().unwrap().iter().next().unwrap();
    fs::write(folder.path().join(file), dsn.as_str().unwrap()).unwrap();
    let here = folder.path().display().to_string();
    let typed: Vec<String> =
        container["args"].as_array().unwrap().iter().map(|arg| arg.as_str().unwrap().to_owned()).collect();
    assert_eq!(typed[0], "exporter");
    cli::command().try_get_matches_from(["pglockwatch"].into_iter().chain(typed.iter().map(String::as_str))).unwrap();
    let typed: Vec<String> = typed[1..]
        .iter()
        .map(|arg| {
            arg.replace(mounted, &here).replace("--web.listen-address=:10187", "--web.listen-address=127.0.0.1:0")
        })
        .collect();
    assert!(typed.contains(&format!("--dsn-file={here}/{file}")), "{typed:?}");
    let options: Vec<&str> = typed.iter().map(String::as_str).filter(|arg| !arg.starts_with("--log.format")).collect();
    let mut exporter = Exporter::start(folder.path(), &options);
    let path = |probe: &str| container[probe]["httpGet"]["path"].as_str().unwrap().to_owned();
    assert_eq!(exporter.get(&path("livenessProbe")).status, 200);
    // The example's host does not exist: that the poll has failed is ready too.
    exporter
        .wait(Duration::from_secs(60), "it is ready", |exporter| exporter.get(&path("readinessProbe")).status == 200);
    let monitor = object("PodMonitor");
    let scraped = monitor["spec"]["podMetricsEndpoints"][0]["path"].as_str().unwrap();
    assert!(exporter.get(scraped).body.contains("pglockwatch_up{target=\"orders-db.example.internal:5432\"} 0"));
    assert_eq!(exporter.get("/runbook").status, 404, "pages show users");
    assert!(!exporter.log().contains("change-me"));
}

#[test]
fn the_parts_of_the_kubernetes_example_fit_together_and_are_hardened() {
    let deployment = object("Deployment");
    let template = &deployment["spec"]["template"];
    let (pod, container) = (&template["spec"], &template["spec"]["containers"][0]);
    let labels = &template["metadata"]["labels"];
    assert_eq!(labels["app.kubernetes.io/name"], "pglockwatch");
    assert_eq!(&deployment["spec"]["selector"]["matchLabels"], labels);
    assert_eq!(&object("Service")["spec"]["selector"], labels);
    assert_eq!(&object("PodMonitor")["spec"]["selector"]["matchLabels"], labels);
    let port = &container["ports"][0];
    assert_eq!(port["containerPort"], 10187);
    assert_eq!(object("Service")["spec"]["ports"][0]["targetPort"], port["name"]);
    assert_eq!(object("PodMonitor")["spec"]["podMetricsEndpoints"][0]["port"], port["name"]);
    for probe in ["livenessProbe", "readinessProbe"] {
        assert_eq!(container[probe]["httpGet"]["port"], port["name"], "{probe}");
    }
    assert_eq!(template["metadata"]["annotations"]["prometheus.io/port"], "10187");
    let volume = &pod["volumes"][0];
    assert_eq!(
        (&volume["name"], &volume["secret"]["secretName"]),
        (&container["volumeMounts"][0]["name"], &Value::from("pglockwatch"))
    );
    assert_eq!(volume["secret"]["defaultMode"], 0o400);
    let of_pod = &pod["securityContext"];
    assert_eq!(
        (&of_pod["runAsNonRoot"], &of_pod["seccompProfile"]["type"]),
        (&Value::from(true), &Value::from("RuntimeDefault"))
    );
    let own = &container["securityContext"];
    assert_eq!(
        (&own["allowPrivilegeEscalation"], &own["readOnlyRootFilesystem"]),
        (&Value::from(false), &Value::from(true))
    );
    assert_eq!(own["capabilities"]["drop"][0], "ALL");
    assert_eq!(pod["automountServiceAccountToken"], false);
}
