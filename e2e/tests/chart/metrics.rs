//! What the controller counts, as a real Prometheus sees it.

#![expect(
    clippy::float_cmp,
    reason = "what is counted are whole numbers, which floats hold exactly"
)]

use crate::prometheus::{Prometheus, succeed};
use crate::{IMAGE, Stand, chart, stand};
use quorate_e2e::SYSTEM;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

#[test]
fn prometheus_has_the_right_answers() {
    let stand = stand();
    let enabled = ["serviceMonitor", "prometheusRule", "dashboard"]
        .map(|part| format!("--set=metrics.{part}.enabled=true"));
    let mut upgrade = vec!["upgrade", "quorate"];
    let chart = chart();
    upgrade.push(&chart);
    upgrade.extend(enabled.iter().map(String::as_str));
    stand.helm(&upgrade);
    let prometheus = Prometheus::start(&stand);
    prometheus.until("up", |up| up == 2.0);
    prometheus.until("quorate_leader", |leaders| leaders == 1.0);

    phases(&stand, &prometheus);
    brokers(&stand, &prometheus);
    restarts(&stand, &prometheus);
    errors(&stand, &prometheus);
    series_of_deleted_clusters_vanish(&prometheus);
    dashboard(&stand, &prometheus);
    alerts(&prometheus);
    promtool(&stand);

    drop(prometheus);
    stand.helm(&["upgrade", "quorate", &chart]);
}

fn total(prometheus: &Prometheus<'_>, expression: &str) -> f64 {
    prometheus.sum(expression)
}

/// Each phase of one run is observed once.
fn phases(stand: &Stand, prometheus: &Prometheus<'_>) {
    let lab = &stand.lab;
    let count = |phase: &str| format!("quorate_phase_duration_seconds_count{{phase=\"{phase}\"}}");
    let names = ["jobset", "pods", "quorum", "launch", "program"];
    let before = names.map(|phase| total(prometheus, &count(phase)));
    let seconds = "quorate_phase_duration_seconds_sum{phase=\"program\"}";
    let seconds_before = total(prometheus, seconds);
    let made = "quorate_api_requests_total{verb=\"create\",resource=\"jobsets\",code=\"201\"}";
    let made_before = total(prometheus, made);
    let name = "measured";
    let program = "program: {parallel: {command: [sleep, '3'], tasks: 3}}";
    lab.minicluster(name, &format!("size: 3\nslots: 1\n{IMAGE}\n{program}"));
    lab.state(name, "Succeeded");
    for (phase, before) in names.iter().zip(before) {
        prometheus.until(&count(phase), |now| now == before + 1.0);
    }
    // Stamps are whole seconds.
    let took = total(prometheus, seconds) - seconds_before;
    assert!((2.0..60.0).contains(&took), "a program of 3 s took {took} s");
    assert_eq!(total(prometheus, made), made_before + 1.0);
    assert!(total(prometheus, "quorate_reconcile_duration_seconds_count") > 0.0);
    lab.kubectl(&["delete", "mc", name]).unwrap();
}

/// States, conditions, and what launchers tell.
fn brokers(stand: &Stand, prometheus: &Prometheus<'_>) {
    let lab = &stand.lab;
    let name = "idle";
    lab.minicluster(name, &format!("size: 3\n{IMAGE}"));
    lab.state(name, "Ready");
    prometheus.until("quorate_brokers_online", |online| online == 3.0);
    prometheus.until("quorate_miniclusters{state=\"Ready\"}", |ready| ready == 1.0);
    let quorate = "quorate_conditions{type=\"Quorate\",status=\"True\"}";
    prometheus.until(quorate, |quorate| quorate == 1.0);
    for direction in ["received", "sent"] {
        let bytes = format!("quorate_overlay_bytes_total{{direction=\"{direction}\"}}");
        prometheus.until(&bytes, |bytes| bytes > 100.0);
    }
    prometheus.until("quorate_overlay_round_trip_seconds_count", |trips| trips > 0.0);
    let slow = total(prometheus, "quorate_overlay_round_trip_seconds_sum");
    assert!(slow > 0.0 && slow < 60.0, "{slow}");
    // Only who leads knows of clusters.
    let tell = prometheus.query("count by (pod) (quorate_miniclusters)");
    assert_eq!(tell.len(), 1, "{tell:?}");
    assert_eq!(tell[0].labels["pod"], stand.leader());
    // A broker less is a broker less.
    let worker = lab.of("pods", name).into_iter().find_map(|pod| {
        let pod = pod["metadata"]["name"].as_str()?.to_owned();
        pod.contains("-worker-").then_some(pod)
    });
    lab.kubectl(&["delete", "pod", &worker.unwrap(), "--wait=false"]).unwrap();
    prometheus.until("quorate_brokers_online", |online| online == 2.0);
    prometheus.until("quorate_brokers_online", |online| online == 3.0);
    lab.kubectl(&["delete", "mc", name]).unwrap();
    prometheus.until("quorate_brokers_online", |online| online == 0.0);
}

