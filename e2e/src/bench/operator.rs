//! Our controller as a process beside a control plane that has no node to run it on: with the account,
//! the roles and the settings of the chart's Deployment.

use crate::Lab;
use crate::bench::figure::say;
use crate::bench::process;
use anyhow::{Context as _, Result, anyhow, bail};
use quorate_testbed::build;
use quorate_testbed::cluster;
use serde_json::{Value, json};
use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// The chart's namespace and release.
const SYSTEM: &str = "quorate-system";
const RELEASE: &str = "quorate";
/// For whatever starts.
const LIMIT: Duration = Duration::from_mins(1);

/// A running controller. It ends with this value.
pub struct Operator {
    child: Child,
    /// Its process, as the machine counts.
    pub pid: u32,
}

/// The account that it uses.
pub fn account() -> String {
    format!("system:serviceaccount:{SYSTEM}:{RELEASE}")
}

impl Operator {
    /// Installs the chart without a replica and starts the controller in its place; returns when it
    /// leads and has read everything.
    pub fn start(lab: &Lab) -> Result<Self> {
        let chart = build::workspace_root().join("charts/quorate");
        let chart = chart.display().to_string();
        let install = ["install", RELEASE, &chart, "--create-namespace", "--set", "replicas=0"];
        lab.helm(&install).map_err(|error| anyhow!("install the chart: {error}"))?;
        let program = build::workspace_root().join("target/dist/quorate-controller");
        let log = lab.cluster.folder().log("quorate-controller");
        let output = File::create(&log).with_context(|| format!("create {}", log.display()))?;
        let mut command = lab.cluster.exec(None)?;
        command
            .arg("env")
            .arg(format!("KUBECONFIG={}", login(lab)?.display()))
            .arg("QUORATE_IDENTITY=bench")
            .arg(format!("QUORATE_LEASE_NAMESPACE={SYSTEM}"))
            .arg(&program)
            .args(arguments(lab)?)
            .args(["--health-address=127.0.0.1:18081", "--metrics-address=127.0.0.1:18080"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(output);
        let child = command.spawn().context("start the controller")?;
        let mut operator = Self { child, pid: 0 };
        let deadline = Instant::now() + LIMIT;
        let beside = cluster::process_of(lab.cluster.folder(), None)?;
        loop {
            let text = fs::read_to_string(&log).unwrap_or_default();
            if text.contains("caches filled")
                && let Some(pid) = process::program_beside(beside, "quorate-controller")
            {
                operator.pid = pid;
                return Ok(operator);
            }
            if operator.child.try_wait().context("look at the controller")?.is_some() {
                bail!("the controller ended: {text}");
            }
            if Instant::now() > deadline {
                bail!("the controller is not ready after {LIMIT:?}: {text}");
            }
            thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for Operator {
    fn drop(&mut self) {
        // What it runs in the cluster's namespaces ends with it.
        if self.child.kill().and_then(|()| self.child.wait().map(drop)).is_err() {
            say("the controller could not be ended");
        }
    }
}

/// The arguments of the chart's Deployment.
fn arguments(lab: &Lab) -> Result<Vec<String>> {
    let ask = ["-n", SYSTEM, "get", "deployment", RELEASE, "-o", "json"];
    let text = lab.kubectl(&ask).map_err(|error| anyhow!("read the Deployment: {error}"))?;
    let object: Value = serde_json::from_str(&text).context("read the Deployment")?;
    let container = &object["spec"]["template"]["spec"]["containers"][0];
    let list = container["args"].as_array().context("the Deployment has arguments")?;
    Ok(list.iter().filter_map(Value::as_str).map(str::to_owned).collect())
}

/// A kubeconfig with a token of the chart's account.
fn login(lab: &Lab) -> Result<PathBuf> {
    let ask = ["-n", SYSTEM, "create", "token", RELEASE, "--duration=6h"];
    let token = lab.kubectl(&ask).map_err(|error| anyhow!("ask for a token: {error}"))?;
    let folder = lab.cluster.folder();
    let admin = folder.kubeconfig("admin");
    let text = fs::read_to_string(&admin).with_context(|| format!("read {}", admin.display()))?;
    let mut config: Value = serde_json::from_str(&text).context("read the kubeconfig")?;
    config["users"][0]["user"] = json!({ "token": token });
    let path = folder.kubeconfig("quorate-controller");
    fs::write(&path, config.to_string()).with_context(|| format!("write {}", path.display()))?;
    Ok(path)
}
