//! The Kubernetes side against an API server of canned answers.

use super::gather::gather;
use super::session::Session;
use super::words::{self, Columns, Picture};
use crate::args::{Place, Reach};
use crate::refusal::render;
use k8s_openapi::jiff::Timestamp;
use quorate_api::MiniCluster;
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};

/// Answers each request by its method and path; ends with the test's process.
fn server(answer: impl Fn(&str, &str) -> (u16, Value) + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let _ = reply(&stream, &answer);
        }
    });
    url
}

fn reply(
    mut stream: &TcpStream,
    answer: &impl Fn(&str, &str) -> (u16, Value),
) -> std::io::Result<()> {
    let mut lines = BufReader::new(stream).lines();
    let first = lines.next().transpose()?.unwrap_or_default();
    while lines.next().transpose()?.is_some_and(|line| !line.is_empty()) {}
    let mut words = first.split(' ');
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let path = path.split('?').next().unwrap_or_default();
    let (code, body) = answer(method, path);
    let body = body.to_string();
    write!(
        stream,
        "HTTP/1.1 {code} X\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n{body}",
        body.len()
    )
}

fn failure(code: u16, reason: &str, message: &str) -> (u16, Value) {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code,
        "reason": reason, "message": message,
    });
    (code, status)
}

fn list(kind: &str, items: &Value) -> (u16, Value) {
    let list =
        json!({"kind": format!("{kind}List"), "apiVersion": "v1", "metadata": {}, "items": items});
    (200, list)
}

fn hello() -> Value {
    json!({
        "apiVersion": "quorate.dev/v1alpha1", "kind": "MiniCluster",
        "metadata": {
            "name": "hello", "namespace": "hpc", "uid": "u-1",
            "creationTimestamp": "2026-01-01T00:00:00Z",
        },
        "spec": {
            "size": 4, "image": "example/app",
            "program": {"parallel": {"command": ["./hello"], "tasks": 8}},
        },
        "status": {
            "state": "Running", "size": 4, "online": 4, "attempt": 1, "restarts": 1,
            "message": "the program runs",
        },
    })
}

const CLUSTERS: &str = "/apis/quorate.dev/v1alpha1/namespaces/hpc/miniclusters";

/// A session with a server, by way of a kubeconfig file.
async fn session(url: &str) -> (tempfile::TempDir, anyhow::Result<Session>) {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("kubeconfig");
    let text = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: lab\n\
         contexts: [{{name: lab, context: {{cluster: c, user: u, namespace: hpc}}}}]\n\
         clusters: [{{name: c, cluster: {{server: '{url}'}}}}]\nusers: [{{name: u, user: {{}}}}]\n"
    );
    std::fs::write(&file, text).unwrap();
    let place = Place { reach: Reach { context: None, kubeconfig: Some(file) }, namespace: None };
    let session = Session::open(&place).await;
    (dir, session)
}

#[tokio::test]
async fn a_name_that_is_not_there_is_answered_with_those_that_are() {
    let url = server(|_, path| match path {
        CLUSTERS => list("MiniCluster", &json!([hello()])),
        _ => failure(404, "NotFound", "not found"),
    });
    let (_dir, session) = session(&url).await;
    let error = session.unwrap().cluster("helo").await.unwrap_err();
    assert_eq!(
        render(&error).0,
        "error: there is no MiniCluster helo in namespace hpc\n  = the MiniClusters are hello"
    );
}

#[tokio::test]
async fn a_server_without_the_resource_says_how_to_install_it() {
    let url =
        server(|_, _| failure(404, "NotFound", "the server could not find the requested resource"));
    let (_dir, session) = session(&url).await;
    let error = session.unwrap().cluster("hello").await.unwrap_err();
    let (text, code) = render(&error);
    assert!(text.contains("Quorate is not installed there"), "{text}");
    assert!(text.contains("helm install quorate"), "{text}");
    assert_eq!(code, 1);
}

#[tokio::test]
async fn what_is_forbidden_is_named_by_verb_and_resource() {
    let url = server(|_, _| failure(403, "Forbidden", "User \"eve\" cannot get resource"));
    let (_dir, session) = session(&url).await;
    let error = session.unwrap().cluster("hello").await.unwrap_err();
    let (text, _) = render(&error);
    assert!(text.contains("you may not get miniclusters.quorate.dev in namespace hpc"), "{text}");
}

#[tokio::test]
async fn a_server_that_is_away_is_named_with_its_address() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let (_dir, session) = session(&format!("http://127.0.0.1:{port}")).await;
    let error = session.unwrap().cluster("hello").await.unwrap_err();
    let (text, _) = render(&error);
    assert!(text.contains(&format!("no Kubernetes API server answers at http://127.0.0.1:{port}")));
    assert!(text.contains("onnection refused"), "{text}");
}

#[tokio::test]
async fn a_context_that_is_not_there_is_answered_with_those_that_are() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("kubeconfig");
    let text =
        "apiVersion: v1\nkind: Config\ncontexts: [{name: lab, context: {cluster: c, user: u}}]\n";
    std::fs::write(&file, text).unwrap();
    let reach = |context: &str| Place {
        reach: Reach { context: Some(context.into()), kubeconfig: Some(file.clone()) },
        namespace: None,
    };
    let error = Session::open(&reach("lap")).await.err().unwrap();
    assert_eq!(
        render(&error).0,
        "error: the kubeconfig has no context lap\n  = its contexts are lab"
    );
    let nowhere = Place {
        reach: Reach { context: None, kubeconfig: Some(dir.path().join("none")) },
        namespace: None,
    };
    let error = Session::open(&nowhere).await.err().unwrap();
    assert!(render(&error).0.contains("there is no usable kubeconfig"));
}

