//! A namespace of one test, and the questions that it asks of what is in there.

use crate::lab::{Lab, eventually};
use crate::reader::{Reader, kind_of};
use kube::core::GroupVersionKind;
use serde_json::Value;
use std::collections::BTreeSet;
use std::sync::OnceLock;
use std::time::Duration;

/// For whatever is waited for; the machine may be busy.
const LIMIT: Duration = Duration::from_mins(3);

/// A namespace.
pub struct Namespace<'lab> {
    /// Where it is.
    pub lab: &'lab Lab,
    /// Its name.
    pub name: String,
    reader: Reader,
}

fn known(kind: &str) -> GroupVersionKind {
    kind_of(kind).unwrap_or_else(|| panic!("no kind {kind}"))
}

impl<'lab> Namespace<'lab> {
    /// Makes it.
    pub fn new(lab: &'lab Lab, name: &str) -> Self {
        lab.kubectl(&["create", "namespace", name]).unwrap();
        Self::existing(lab, name)
    }

    /// One that is there.
    pub fn existing(lab: &'lab Lab, name: &str) -> Self {
        Self { lab, name: name.to_owned(), reader: Reader::new(lab) }
    }

    /// Runs kubectl in it; answers its output, or its error.
    pub fn kubectl(&self, arguments: &[&str]) -> Result<String, String> {
        self.lab.kubectl(&[&["-n", &self.name], arguments].concat())
    }

    /// Creates objects, given as YAML.
    pub fn create(&self, objects: &str) {
        self.lab.kubectl_with(&["-n", &self.name, "create", "-f", "-"], objects).unwrap();
    }

    /// Creates a MiniCluster; `spec` is YAML below `spec`.
    pub fn minicluster(&self, name: &str, spec: &str) {
        let spec: String = spec.lines().fold(String::new(), |text, line| text + "  " + line + "\n");
        self.create(&format!(
            "apiVersion: quorate.dev/v1alpha1\nkind: MiniCluster\nmetadata: {{name: {name}}}\nspec:\n{spec}"
        ));
    }

    /// A merge patch of an object.
    pub fn patch(&self, kind: &str, name: &str, patch: &Value) {
        self.kubectl(&["patch", kind, name, "--type=merge", "-p", &patch.to_string()]).unwrap();
    }

    /// An object as it is now, or `None`.
    pub fn get(&self, kind: &str, name: &str) -> Option<Value> {
        self.reader.get(&known(kind), &self.name, name)
    }

    /// All objects of a kind.
    pub fn all(&self, kind: &str) -> Vec<Value> {
        self.reader.list(&known(kind), &self.name, None)
    }

    /// Every object in it as `kind/name`, without events and what Kubernetes puts everywhere.
    pub fn census(&self) -> BTreeSet<String> {
        static KINDS: OnceLock<String> = OnceLock::new();
        let kinds = KINDS.get_or_init(|| {
            let list =
                ["api-resources", "--namespaced", "--verbs=list", "--no-headers", "-o", "name"];
            let kinds = self.lab.kubectl(&list).unwrap();
            // Events outlive what they are about.
            let kinds = kinds.lines().map(str::trim).filter(|kind| !kind.starts_with("events"));
            kinds.collect::<Vec<_>>().join(",")
        });
        let found = self.kubectl(&["get", kinds, "-o", "name"]).unwrap();
        let own = ["configmap/kube-root-ca.crt", "serviceaccount/default"];
        found.lines().filter(|name| !own.contains(name)).map(str::to_owned).collect()
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

    /// Waits until a MiniCluster is as wanted.
    pub fn until(&self, name: &str, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        self.eventually(
            &format!("{name} {what}"),
            || self.get("minicluster", name).unwrap_or_default(),
            |object| !object.is_null() && wanted(object),
        )
    }

    /// Waits for a state of `status.state`, said of the spec as it is now.
    pub fn state(&self, name: &str, state: &str) -> Value {
        self.until(name, state, |object| {
            of_its_generation(object) && object["status"]["state"] == state
        })
    }

    /// Waits until a MiniCluster is gone.
    pub fn gone(&self, name: &str) {
        let present = || self.get("minicluster", name).is_some();
        self.eventually(&format!("{name} is gone"), present, |present| !present);
    }

    /// Waits until a condition is as wanted; answers its message.
    pub fn condition(&self, name: &str, kind: &str, status: &str, reason: &str) -> String {
        let is = |object: &Value| {
            let one = condition(object, kind);
            of_its_generation(object) && one["status"] == status && one["reason"] == reason
        };
        let object = self.until(name, &format!("{kind}={status} {reason}"), is);
        condition(&object, kind)["message"].as_str().unwrap_or_default().to_owned()
    }

    /// What is there, for whoever looks why a test failed.
    pub fn scene(&self) -> String {
        let text = |answer: Result<String, String>| answer.unwrap_or_else(|error| error);
        let objects = self.kubectl(&["get", "mc,jobsets,jobs,pods", "-o", "wide"]);
        let events = text(self.kubectl(&["get", "events", "--sort-by=.lastTimestamp"]));
        let events: Vec<&str> = events.lines().collect();
        let events = events[events.len().saturating_sub(25)..].join("\n");
        format!("{}\n{events}", text(objects))
    }
}

/// Whether the status was written by who had seen the spec as it is: what was true before an edit answers nothing.
pub fn of_its_generation(object: &Value) -> bool {
    object["status"]["observedGeneration"] == object["metadata"]["generation"]
}

/// A condition of an object; null if it has none of this type.
pub fn condition<'a>(object: &'a Value, kind: &str) -> &'a Value {
    let conditions = object["status"]["conditions"].as_array();
    conditions.into_iter().flatten().find(|one| one["type"] == kind).unwrap_or(&Value::Null)
}
