//! The verbs of `quorate` on Kubernetes: data on standard output, status on standard error, the codes
//! of programs, and one clear error for what cannot be.

#[path = "verbs/refusals.rs"]
mod refusals;
#[path = "verbs/running.rs"]
mod running;

use crate::LAB;
use quorate_e2e::{Said, program};
use serde_json::Value;
use std::io::Write as _;
use std::process::{Command, Stdio};
use std::sync::LazyLock;

/// The clusters here have a namespace of their own, for `ls`.
const SPACE: &str = "verbs";
const IMAGE: &str = "image: localhost/mpi-debian:v1";

static NAMESPACE: LazyLock<()> = LazyLock::new(|| {
    LAB.kubectl(&["create", "namespace", SPACE]).unwrap();
});

/// `quorate VERB -n verbs ARGUMENTS`.
fn quorate(arguments: &[&str]) -> Said {
    LAB.quorate(&placed(arguments))
}

fn placed<'a>(arguments: &[&'a str]) -> Vec<&'a str> {
    LazyLock::force(&NAMESPACE);
    let (verb, rest) = arguments.split_first().unwrap();
    [&[*verb, "-n", SPACE], rest].concat()
}

/// A call that must work and say nothing but data.
fn data(arguments: &[&str]) -> String {
    let said = quorate(arguments);
    assert_eq!((said.code, said.err.as_str()), (0, ""), "{arguments:?}: {said:?}");
    said.out
}

/// Runs with text on its standard input.
fn with_input(arguments: &[&str], input: &str) -> Said {
    let mut command = LAB.quorate_command(&placed(arguments));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    Said::of(&child.wait_with_output().unwrap())
}

fn create(name: &str, spec: &str) {
    LazyLock::force(&NAMESPACE);
    let spec: String = spec.lines().fold(String::new(), |text, line| text + "  " + line + "\n");
    LAB.create(&format!(
        "apiVersion: quorate.dev/v1alpha1\nkind: MiniCluster\n\
         metadata: {{name: {name}, namespace: {SPACE}}}\nspec:\n{spec}"
    ))
    .unwrap();
}

/// Whether the API server still has a cluster of the namespace.
fn exists(name: &str) -> bool {
    !LAB.kubectl(&["-n", SPACE, "get", "mc", name, "--ignore-not-found"]).unwrap().is_empty()
}

#[test]
fn a_living_cluster_answers_all_questions_in_text_and_in_json() {
    let name = "tools";
    create(name, &format!("size: 3\n{IMAGE}"));
    let waited = quorate(&["wait", name, "--for", "quorate", "--timeout", "180"]);
    assert_eq!((waited.code, waited.out.as_str()), (0, ""), "{waited:?}");

    let table = data(&["ls", name]);
    let words: Vec<Vec<&str>> =
        table.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(words[0], ["NAME", "SIZE", "ONLINE", "STATE", "JOBS", "AGE"], "{table}");
    assert_eq!(words[1][..4], ["tools", "3", "3", "Ready"], "{table}");
    assert_eq!(data(&["ls", name, "-o", "name"]), "tools\n");
    let list: Value = serde_json::from_str(&data(&["ls", name, "-o", "json"])).unwrap();
    let one = &list[0];
    assert_eq!(
        (&one["name"], &one["namespace"], &one["size"], &one["online"], &one["state"]),
        (&name.into(), &SPACE.into(), &3.into(), &3.into(), &"Ready".into()),
        "{list}"
    );
    assert!(one["ageSeconds"].is_u64(), "{list}");

    let status = data(&["status", name]);
    assert!(status.starts_with("tools is ready: it is up and takes work.\n"), "{status}");
    for line in ["RANK", "launcher-0-0", "worker-0-0", "worker-0-1"] {
        assert!(status.contains(line), "{line} is not in {status}");
    }
    let status: Value = serde_json::from_str(&data(&["status", name, "-o", "json"])).unwrap();
    assert_eq!(status["brokers"].as_array().unwrap().len(), 3, "{status}");
    assert_eq!(status["brokers"][2]["name"], "worker-0-1");
    let why = data(&["why", name]);
    assert!(why.starts_with("tools is ready: it is up and takes work.\n"), "{why}");
    assert!(why.contains("  brokers   3/3, the quorum is 3\n"), "{why}");
    let why: Value = serde_json::from_str(&data(&["why", name, "-o", "json"])).unwrap();
    assert_eq!(
        (&why["cause"], &why["online"], &why["size"]),
        (&"Ready".into(), &3.into(), &3.into())
    );

    assert_eq!(data(&["exec", name, "--", "hostname"]), "tools-launcher-0-0\n");
    assert_eq!(data(&["exec", "tools/worker-0-1", "--", "hostname"]), "tools-worker-0-1\n");
    let five = quorate(&["exec", name, "--", "sh", "-c", "echo out; echo err >&2; exit 5"]);
    assert_eq!((five.code, five.out.as_str(), five.err.as_str()), (5, "out\n", "err\n"));
    let upper = with_input(&["exec", name, "--", "tr", "a-z", "A-Z"], "typed\n");
    assert_eq!((upper.code, upper.out.as_str()), (0, "TYPED\n"), "{upper:?}");
    let shell = with_input(&["shell", name], "hostname\nexit 3\n");
    assert_eq!((shell.code, shell.out.as_str()), (3, "tools-launcher-0-0\n"), "{shell:?}");

    let gone = quorate(&["delete", name]);
    assert_eq!((gone.code, gone.out.as_str(), gone.err.as_str()), (0, "", "tools deleted\n"));
    assert!(!exists(name));
    for kind in ["jobsets", "jobs", "pods", "secrets", "networkpolicies"] {
        let selector = format!("{}={name}", quorate_plan::labels::CLUSTER);
        let ask =
            || LAB.kubectl(&["-n", SPACE, "get", kind, "-l", &selector, "-o", "name"]).unwrap();
        LAB.eventually(kind, ask, String::is_empty);
    }
}