/// A restart after a failure is one.
fn restarts(stand: &Stand, prometheus: &Prometheus<'_>) {
    let lab = &stand.lab;
    let (failures, others) = (
        "quorate_restarts_total{cause=\"failure\"}",
        "quorate_restarts_total{cause=\"disruption\"}",
    );
    let before = (total(prometheus, failures), total(prometheus, others));
    let name = "second-try";
    let program = "program: {command: [sh, -c, '[ \"$QUORATE_ATTEMPT\" != 0 ] || exit 3']}";
    lab.minicluster(name, &format!("{IMAGE}\nfailurePolicy: {{maxRestarts: 1}}\n{program}"));
    let status = lab.state(name, "Succeeded")["status"].clone();
    assert_eq!(status["restarts"], 1, "{status}");
    prometheus.until(failures, |now| now == before.0 + 1.0);
    assert_eq!(total(prometheus, others), before.1);
    lab.kubectl(&["delete", "mc", name]).unwrap();
}

/// Errors are counted by the reason that the log and events have.
fn errors(stand: &Stand, prometheus: &Prometheus<'_>) {
    let lab = &stand.lab;
    let errors = "quorate_reconcile_errors_total{reason=\"Webhook\"}";
    let before = total(prometheus, errors);
    lab.cluster.stop("jobset").unwrap();
    let name = "early";
    lab.minicluster(name, &format!("{IMAGE}\nprogram: {{command: ['true']}}"));
    prometheus.until(errors, |now| now > before);
    let code = "quorate_api_requests_total{verb=\"create\",resource=\"jobsets\",code=\"500\"}";
    prometheus.until(code, |count| count > 0.0);
    lab.cluster.start("jobset").unwrap();
    lab.state(name, "Succeeded");
    lab.kubectl(&["delete", "mc", name]).unwrap();
}

fn series_of_deleted_clusters_vanish(prometheus: &Prometheus<'_>) {
    prometheus.until("absent(quorate_miniclusters)", |absent| absent == 1.0);
    prometheus.until("absent(quorate_conditions)", |absent| absent == 1.0);
    prometheus.until("quorate_brokers_online", |online| online == 0.0);
}

/// Every panel shows something. (A state is only there while some MiniCluster has it.)
fn dashboard(stand: &Stand, prometheus: &Prometheus<'_>) {
    let maps = stand.lab.list("configmaps", SYSTEM);
    let map =
        maps.iter().find(|map| map["metadata"]["labels"]["grafana_dashboard"] == "1").unwrap();
    let text = map["data"]["quorate.json"].as_str().unwrap();
    let dashboard: Value = serde_json::from_str(text).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let targets = panels.iter().flat_map(|panel| panel["targets"].as_array().unwrap());
    let expressions: Vec<&str> = targets.map(|target| target["expr"].as_str().unwrap()).collect();
    assert!(expressions.len() > 10, "{expressions:?}");
    for expression in expressions {
        let found = prometheus.query(expression);
        let of_clusters = expression.contains("quorate_miniclusters");
        assert!(of_clusters || !found.is_empty(), "{expression} shows nothing");
    }
}

/// Prometheus has taken all alerts, evaluates them, and none is critical now.
fn alerts(prometheus: &Prometheus<'_>) {
    let data = prometheus.api("rules");
    let rules = data["groups"][0]["rules"].as_array().unwrap();
    let names: BTreeSet<&str> = rules.iter().filter_map(|rule| rule["name"].as_str()).collect();
    assert!(names.contains("QuorateNoLeader") && names.len() >= 4, "{names:?}");
    for rule in rules {
        assert_eq!(rule["health"], "ok", "{rule}");
    }
    let critical = prometheus.query("ALERTS{severity=\"critical\"}");
    assert!(critical.is_empty(), "{critical:?}");
}

/// Prometheus's own judgement of the live text, of leader and follower.
fn promtool(stand: &Stand) {
    for pod in stand.controllers() {
        let path = format!("/api/v1/namespaces/{SYSTEM}/pods/{pod}:8080/proxy/metrics");
        let text = stand.lab.kubectl(&["get", "--raw", &path]).unwrap();
        let file = stand.lab.cluster.folder().path("metrics.txt");
        fs::write(&file, text + "\n").unwrap();
        let mut check = Command::new("promtool");
        check.args(["check", "metrics"]).stdin(fs::File::open(&file).unwrap());
        assert_eq!(succeed(&mut check), "", "{pod}");
        fs::remove_file(file).unwrap();
    }
}
