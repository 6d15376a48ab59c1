//! Answers of the API server that are errors, in words that say what to do. Pure.

use crate::refusal::Refusal;
use kube::core::Status;

/// The resource of MiniClusters as roles name it.
const CLUSTERS: &str = "miniclusters.quorate.dev";

/// What was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Asked<'a> {
    /// The verb as roles name it: `get`, `create`, ...
    pub(super) verb: &'a str,
    /// The resource as roles name it, with its group and subresource: `pods/exec`.
    pub(super) resource: &'a str,
    /// The object's name, where there is one.
    pub(super) name: Option<&'a str>,
}

impl<'a> Asked<'a> {
    /// Something of MiniClusters.
    pub(super) fn clusters(verb: &'a str) -> Self {
        Self { verb, resource: CLUSTERS, name: None }
    }

    /// Something of pods or one of their subresources.
    pub(super) fn pods(verb: &'a str, resource: &'a str) -> Self {
        Self { verb, resource, name: None }
    }

    /// Of an object.
    pub(super) fn named(self, name: &'a str) -> Self {
        Self { name: Some(name), ..self }
    }
}

/// The error that a person gets.
pub(super) fn refuse(
    error: &kube::Error,
    asked: &Asked<'_>,
    url: &str,
    namespace: &str,
) -> Refusal {
    match error {
        kube::Error::Api(status) => of_status(status, asked, namespace),
        kube::Error::Auth(error) => Refusal::new(format!("cannot log in at {url}: {error}"))
            .hint("the kubeconfig's user does not work; `kubectl get pods` must"),
        kube::Error::Service(_) | kube::Error::HyperError(_) => {
            Refusal::new(format!("no Kubernetes API server answers at {url}: {}", last(error)))
                .hint("is it up, and is this the right --context? `kubectl version` asks the same")
        }
        other => Refusal::new(format!("cannot {} {}: {other}", asked.verb, asked.resource)),
    }
}

/// The innermost cause: what a person can look for.
fn last(error: &kube::Error) -> String {
    let mut at: &dyn std::error::Error = error;
    while let Some(source) = at.source() {
        at = source;
    }
    at.to_string()
}

fn of_status(status: &Status, asked: &Asked<'_>, namespace: &str) -> Refusal {
    let Asked { verb, resource, name } = *asked;
    let of = name.map(|name| format!(" {name}")).unwrap_or_default();
    let kind = status.details.as_ref().map(|details| details.kind.as_str()).unwrap_or_default();
    match status.code {
        401 => Refusal::new("the API server does not know who you are")
            .hint("log in again; `kubectl get pods` must work"),
        403 => Refusal::new(format!("you may not {verb} {resource} in namespace {namespace}"))
            .hint(format!(
                "the API server: {}",
                status.message.trim_end_matches('.')
            ))
            .hint(format!(
                "ask for a role there with the verb `{verb}` on `{resource}`"
            )),
        404 if kind == "namespaces" => {
            Refusal::usage(format!("there is no namespace {namespace}")).hint(format!(
                "name another with -n, or make it: `kubectl create namespace {namespace}`"
            ))
        }
        404 if resource == CLUSTERS && !names_an_object(status) => {
            Refusal::new("this Kubernetes has no MiniClusters: Quorate is not installed there").hint(
                "install it: `helm install quorate charts/quorate -n quorate-system --create-namespace`",
            )
        }
        404 => Refusal::new(format!("there is no {resource}{of} in namespace {namespace}"))
            .hint("it may just have ended; `quorate ls` lists what there is"),
        409 if verb == "create" => {
            Refusal::new(format!("there is already a MiniCluster{of} in namespace {namespace}"))
                .hint("end it with `quorate delete`, or choose another --name")
        }
        422 => invalid(status),
        429 | 503 | 504 => {
            Refusal::new(format!("the API server is too busy to {verb} {resource}: {}", status.message))
                .hint("try again in a moment")
        }
        _ => Refusal::new(format!("cannot {verb} {resource}{of}: {}", status.message)),
    }
}

/// Whether a 404 is about an object rather than about its kind.
fn names_an_object(status: &Status) -> bool {
    status.details.as_ref().is_some_and(|details| !details.name.is_empty())
}

/// The rules that the API server found broken, one a line.
fn invalid(status: &Status) -> Refusal {
    let causes = status.details.iter().flat_map(|details| &details.causes);
    let lines: Vec<String> = causes
        .map(|cause| {
            let field = cause.field.trim_start_matches("<nil>");
            if field.is_empty() {
                cause.message.clone()
            } else {
                format!("{field}: {}", cause.message)
            }
        })
        .collect();
    match lines.split_first() {
        Some((first, rest)) => rest.iter().fold(
            Refusal::usage(format!("the API server refuses it: {first}")),
            |refusal, line| refusal.hint(format!("and {line}")),
        ),
        None => Refusal::usage(format!("the API server refuses it: {}", status.message)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::refusal::render;
    use kube::core::response::{StatusCause, StatusDetails};

    fn details(kind: &str, name: &str, causes: Vec<StatusCause>) -> StatusDetails {
        StatusDetails {
            kind: kind.into(),
            name: name.into(),
            group: String::new(),
            uid: String::new(),
            causes,
            retry_after_seconds: 0,
        }
    }

    fn words(code: u16, kind: &str, name: &str, asked: &Asked<'_>) -> String {
        let details = details(kind, name, Vec::new());
        let status = Status {
            code,
            message: "its words.".into(),
            details: Some(details),
            ..Status::default()
        };
        let error = kube::Error::Api(status.boxed());
        render(&refuse(&error, asked, "https://h:6443/", "hpc").into()).0
    }

    #[test]
    fn answers_become_words_with_a_way_out() {
        let create = Asked::clusters("create").named("hello");
        let logs = Asked::pods("get", "pods/log").named("hello-launcher-0-0-abcde");
        for (code, kind, name, asked, message, hint) in [
            (401, "", "", create, "does not know who you are", "log in again"),
            (403, "", "", logs, "you may not get pods/log in namespace hpc", "`get` on `pods/log`"),
            (404, "namespaces", "hpc", create, "there is no namespace hpc", "create namespace hpc"),
            (404, "", "", create, "Quorate is not installed", "helm install"),
            (404, "pods", "p", logs, "there is no pods/log hello-launcher-0-0-abcde", "quorate ls"),
            (409, "", "", create, "already a MiniCluster hello in namespace hpc", "--name"),
            (503, "", "", logs, "too busy to get pods/log: its words.", "try again"),
        ] {
            let text = words(code, kind, name, &asked);
            assert!(text.contains(message) && text.contains(hint), "{code}: {text}");
        }
        assert_eq!(
            words(500, "", "", &logs),
            "error: cannot get pods/log hello-launcher-0-0-abcde: its words."
        );
    }

    #[test]
    fn all_rules_that_the_server_found_broken_are_told() {
        let cause = |field: &str, message: &str| StatusCause {
            reason: String::new(),
            field: field.into(),
            message: message.into(),
        };
        let causes = vec![cause("spec.size", "too large"), cause("spec.image", "missing")];
        let details = details("", "", causes);
        let status = Status { code: 422, details: Some(details), ..Status::default() };
        let error = kube::Error::Api(status.boxed());
        let (text, code) = render(&refuse(&error, &Asked::clusters("create"), "u", "hpc").into());
        assert_eq!(
            text,
            "error: the API server refuses it: spec.size: too large\n  = and spec.image: missing"
        );
        assert_eq!(code, quorate_contract::exit::USAGE);
    }
}
