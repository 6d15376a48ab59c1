use super::*;
use k8s_openapi::jiff::Timestamp;
use quorate_api::MiniCluster;
use quorate_contract::status::{NamedCounts, QueueCounts};
use std::io::Write as _;
use std::process::{Command, Stdio};

/// A controller that has done a little of everything.
fn busy() -> Metrics {
    let metrics = Metrics::without_process();
    let at = |second: i64| Some(Timestamp::from_second(1_790_000_000 + second).unwrap());
    let created = Milestones { created: at(0), ..Milestones::default() };
    let quorate = Milestones { jobset: at(1), running: at(4), quorate: at(5), ..created };
    metrics.milestones(&created, &quorate);
    metrics.restarted(RestartCause::Failure);
    metrics.restarted(RestartCause::Disruption);
    metrics.reconciled(Duration::from_millis(3), None);
    metrics.reconciled(Duration::from_millis(40), Some("Conflict"));
    metrics.queue_depth.set(7);
    metrics.reconciles_active.set(2);
    let call = |verb, resource: &str| Call { verb, resource: resource.to_owned() };
    metrics.requested(&call("create", "jobsets"), "201", Duration::from_millis(8));
    metrics.leads(true);
    metrics.term_lost("RenewDeadline");
    let sample = LauncherSample {
        online: 4,
        inherited: false,
        received: 1_000,
        sent: 500,
        queues: vec![NamedCounts {
            name: "default".into(),
            jobs: QueueCounts { pending: 5, running: 2, completed: 40, failed: 1 },
            started: 43,
            ended_well: 40,
            ended_badly: 1,
            oldest: None,
        }],
        round_trip: Some(Duration::from_micros(300)),
    };
    metrics.launchers().told("uid", &sample);
    let objects: Vec<MiniCluster> = [
        r#"{"metadata": {"name": "a"}, "spec": {}, "status": {"state": "Running", "conditions": [
            {"type": "Quorate", "status": "True", "reason": "Quorum", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}}"#,
        r#"{"metadata": {"name": "b"}, "spec": {}}"#,
    ]
    .iter()
    .map(|text| serde_json::from_str(text).unwrap())
    .collect();
    metrics.count_miniclusters(Some(Box::new(move || {
        Census::of(objects.iter().map(|object| object.status.clone()))
    })));
    metrics
}

#[test]
fn the_text_is_as_documented() {
    // The version changes with every release.
    let text = busy().encode(Format::OpenMetrics).replace(env!("CARGO_PKG_VERSION"), "VERSION");
    insta::assert_snapshot!(in_order(&text));
}

/// Samples of a family come in any order.
fn in_order(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let families = lines.chunk_by(|one, next| one.starts_with('#') == next.starts_with('#'));
    let sorted = families.flat_map(|lines| {
        let mut lines = lines.to_vec();
        if !lines[0].starts_with('#') {
            lines.sort_unstable();
        }
        lines
    });
    sorted.collect::<Vec<_>>().join("\n") + "\n"
}

#[test]
fn every_metric_is_documented() {
    let page = include_str!("../../../../docs/spec/metrics.md");
    for line in whole().lines().filter_map(|line| line.strip_prefix("# TYPE ")) {
        let name = line.split(' ').next().unwrap();
        assert!(page.contains(&format!("`{name}`")), "docs/spec/metrics.md says nothing of {name}");
    }
}

/// Names of metrics in an expression, or in a whole file of expressions.
fn names(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
        .filter(|word| word.starts_with("quorate_") || word.starts_with("process_"))
}

#[test]
fn dashboard_and_alerts_use_metrics_that_exist() {
    let text = whole();
    let exist: Vec<&str> = text
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split(['{', ' ']).next())
        .collect();
    for (file, text) in [
        ("dashboard", include_str!("../../../../charts/quorate/files/dashboard.json")),
        ("alerts", include_str!("../../../../charts/quorate/files/alerts.yaml")),
    ] {
        let expressions = text.lines().filter(|line| {
            let line = line.trim_start();
            line.starts_with("\"expr\":") || line.starts_with("expr:")
        });
        let used: Vec<&str> = expressions.flat_map(names).collect();
        assert!(used.len() >= 4, "{file}: {used:?}");
        for name in used {
            assert!(exist.contains(&name), "{file} uses {name}, which does not exist");
        }
    }
}

#[test]
fn a_controller_that_stopped_leading_counts_no_miniclusters() {
    let metrics = busy();
    metrics.count_miniclusters(None);
    assert!(!metrics.encode(Format::Prometheus).contains("quorate_miniclusters"));
}

#[test]
fn no_label_names_an_object() {
    for line in busy().encode(Format::Prometheus).lines().filter(|line| !line.starts_with('#')) {
        for label in ["name=", "namespace=", "uid=", "minicluster=", "pod="] {
            assert!(!line.contains(label), "{line}");
        }
    }
}

/// Prometheus's own judgement of names and texts (Debian package `prometheus`).
#[test]
fn promtool_finds_nothing_to_complain_about() {
    let mut promtool = match Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
    {
        Ok(started) => started,
        Err(missing) => {
            let must =
                std::env::var("CI").is_ok_and(|ci| !matches!(ci.as_str(), "" | "0" | "false"));
            assert!(!must, "promtool is missing in continuous integration: {missing}");
            println!("not checked: promtool (package prometheus) cannot be started: {missing}");
            return;
        }
    };
    let text = whole();
    promtool.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let done = promtool.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&done.stdout) + String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success() && said.trim().is_empty(), "{said}");
}

/// All metrics, with those of this process.
fn whole() -> String {
    let mut metrics = busy();
    metrics.registry.register_collector(Box::new(process::Process::of_this()));
    metrics.encode(Format::Prometheus)
}
