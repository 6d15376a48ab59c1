//! One clear error for each thing that cannot be, with a way out.

use super::{SPACE, quorate};
use crate::LAB;
use quorate_e2e::{Said, quorate as program};
use serde_json::{Value, json};

/// The error alone, on standard error, with words of it.
fn refused(said: &Said, code: i32, words: &[&str]) {
    assert_eq!((said.code, said.out.as_str()), (code, ""), "{said:?}");
    assert_eq!(said.err.matches("error: ").count(), 1, "{said:?}");
    assert!(said.err.starts_with("error: ") && said.err.contains("\n  = "), "{said:?}");
    for word in words {
        assert!(said.err.contains(word), "{word} is not in {said:?}");
    }
}

#[test]
fn what_there_is_not_is_said_by_each_verb() {
    let missing = ["there is no MiniCluster nope in namespace verbs"];
    for verb in ["status", "why", "wait", "ls", "delete"] {
        refused(&quorate(&[verb, "nope"]), 2, &missing);
    }
    for words in [&["logs", "nope"][..], &["shell", "nope"], &["exec", "nope", "--", "true"]] {
        assert_ne!(quorate(words).code, 0, "{words:?}");
    }
    let ignored = quorate(&["delete", "--ignore-not-found", "nope"]);
    assert_eq!((ignored.code, ignored.out.as_str(), ignored.err.as_str()), (0, "", ""));
    let words = ["run", "-n", "no-such-space", "--image", "localhost/mpi-debian:v1", "--", "true"];
    refused(&LAB.quorate(&words), 2, &["there is no namespace no-such-space"]);
}

#[test]
fn a_wrong_context_or_kubeconfig_is_refused_with_those_that_there_are() {
    let said = LAB.quorate(&["ls", "--context", "elsewhere"]);
    refused(&said, 2, &["the kubeconfig has no context elsewhere", "its contexts are "]);
    let said = Said::of(&program().args(["ls", "--kubeconfig", "/no/such/file"]).output().unwrap());
    refused(&said, 2, &["there is no usable kubeconfig", "/no/such/file"]);
}

/// The kubeconfig of the test cluster, changed.
fn kubeconfig(name: &str, change: impl FnOnce(&mut Value)) -> String {
    let raw = LAB.kubectl(&["config", "view", "--raw", "-o", "json"]).unwrap();
    let mut config: Value = serde_json::from_str(&raw).unwrap();
    change(&mut config);
    let path = LAB.cluster.kubeconfig().with_file_name(name);
    std::fs::write(&path, config.to_string()).unwrap();
    path.display().to_string()
}

#[test]
fn a_user_without_rights_is_told_which_are_missing() {
    LAB.kubectl(&["create", "serviceaccount", "nobody"]).unwrap();
    let token = LAB.kubectl(&["create", "token", "nobody"]).unwrap();
    let file = kubeconfig("nobody", |config| {
        config["users"] = json!([{"name": "nobody", "user": {"token": token}}]);
        config["contexts"][0]["context"]["user"] = "nobody".into();
    });
    let ask = |words: &[&str]| {
        Said::of(&program().args(words).args(["--kubeconfig", &file]).output().unwrap())
    };
    let list = [
        "you may not list miniclusters.quorate.dev in namespace default",
        "`list` on `miniclusters.quorate.dev`",
    ];
    refused(&ask(&["ls"]), 1, &list);
    refused(&ask(&["logs"]), 1, &list);
    let get = ["you may not get miniclusters.quorate.dev in namespace default"];
    for verb in ["status", "why", "wait", "delete"] {
        refused(&ask(&[verb, "hello"]), 1, &get);
    }
    let run = ["run", "--kubeconfig", &file, "--image", "localhost/mpi-debian:v1", "--", "true"];
    let said = Said::of(&program().args(run).output().unwrap());
    refused(&said, 1, &["you may not create miniclusters.quorate.dev in namespace default"]);
}

/// The chart aggregates its roles into `view`: who may look may ask all questions.
#[test]
fn a_viewer_may_ask_and_not_change() {
    let create = |words: &[&str]| LAB.kubectl(&[&["-n", SPACE, "create"], words].concat()).unwrap();
    super::create("viewed", "size: 1\nsuspend: true\nimage: localhost/mpi-debian:v1");
    create(&["serviceaccount", "viewer"]);
    create(&["rolebinding", "viewer", "--clusterrole=view", "--serviceaccount=verbs:viewer"]);
    let token = create(&["token", "viewer"]);
    let file = kubeconfig("viewer", |config| {
        config["users"] = json!([{"name": "viewer", "user": {"token": token}}]);
        config["contexts"][0]["context"]["user"] = "viewer".into();
    });
    let ask = |words: &[&str]| {
        Said::of(
            &program().args(words).args(["-n", SPACE, "--kubeconfig", &file]).output().unwrap(),
        )
    };
    let why =
        LAB.eventually("the viewer is let in", || ask(&["why", "viewed"]), |said| said.code == 0);
    let first = "viewed is not running: spec.suspend is true.";
    assert_eq!(why.out.lines().next(), Some(first), "{why:?}");
    assert_eq!(ask(&["ls"]).code, 0);
    refused(&ask(&["delete", "viewed"]), 1, &["you may not delete miniclusters.quorate.dev"]);
    assert_eq!(quorate(&["delete", "viewed"]).code, 0);
}

/// Nothing listens where the kubeconfig points to.
#[test]
fn a_server_that_does_not_answer_is_named() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let file = kubeconfig("away", |config| {
        config["clusters"][0]["cluster"]["server"] = format!("https://{free}").into();
    });
    let said = Said::of(&program().args(["ls", "--kubeconfig", &file]).output().unwrap());
    refused(&said, 1, &["no Kubernetes API server answers at", &free.to_string()]);
}
