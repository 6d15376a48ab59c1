//! Why is it not running? One cluster for each cause: the status and `quorate why` say the same
//! sentence with the facts that help, and it goes away when the cause does.
//!
//! All clusters of a table are made at once, so that their waits overlap.

#[path = "causes/admission.rs"]
mod admission;
#[path = "causes/pods.rs"]
mod pods;
#[path = "causes/programs.rs"]
mod programs;
#[path = "causes/waiting.rs"]
mod waiting;

use crate::LAB;
use serde_json::Value;
use std::time::{Duration, Instant};

const IMAGE: &str = "image: localhost/mpi-debian:v1";
/// A person waits no longer for an explanation on a quiet machine; this one may be busy.
const LIMIT: Duration = Duration::from_mins(3);
const LOOK: Duration = Duration::from_millis(200);

/// A cluster that cannot run.
struct Case {
    namespace: &'static str,
    name: &'static str,
    /// YAML below `spec`.
    spec: String,
    /// `status.reason`, and the cause of `quorate why`.
    reason: &'static str,
    /// What the sentence must have.
    words: &'static [&'static str],
    /// What else must be so.
    check: fn(&Value),
    /// What mends it, and the state that it then comes to.
    heal: Option<(fn(), &'static str)>,
}

impl Case {
    fn new(name: &'static str, spec: String, reason: &'static str) -> Self {
        let check = |_: &Value| ();
        Self { namespace: "default", name, spec, reason, words: &[], check, heal: None }
    }

    fn within(self, namespace: &'static str) -> Self {
        Self { namespace, ..self }
    }

    fn says(self, words: &'static [&'static str]) -> Self {
        Self { words, ..self }
    }

    fn and(self, check: fn(&Value)) -> Self {
        Self { check, ..self }
    }

    fn healed(self, heal: fn(), state: &'static str) -> Self {
        Self { heal: Some((heal, state)), ..self }
    }

    fn create(&self) {
        let spec: String =
            self.spec.lines().fold(String::new(), |text, line| text + "  " + line + "\n");
        let (namespace, name) = (self.namespace, self.name);
        let object = format!(
            "apiVersion: quorate.dev/v1alpha1\nkind: MiniCluster\n\
             metadata: {{name: {name}, namespace: {namespace}}}\nspec:\n{spec}"
        );
        LAB.create(&object).unwrap_or_else(|error| panic!("{name}: {error}"));
    }

    fn object(&self) -> Value {
        let text = LAB.kubectl(&["-n", self.namespace, "get", "mc", self.name, "-o", "json"]);
        serde_json::from_str(&text.unwrap()).unwrap()
    }

    fn delete(&self) {
        LAB.kubectl(&["-n", self.namespace, "delete", "mc", self.name, "--wait=false"]).unwrap();
    }

    /// Waits for the sentence in the status; then `quorate why` must say it too.
    fn told(&self) -> Result<(), String> {
        let explained = |status: &Value| {
            let message = status["message"].as_str().unwrap_or_default();
            status["reason"] == self.reason && self.words.iter().all(|word| message.contains(word))
        };
        let deadline = Instant::now() + LIMIT;
        loop {
            let status = self.object()["status"].clone();
            let mut wrong = format!("the status is {status}");
            if explained(&status) {
                let said = self.why();
                // What changed meanwhile is asked again.
                if self.object()["status"]["message"] == status["message"] {
                    match agree(self.name, &status, &said) {
                        Ok(()) => {
                            (self.check)(&status);
                            return Ok(());
                        }
                        Err(error) => wrong = error,
                    }
                }
            }
            if Instant::now() > deadline {
                let (name, reason, words) = (self.name, self.reason, self.words);
                return Err(format!("{name}: wanted {reason} with {words:?}; {wrong}"));
            }
            std::thread::sleep(LOOK);
        }
    }

    /// What `quorate why` says, for people and as JSON.
    fn why(&self) -> (String, Value) {
        let text = LAB.quorate(&["why", self.name, "-n", self.namespace]);
        assert_eq!((text.code, text.err.as_str()), (0, ""), "{text:?}");
        let data = LAB.quorate(&["why", self.name, "-n", self.namespace, "-o", "json"]);
        (text.out.clone(), data.json())
    }

    fn reaches(&self, state: &str) -> Result<(), String> {
        let deadline = Instant::now() + LIMIT;
        loop {
            let status = self.object()["status"].clone();
            if status["state"] == state {
                return Ok(());
            }
            if Instant::now() > deadline {
                return Err(format!("{} was healed and never {state}: {status}", self.name));
            }
            std::thread::sleep(LOOK);
        }
    }
}

/// Whether both forms of the answer say what the status says.
fn agree(name: &str, status: &Value, (text, data): &(String, Value)) -> Result<(), String> {
    let message = status["message"].as_str().unwrap();
    let is = if status["state"] == "Failed" { "failed" } else { "is not running" };
    let first = format!("{name} {is}: {message}.");
    if text.lines().next() != Some(&first) {
        return Err(format!("the status says {message:?}, quorate why {text:?}"));
    }
    if data["message"] != status["message"] || data["cause"] != status["reason"] {
        return Err(format!("the status is {status}, quorate why -o json {data}"));
    }
    // In the text there is what the data has.
    match data["toDo"].as_str() {
        Some(to_do) if !text.contains(&format!("  to do     {to_do}\n")) => {
            Err(format!("{to_do:?} is not in {text:?}"))
        }
        _ => Ok(()),
    }
}

/// Makes all, waits for each sentence, mends what can be mended.
fn explained(cases: &[Case]) {
    for case in cases {
        case.create();
    }
    let mut wrong: Vec<String> = cases.iter().filter_map(|case| case.told().err()).collect();
    for (heal, _) in cases.iter().filter_map(|case| case.heal) {
        heal();
    }
    let healed = cases.iter().filter_map(|case| case.heal.map(|(_, state)| (case, state)));
    wrong.extend(healed.filter_map(|(case, state)| case.reaches(state).err()));
    for case in cases {
        case.delete();
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn kubectl(arguments: &[&str]) {
    LAB.kubectl(arguments).unwrap();
}

/// A merge patch of a MiniCluster's spec.
fn patch(namespace: &str, name: &str, spec: &str) {
    let patch = format!("{{\"spec\":{spec}}}");
    kubectl(&["-n", namespace, "patch", "mc", name, "--type=merge", "-p", &patch]);
}
