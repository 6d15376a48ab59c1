//! Packaging on a real Kubernetes: the life of a release, what the controller may do, what it counts.
//!
//! The tests share one cluster, one after the other, since each changes the release. Each finds it
//! installed from the chart as it is, and leaves it so.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a failed step is a failed test")]

#[path = "chart/documented.rs"]
mod documented;
#[path = "chart/metrics.rs"]
mod metrics;
#[path = "chart/namespaces.rs"]
mod namespaces;
#[path = "chart/older.rs"]
mod older;
#[path = "chart/outside.rs"]
mod outside;
#[path = "chart/prometheus.rs"]
mod prometheus;
#[path = "chart/reach.rs"]
mod reach;
#[path = "chart/release.rs"]
mod release;
#[path = "chart/rights.rs"]
mod rights;
#[path = "chart/trail.rs"]
mod trail;

use quorate_e2e::{Lab, SYSTEM};
use quorate_testbed::Shape;
use quorate_testbed::addons::Addon;
use quorate_testbed::layout::CONTROL_PLANE;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

/// For programs that only sleep; small, and it has a shell.
const IMAGE: &str = "image: localhost/busybox:v1";

/// The cluster, and what its tests must know of each other.
struct Stand {
    lab: Lab,
    /// Parts of the audit log in which roles changed under a running controller: it may meet a 403
    /// then.
    changing: Vec<Range<u64>>,
}

static STAND: LazyLock<Mutex<Stand>> = LazyLock::new(|| Mutex::new(Stand::up()));

/// The cluster for one test alone.
fn stand() -> MutexGuard<'static, Stand> {
    STAND.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Stand {
    fn up() -> Self {
        let addons = [Addon::NetworkPolicies].into();
        let lab = Lab::bare(Shape { name: "e2e-chart".into(), addons, ..Shape::default() });
        // What an operator of Kueue or Prometheus would have installed.
        lab.create(include_str!("chart/definitions.yaml")).unwrap();
        for kind in ["workloads.kueue.x-k8s.io", "servicemonitors.monitoring.coreos.com"] {
            lab.kubectl(&["wait", "--for=condition=Established", &format!("crd/{kind}")]).unwrap();
        }
        let stand = Self { lab, changing: Vec::new() };
        stand.helm(&["install", "quorate", &chart(), "--create-namespace"]);
        stand.lab.rolled_out();
        stand
    }

    /// Installs or upgrades with what these tests need: a Prometheus beside the control plane.
    fn helm(&self, arguments: &[&str]) -> String {
        let values = self.lab.cluster.folder().path("values.json");
        let scrapers = format!(
            r#"{{"networkPolicy": {{"scrapers": [
                {{"namespaceSelector": {{"matchLabels": {{"kubernetes.io/metadata.name": "monitoring"}}}}}},
                {{"ipBlock": {{"cidr": "{CONTROL_PLANE}/32"}}}}]}}}}"#
        );
        std::fs::write(&values, scrapers).unwrap();
        let values = values.display().to_string();
        let mut all = arguments.to_vec();
        all.extend(["--values", &values]);
        self.lab.helm(&all).unwrap()
    }

    /// Does what takes roles away from a running controller.
    fn changing_roles(&mut self, change: impl FnOnce(&Lab)) {
        let begin = trail::end(&self.lab.cluster);
        change(&self.lab);
        self.changing.push(begin..trail::end(&self.lab.cluster));
    }

    /// Names of the controller's pods that are there to stay.
    fn controllers(&self) -> Vec<String> {
        let pods = self.lab.list("pods", SYSTEM);
        let alive = pods.iter().filter(|pod| {
            pod["metadata"]["deletionTimestamp"].is_null()
                && pod["metadata"]["labels"]["app.kubernetes.io/name"] == "quorate-controller"
        });
        alive.filter_map(|pod| Some(pod["metadata"]["name"].as_str()?.to_owned())).collect()
    }

    /// The pod that holds the lease.
    fn leader(&self) -> String {
        let ask = || {
            let template = "jsonpath={.spec.holderIdentity}";
            self.lab.kubectl(&["-n", SYSTEM, "get", "lease", "quorate", "-o", template]).unwrap()
        };
        let pods = self.controllers();
        self.lab
            .eventually("a pod that is there holds the lease", ask, |holder| pods.contains(holder))
    }
}

fn path(inside: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(inside)
}

fn chart() -> String {
    path("charts/quorate").display().to_string()
}
