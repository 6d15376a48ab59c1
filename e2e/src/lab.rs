//! A cluster with Quorate in it, and the questions that tests ask it through kubectl.

use crate::namespace::of_its_generation;
use crate::reader::{Reader, kind_of};
use quorate_testbed::images::{self, Binaries};
use quorate_testbed::{Cluster, Shape, build};
use serde_json::Value;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// Where the tests' MiniClusters are.
pub const NAMESPACE: &str = "default";
/// Where the controller is.
pub const SYSTEM: &str = "quorate-system";
/// For whatever is waited for; the machine may be busy.
const LIMIT: Duration = Duration::from_mins(4);

/// A Kubernetes with three nodes, and Quorate from its chart.
pub struct Lab {
    /// The Kubernetes.
    pub cluster: Cluster,
    reader: OnceLock<Reader>,
}

impl From<Cluster> for Lab {
    fn from(cluster: Cluster) -> Self {
        Self { cluster, reader: OnceLock::new() }
    }
}

impl Lab {
    /// Starts it and waits until the controller leads.
    pub fn up(shape: Shape) -> Self {
        Self::up_with(shape, &[])
    }

    /// The same with more arguments of `helm install`.
    pub fn up_with(shape: Shape, arguments: &[&str]) -> Self {
        let lab = Self::bare(shape);
        let chart = chart();
        let install = ["install", "quorate", &chart, "--create-namespace"];
        lab.helm(&[&install, arguments].concat()).unwrap();
        lab.rolled_out();
        lab
    }

    /// A Kubernetes with all images and no Quorate.
    pub fn bare(shape: Shape) -> Self {
        let mut say = |line: &str| eprintln!("{line}");
        let archives = images::build(&images::ALL, &Binaries::default(), &mut say).unwrap();
        let cluster = Cluster::up(Shape { images: archives, ..shape }).unwrap();
        cluster.into()
    }

    /// Waits until all replicas of the controller are there and ready.
    pub fn rolled_out(&self) {
        self.kubectl(&["-n", SYSTEM, "rollout", "status", "deployment/quorate", "--timeout=120s"])
            .unwrap_or_else(|error| panic!("{error}\n{}", self.system()));
    }

    /// Runs Helm in the controller's namespace; answers its output, or its error.
    pub fn helm(&self, arguments: &[&str]) -> Result<String, String> {
        let helm = build::program("helm", &mut |line| eprintln!("{line}")).unwrap();
        let home = self.cluster.kubeconfig().with_file_name("helm");
        let mut command = Command::new(helm);
        command
            .args(["--namespace", SYSTEM])
            .arg("--kubeconfig")
            .arg(self.cluster.kubeconfig())
            .args(arguments)
            .env("HELM_CACHE_HOME", home.join("cache"))
            .env("HELM_CONFIG_HOME", home.join("config"))
            .env("HELM_DATA_HOME", home.join("data"));
        finish(command, None)
    }

    /// Runs kubectl; answers its output, or its error.
    pub fn kubectl(&self, arguments: &[&str]) -> Result<String, String> {
        let mut command = self.cluster.kubectl();
        command.args(arguments);
        finish(command, None)
    }

    /// Creates objects, given as YAML.
    pub fn create(&self, objects: &str) -> Result<String, String> {
        self.kubectl_with(&["create", "-f", "-"], objects)
    }

    /// Runs kubectl with objects on its input; answers its output, or its error.
    pub fn kubectl_with(&self, arguments: &[&str], objects: &str) -> Result<String, String> {
        let mut command = self.cluster.kubectl();
        command.args(arguments);
        finish(command, Some(objects))
    }

    /// Creates a MiniCluster of the tests' MPI image; `spec` is YAML below `spec`.
    pub fn minicluster(&self, name: &str, spec: &str) {
        let spec: String = spec.lines().fold(String::new(), |text, line| text + "  " + line + "\n");
        let object = format!(
            "apiVersion: quorate.dev/v1alpha1\nkind: MiniCluster\nmetadata: {{name: {name}}}\nspec:\n{spec}"
        );
        self.create(&object).unwrap();
    }

    /// An object as it is now, or `None`.
    pub fn get(&self, kind: &str, name: &str) -> Option<Value> {
        if let Some(kind) = kind_of(kind) {
            return self.reader().get(&kind, NAMESPACE, name);
        }
        let text = self
            .kubectl(&["-n", NAMESPACE, "get", kind, name, "--ignore-not-found", "-o", "json"])
            .unwrap();
        (!text.is_empty()).then(|| serde_json::from_str(&text).unwrap())
    }

