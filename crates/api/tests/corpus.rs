//! Objects that are refused, each with what is said about it, and objects that are taken. Files and
//! the API server are held to the same corpus.
//!
//! A file starts with comments. `# target: kubernetes` or `local` says where the rule holds (`local`
//! unless said; good files hold on both). A bad file has, for each error in the order in which they
//! are reported, `# path:` and `# message:`; `# server:` says why the API server does not refuse it
//! by itself.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test says by a panic what is wrong")]

#[path = "corpus/server.rs"]
mod server;

use std::fs;
use std::path::{Path, PathBuf};

use quorate_api::{Finding, Severity, Target, load};

struct Case {
    path: PathBuf,
    text: String,
    targets: Vec<Target>,
    /// Why the API server takes it.
    server: Option<String>,
    /// Path and message of each error.
    expected: Vec<(String, String)>,
}

fn cases(kind: &str) -> Vec<Case> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(kind);
    let mut paths: Vec<PathBuf> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.into_iter().map(|path| case(path, kind)).collect()
}

fn case(path: PathBuf, kind: &str) -> Case {
    let text = fs::read_to_string(&path).unwrap();
    let mut targets = match kind {
        "good" => vec![Target::Local, Target::Kubernetes],
        _ => vec![Target::Local],
    };
    let mut server = None;
    let mut expected: Vec<(String, String)> = Vec::new();
    for line in text.lines().take_while(|line| line.starts_with('#')) {
        match line.trim_start_matches("# ").split_once(": ") {
            Some(("target", "kubernetes")) => targets = vec![Target::Kubernetes],
            Some(("target", "local")) => targets = vec![Target::Local],
            Some(("server", why)) => server = Some(why.to_owned()),
            Some(("path", path)) => expected.push((path.trim().to_owned(), String::new())),
            Some(("message", message)) => {
                message.clone_into(&mut expected.last_mut().unwrap().1);
            }
            _ => {}
        }
    }
    Case { path, text, targets, server, expected }
}

fn said(findings: &[Finding]) -> Vec<(String, String)> {
    let file = |path: String| if path.is_empty() { "(file)".to_owned() } else { path };
    findings
        .iter()
        .filter(|finding| finding.severity == Severity::Error)
        .map(|finding| (file(finding.path.to_string()), finding.message.clone()))
        .collect()
}

#[test]
fn bad_files_are_refused_with_their_paths_and_messages() {
    let cases = cases("bad");
    assert!(cases.len() >= 30);
    let mut wrong = Vec::new();
    for case in cases {
        for target in case.targets {
            let found = match load(&case.text, target) {
                Ok(_) => Vec::new(),
                Err(findings) => said(&findings),
            };
            if std::env::var("CORPUS_SHOW").is_ok() {
                println!("@ {}", case.path.display());
                for (path, message) in &found {
                    println!("# path: {path}\n# message: {message}");
                }
            }
            if found.is_empty() || found != case.expected {
                wrong.push(format!("{}: {found:?}", case.path.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn each_error_names_its_line_and_a_way_out() {
    for case in cases("bad") {
        for finding in load(&case.text, case.targets[0]).unwrap_err() {
            let way_out = finding.hint.is_some() || finding.message.contains("did you mean");
            assert!(way_out, "{}: {finding}", case.path.display());
            // What is not in the file has no line.
            let whole = finding.position.is_none();
            assert!(
                !whole
                    || ["missing", "empty: there is no object in it"]
                        .contains(&finding.message.as_str()),
                "{}: {finding}",
                case.path.display()
            );
        }
    }
}

#[test]
fn good_files_are_taken() {
    let cases = cases("good");
    assert!(cases.len() >= 15);
    for case in cases {
        for target in case.targets {
            if let Err(findings) = load(&case.text, target) {
                panic!("{} for {target:?}: {findings:#?}", case.path.display());
            }
        }
    }
}

#[test]
fn the_api_server_refuses_the_same() {
    let server = server::Server::new();
    let mut wrong = Vec::new();
    for case in cases("bad") {
        let Some(object) = server::read(&case.text) else {
            assert_eq!(case.server.as_deref(), Some("never sees it"), "{}", case.path.display());
            continue;
        };
        let refused = server.refuses(object);
        match case.server.as_deref() {
            Some("never sees it") => {}
            Some(_) if refused.is_empty() => {}
            None if !refused.is_empty() => {}
            why => wrong.push(format!("{}: server: {why:?}, but {refused:?}", case.path.display())),
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn the_api_server_takes_the_same() {
    let server = server::Server::new();
    for case in cases("good").into_iter().filter(|c| c.targets.contains(&Target::Kubernetes)) {
        let refused = server.refuses(server::read(&case.text).unwrap());
        assert!(refused.is_empty(), "{}: {refused:?}", case.path.display());
    }
}

/// The texts that the API server says are part of the interface.
#[test]
fn rules_name_the_field_and_the_way_out() {
    let server = server::Server::new();
    let text = "apiVersion: quorate.dev/v1alpha1\nkind: MiniCluster\nmetadata: {name: hello}\nspec: {size: 4, minSize: 6, image: x}\n";
    assert_eq!(
        server.refuses(server::read(text).unwrap()),
        ["spec.minSize: minSize is more than size: set minSize to at most size, or raise size"]
    );
}