#[test]
fn logs_are_those_of_all_pods_with_their_names_while_they_come_and_after_the_end() {
    let name = "talks";
    let script = "echo one; until test -e /tmp/go; do sleep 0.1; done; echo two; exit 4";
    create(name, &format!("size: 2\n{IMAGE}\nprogram: {{command: [sh, -c, '{script}']}}"));
    let waited = quorate(&["wait", name, "--for", "quorate"]);
    assert_eq!(waited.code, 0, "{waited:?}");
    let ask = || quorate(&["logs", name]);
    LAB.eventually("the first line is there", ask, |said| said.out.contains("launcher-0-0: one\n"));
    let mut command = LAB.quorate_command(&placed(&["logs", "-f", name]));
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let follower = command.spawn().unwrap();
    let short = quorate(&["wait", name, "--timeout", "1"]);
    assert_eq!(short.code, 124, "{short:?}");
    assert!(short.err.contains("talks has not ended within 1 s"), "{short:?}");
    assert_eq!(data(&["exec", name, "--", "touch", "/tmp/go"]), "");
    let followed = Said::of(&follower.wait_with_output().unwrap());
    assert_eq!(followed.code, 0, "{followed:?}");
    assert!(followed.out.contains("launcher-0-0: one\nlauncher-0-0: two\n"), "{followed:?}");
    assert_eq!(quorate(&["wait", name]).code, 4);
    let after = data(&["logs", name]);
    assert!(after.contains("launcher-0-0: one\nlauncher-0-0: two\n"), "{after}");
    assert_eq!(data(&["logs", "talks/launcher-0-0", "--tail", "1"]), "two\n");
    let status: Value = serde_json::from_str(&data(&["status", name, "-o", "json"])).unwrap();
    assert_eq!(status["status"]["exitCode"], 4, "{status}");
    assert_eq!(quorate(&["delete", name]).code, 0);
}

/// kubectl finds plugins by their names on the path.
#[test]
fn kubectl_quorate_is_the_same_program() {
    let name = "plugin";
    create(name, &format!("size: 1\nsuspend: true\n{IMAGE}"));
    let folder = LAB.cluster.kubeconfig().with_file_name("plugins");
    std::fs::create_dir_all(&folder).unwrap();
    std::os::unix::fs::symlink(program(), folder.join("kubectl-quorate")).unwrap();
    // kubectl takes no flags of its own before the name of a plugin.
    let mut command = Command::new(LAB.cluster.kubectl().get_program());
    let path = std::env::var("PATH").unwrap();
    command.env("PATH", format!("{}:{path}", folder.display()));
    command.env("KUBECONFIG", LAB.cluster.kubeconfig());
    let said = Said::of(&command.args(["quorate", "ls", "-n", SPACE, name]).output().unwrap());
    assert_eq!((said.code, said.err.as_str()), (0, ""), "{said:?}");
    assert_eq!(said.out.lines().count(), 2, "{said:?}");
    assert!(said.out.contains("Suspended") || said.out.contains(" - "), "{said:?}");
    assert_eq!(quorate(&["delete", name]).code, 0);
}