    /// All objects of a kind in a namespace.
    pub fn list(&self, kind: &str, namespace: &str) -> Vec<Value> {
        if let Some(kind) = kind_of(kind) {
            return self.reader().list(&kind, namespace, None);
        }
        self.listed(&["-n", namespace, "get", kind, "-o", "json"])
    }

    /// All objects of a kind with the labels of a MiniCluster.
    pub fn of(&self, kind: &str, cluster: &str) -> Vec<Value> {
        let selector = format!("{}={cluster}", quorate_plan::labels::CLUSTER);
        if let Some(kind) = kind_of(kind) {
            return self.reader().list(&kind, NAMESPACE, Some(&selector));
        }
        self.listed(&["-n", NAMESPACE, "get", kind, "-l", &selector, "-o", "json"])
    }

    fn listed(&self, arguments: &[&str]) -> Vec<Value> {
        let list: Value = serde_json::from_str(&self.kubectl(arguments).unwrap()).unwrap();
        list["items"].as_array().unwrap().clone()
    }

    fn reader(&self) -> &Reader {
        self.reader.get_or_init(|| Reader::new(self))
    }

    /// Waits until a MiniCluster is as wanted; shows it, its pods and events if it never is.
    pub fn until(&self, name: &str, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        let deadline = Instant::now() + LIMIT;
        loop {
            let object = self.get("minicluster", name);
            if let Some(object) = object.as_ref().filter(|object| wanted(object)) {
                return object.clone();
            }
            assert!(
                Instant::now() < deadline,
                "{name} never was {what}: {}\n{}",
                object.map_or("absent".into(), |object| object["status"].to_string()),
                self.scene()
            );
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Waits for a state of `status.state`, said of the spec as it is now.
    pub fn state(&self, name: &str, state: &str) -> Value {
        self.until(name, state, |object| {
            of_its_generation(object) && object["status"]["state"] == state
        })
    }

    /// Waits until a question has the wanted answer.
    pub fn eventually<T: std::fmt::Debug>(
        &self,
        what: &str,
        ask: impl Fn() -> T,
        wanted: impl Fn(&T) -> bool,
    ) -> T {
        eventually(LIMIT, what, ask, wanted, || self.scene())
    }

    /// What the launcher of a MiniCluster printed.
    pub fn output(&self, cluster: &str) -> String {
        let pods = self.of("pods", cluster);
        let launcher = pods
            .iter()
            .filter_map(|pod| pod["metadata"]["name"].as_str())
            .find(|pod| pod.contains("-launcher-"))
            .unwrap_or_else(|| panic!("{cluster} has no launcher"));
        self.kubectl(&["-n", NAMESPACE, "logs", launcher]).unwrap()
    }

    fn scene(&self) -> String {
        let pods = self.kubectl(&["-n", NAMESPACE, "get", "jobsets,jobs,pods", "-o", "wide"]);
        let events = self.kubectl(&["-n", NAMESPACE, "get", "events", "--sort-by=.lastTimestamp"]);
        let text = |answer: Result<String, String>| answer.unwrap_or_else(|error| error);
        let events = text(events);
        let events: Vec<&str> = events.lines().collect();
        let events = events[events.len().saturating_sub(25)..].join("\n");
        format!("{}\n{events}\n{}", text(pods), self.system())
    }

    fn system(&self) -> String {
        let text = |answer: Result<String, String>| answer.unwrap_or_else(|error| error);
        let pods = text(self.kubectl(&["-n", SYSTEM, "get", "pods", "-o", "wide"]));
        let selector = "app.kubernetes.io/name=quorate-controller";
        let logs =
            text(self.kubectl(&["-n", SYSTEM, "logs", "-l", selector, "--tail=30", "--prefix"]));
        format!("{pods}\n{logs}")
    }
}

/// Asks until the answer is as wanted; shows the scene if it is not within the limit.
pub(crate) fn eventually<T: std::fmt::Debug>(
    limit: Duration,
    what: &str,
    ask: impl Fn() -> T,
    wanted: impl Fn(&T) -> bool,
    scene: impl FnOnce() -> String,
) -> T {
    let deadline = Instant::now() + limit;
    loop {
        let answer = ask();
        if wanted(&answer) {
            return answer;
        }
        assert!(Instant::now() < deadline, "{what}: never, last {answer:?}\n{}", scene());
        std::thread::sleep(Duration::from_millis(100));
    }
}

fn chart() -> String {
    path("charts/quorate").display().to_string()
}

fn path(inside: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(inside)
}

fn finish(mut command: Command, input: Option<&str>) -> Result<String, String> {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    if let Some(input) = input {
        stdin.write_all(input.as_bytes()).unwrap();
    }
    drop(stdin);
    let Output { status, stdout, stderr } = child.wait_with_output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    if status.success() { Ok(text(&stdout)) } else { Err(text(&stderr)) }
}
