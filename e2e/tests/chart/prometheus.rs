//! A Prometheus (Debian package `prometheus`) beside the control plane, which finds the controller as
//! the Prometheus operator would from the chart's objects.

use crate::Stand;
use quorate_e2e::SYSTEM;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

/// In the control plane's network namespace, where nothing else has it.
const ADDRESS: &str = "127.0.0.1:9390";

/// It ends with this value.
pub(crate) struct Prometheus<'a> {
    stand: &'a Stand,
    process: Child,
}

/// A series and its value.
#[derive(Clone, Debug)]
pub(crate) struct Sample {
    pub(crate) labels: Value,
    pub(crate) value: f64,
}

impl<'a> Prometheus<'a> {
    /// Starts it with what the release's ServiceMonitor and PrometheusRule say.
    pub(crate) fn start(stand: &'a Stand) -> Self {
        let folder = stand.lab.cluster.folder().path("prometheus");
        fs::create_dir(&folder).unwrap();
        let object = |kind: &str| stand.lab.list(kind, SYSTEM).remove(0)["spec"].clone();
        // JSON is YAML.
        let rules = folder.join("rules.yaml");
        fs::write(&rules, object("prometheusrules").to_string()).unwrap();
        let file = folder.join("prometheus.yaml");
        let config = config(stand, &object("servicemonitors"), &rules);
        fs::write(&file, config.to_string()).unwrap();
        succeed(Command::new("promtool").args(["check", "config"]).arg(&file));
        let log = fs::File::create(folder.join("log")).unwrap();
        let process = stand
            .lab
            .cluster
            .exec(None)
            .unwrap()
            .arg("prometheus")
            .arg(format!("--config.file={}", file.display()))
            .arg(format!("--storage.tsdb.path={}", folder.join("data").display()))
            .arg(format!("--web.listen-address={ADDRESS}"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        let prometheus = Self { stand, process };
        let ready = || prometheus.get("-/ready").is_ok();
        stand.lab.eventually("Prometheus is ready", ready, |ready| *ready);
        prometheus
    }

    /// An answer of its API.
    pub(crate) fn api(&self, path: &str) -> Value {
        let text = self.get(&format!("api/v1/{path}")).unwrap();
        let answer: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(answer["status"], "success", "{answer}");
        answer["data"].clone()
    }

    /// The series that an expression has now.
    pub(crate) fn query(&self, expression: &str) -> Vec<Sample> {
        let data = self.api(&format!("query?query={}", encoded(expression)));
        let result = data["result"].as_array().unwrap();
        let sample = |sample: &Value| Sample {
            labels: sample["metric"].clone(),
            value: sample["value"][1].as_str().unwrap().parse().unwrap(),
        };
        result.iter().map(sample).collect()
    }

    /// The sum of an expression's series; 0 if there is none.
    pub(crate) fn sum(&self, expression: &str) -> f64 {
        self.query(expression).iter().map(|sample| sample.value).sum()
    }

    /// Waits until the sum of an expression's series is as wanted.
    pub(crate) fn until(&self, expression: &str, wanted: impl Fn(f64) -> bool) -> f64 {
        self.stand.lab.eventually(expression, || self.sum(expression), |sum| wanted(*sum))
    }

    fn get(&self, path: &str) -> Result<String, String> {
        let url = format!("http://{ADDRESS}/{path}");
        let mut command = self.stand.lab.cluster.exec(None).unwrap();
        let Output { status, stdout, stderr } =
            command.args(["busybox", "wget", "-q", "-O-", &url]).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        if status.success() { Ok(text(&stdout)) } else { Err(text(&stderr)) }
    }
}

impl Drop for Prometheus<'_> {
    fn drop(&mut self) {
        // The program inside dies with this one.
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = fs::remove_dir_all(self.stand.lab.cluster.folder().path("prometheus"));
    }
}

/// What the Prometheus operator makes of a ServiceMonitor, but with an interval for impatient tests.
/// Debian's Prometheus cannot ask Kubernetes itself, so the targets are written down.
fn config(stand: &Stand, monitor: &Value, rules: &Path) -> Value {
    let mut targets = Vec::new();
    let wanted = monitor["selector"]["matchLabels"].as_object().unwrap();
    let chosen = |service: &&Value| {
        let labels = &service["metadata"]["labels"];
        wanted.iter().all(|(name, value)| labels[name] == *value)
    };
    for service in stand.lab.list("services", SYSTEM).iter().filter(chosen) {
        let name = service["metadata"]["name"].as_str().unwrap();
        for slice in stand.lab.list("endpointslices", SYSTEM) {
            if slice["metadata"]["labels"]["kubernetes.io/service-name"] == name {
                targets.extend(endpoints(&slice, &monitor["endpoints"][0]["port"], name));
            }
        }
    }
    json!({
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": [rules],
        "scrape_configs": [{"job_name": "serviceMonitor/quorate", "static_configs": targets}],
    })
}

/// The port of this name, of each pod in a slice of a service.
fn endpoints(slice: &Value, port: &Value, service: &str) -> Vec<Value> {
    let ports = slice["ports"].as_array().unwrap();
    let number = &ports.iter().find(|one| one["name"] == *port).unwrap()["port"];
    let target = |endpoint: &Value| {
        let address = endpoint["addresses"][0].as_str().unwrap();
        let labels = json!({"job": service, "pod": endpoint["targetRef"]["name"]});
        json!({"targets": [format!("{address}:{number}")], "labels": labels})
    };
    slice["endpoints"].as_array().unwrap().iter().map(target).collect()
}

/// Percent-encoded for a query.
fn encoded(text: &str) -> String {
    let mut encoded = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() {
            encoded.push(char::from(byte));
        } else {
            write!(encoded, "%{byte:02X}").unwrap();
        }
    }
    encoded
}

/// Runs a program that must succeed; answers what it said.
pub(crate) fn succeed(command: &mut Command) -> String {
    let Output { status, stdout, stderr } = command.output().unwrap();
    let said = String::from_utf8_lossy(&stdout) + String::from_utf8_lossy(&stderr);
    assert!(status.success(), "{command:?}: {said}");
    said.trim().to_owned()
}