#[tokio::test]
async fn what_may_not_be_read_is_told_and_the_rest_is_used() {
    let url = server(|_, path| match path {
        "/apis/quorate.dev/v1alpha1/namespaces/hpc/miniclusters/hello" => (200, hello()),
        "/api/v1/namespaces/hpc/pods" => list("Pod", &json!([])),
        "/apis/batch/v1/namespaces/hpc/jobs" => list("Job", &json!([])),
        _ => failure(403, "Forbidden", "no"),
    });
    let (_dir, session) = session(&url).await;
    let gathered = gather(&session.unwrap(), "hello").await.unwrap();
    assert_eq!(
        gathered.unseen,
        ["JobSets (you may not read them)", "events (you may not read them)"]
    );
    assert!(gathered.observed.shape.is_some());
}

#[test]
fn lists_have_the_columns_of_kubectl() {
    let mut second: MiniCluster = serde_json::from_value(hello()).unwrap();
    second.metadata.name = Some("new".into());
    second.status = None;
    let clusters = [serde_json::from_value(hello()).unwrap(), second];
    let now: Timestamp = "2026-01-01T00:02:00Z".parse().unwrap();
    let columns = Columns { namespaces: false, wide: false };
    insta::assert_snapshot!("list", words::list(&clusters, columns, now));
    let columns = Columns { namespaces: true, wide: true };
    insta::assert_snapshot!("list_wide", words::list(&clusters, columns, now));
}

fn pod(group: &str, index: u32, node: Option<&str>, status: &Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": format!("hello-{group}-0-{index}-abcde"), "namespace": "hpc",
            "uid": format!("p-{group}-{index}"), "creationTimestamp": "2026-01-01T00:00:02Z",
            "labels": {
                "quorate.dev/cluster": "hello", "quorate.dev/group": group,
                "jobset.sigs.k8s.io/jobset-uid": "j-1",
                "jobset.sigs.k8s.io/restart-attempt": "1",
                "batch.kubernetes.io/job-completion-index": index.to_string(),
            },
        },
        "spec": {"nodeName": node, "containers": [{"name": "main", "image": "example/app"}]},
        "status": status,
    })
}

fn running(ready: &str, ip: &str) -> Value {
    json!({
        "phase": "Running", "podIP": ip,
        "conditions": [{"type": "Ready", "status": ready, "lastTransitionTime": "2026-01-01T00:00:05Z"}],
        "containerStatuses": [{
            "name": "main", "image": "example/app", "imageID": "", "ready": true, "restartCount": 0,
            "state": {"running": {"startedAt": "2026-01-01T00:00:04Z"}},
        }],
    })
}

#[tokio::test]
async fn status_shows_the_tree_of_brokers() {
    let url = server(|_, path| match path {
        "/apis/quorate.dev/v1alpha1/namespaces/hpc/miniclusters/hello" => {
            let mut cluster = hello();
            cluster["status"]["failure"] = json!({
                "attempt": 0, "reason": "Signaled", "message": "rank 5 ended by signal 11",
                "rank": 5, "pod": "worker-0-1", "node": "n2", "signal": 11,
                "logTail": ["reading mesh.h5", "allocated 2.1 GB"],
            });
            cluster["spec"]["failurePolicy"] = json!({"maxRestarts": 3});
            (200, cluster)
        }
        "/apis/jobset.x-k8s.io/v1alpha2/namespaces/hpc/jobsets/hello" => {
            let jobset = json!({
                "apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet",
                "metadata": {
                    "name": "hello", "namespace": "hpc", "uid": "j-1",
                    "creationTimestamp": "2026-01-01T00:00:01Z",
                    "ownerReferences": [{
                        "apiVersion": "quorate.dev/v1alpha1", "kind": "MiniCluster",
                        "name": "hello", "uid": "u-1", "controller": true,
                    }],
                },
                "spec": {"replicatedJobs": []},
                "status": {"restarts": 1, "restartsCountTowardsMax": 1},
            });
            (200, jobset)
        }
        "/api/v1/namespaces/hpc/pods" => list(
            "Pod",
            &json!([
                pod("launcher", 0, Some("n1"), &running("False", "10.0.0.1")),
                pod("worker", 0, Some("n2"), &running("True", "10.0.0.2")),
                pod("worker", 1, None, &json!({"phase": "Pending"})),
            ]),
        ),
        "/apis/batch/v1/namespaces/hpc/jobs" => list("Job", &json!([])),
        "/apis/events.k8s.io/v1/namespaces/hpc/events" => list("Event", &json!([])),
        _ => failure(404, "NotFound", "not found"),
    });
    let (_dir, session) = session(&url).await;
    let gathered = gather(&session.unwrap(), "hello").await.unwrap();
    let now: Timestamp = "2026-01-01T00:02:00Z".parse().unwrap();
    let why = quorate_observe::why(&gathered.observed, now);
    let status = quorate_observe::status(&gathered.observed, now);
    let picture = Picture {
        observed: &gathered.observed,
        why: &why,
        status: &status,
        unseen: &[],
        now,
        unicode: true,
    };
    insta::assert_snapshot!("status", picture.text());
    insta::assert_snapshot!("status_data", serde_json::to_string_pretty(&picture.data()).unwrap());
}
