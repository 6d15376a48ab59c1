//! The election's shell against an API server in memory: lists, watches, creates and replaces one
//! Lease, and can be cut off per candidate.
#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use k8s_openapi::api::coordination::v1::Lease;
use kube::Client;
use kube::api::Api;
use kube::client::Body;
use quorate_controller::lease::{Candidate, Election, Fence, Standing, Timing};
use quorate_controller::metrics::Metrics;
use serde_json::{Value, json};
use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::sync::{broadcast, watch};
use tokio_util::sync::CancellationToken;

const LIMIT: Duration = Duration::from_secs(20);

#[derive(Default)]
struct State {
    lease: Option<Value>,
    version: u64,
}

/// One Lease and those who watch it.
#[derive(Clone)]
struct Server {
    state: Arc<Mutex<State>>,
    changes: broadcast::Sender<String>,
}

type Answer = Response<UnsyncBoxBody<Bytes, Infallible>>;

fn answer(status: u16, body: &Value) -> Answer {
    let body = Full::from(body.to_string()).boxed_unsync();
    Response::builder().status(StatusCode::from_u16(status).unwrap()).body(body).unwrap()
}

fn refusal(code: u16, reason: &str) -> Answer {
    let body = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code,
        "reason": reason, "message": reason});
    answer(code, &body)
}

impl Server {
    fn new() -> Self {
        Self { state: Arc::default(), changes: broadcast::channel(64).0 }
    }

    async fn handle(self, request: Request<Body>) -> Answer {
        let (parts, body) = request.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        let query = parts.uri.query().unwrap_or_default();
        if query.contains("watch=true") {
            return self.watch();
        }
        let named = parts.uri.path().ends_with("/quorate");
        let mut state = self.state.lock().unwrap();
        match (parts.method, named) {
            (Method::GET, false) => {
                let version = state.version.to_string();
                let items: Vec<Value> = state.lease.iter().cloned().collect();
                let list = json!({"kind": "LeaseList", "apiVersion": "coordination.k8s.io/v1",
                    "metadata": {"resourceVersion": version}, "items": items});
                answer(200, &list)
            }
            (Method::GET, true) => match &state.lease {
                Some(lease) => answer(200, lease),
                None => refusal(404, "NotFound"),
            },
            (method @ (Method::POST | Method::PUT), _) => {
                let mut lease: Value = serde_json::from_slice(&body).unwrap();
                let known = state.lease.as_ref().map(|lease| &lease["metadata"]["resourceVersion"]);
                match (method == Method::POST, known) {
                    (true, Some(_)) => return refusal(409, "AlreadyExists"),
                    (false, None) => return refusal(404, "NotFound"),
                    (false, Some(known)) if *known != lease["metadata"]["resourceVersion"] => {
                        return refusal(409, "Conflict");
                    }
                    _ => {}
                }
                state.version += 1;
                lease["metadata"]["resourceVersion"] = json!(state.version.to_string());
                let kind = if method == Method::POST { "ADDED" } else { "MODIFIED" };
                // Nobody may be watching.
                let _ = self.changes.send(json!({"type": kind, "object": lease}).to_string());
                state.lease = Some(lease.clone());
                answer(200, &lease)
            }
            _ => refusal(405, "MethodNotAllowed"),
        }
    }

    fn watch(&self) -> Answer {
        let changes = self.changes.subscribe();
        let lines = futures_util::stream::unfold(changes, |mut changes| async move {
            let line = changes.recv().await.ok()? + "\n";
            Some((Ok::<_, Infallible>(Frame::data(Bytes::from(line))), changes))
        });
        Response::new(StreamBody::new(lines).boxed_unsync())
    }

    /// A client whose link can be cut: nothing is answered then.
    fn client(&self) -> (Client, watch::Sender<bool>) {
        let (cut, link) = watch::channel(false);
        let server = self.clone();
        let service = tower::service_fn(move |request| {
            let (server, mut link) = (server.clone(), link.clone());
            async move {
                // A request on a cut link waits until it is whole again.
                link.wait_for(|cut| !cut).await.map_err(tower::BoxError::from)?;
                Ok::<_, tower::BoxError>(server.handle(request).await)
            }
        });
        (Client::new(service, "quorate-system"), cut)
    }

    fn spec(&self) -> Value {
        self.state.lock().unwrap().lease.as_ref().map_or(Value::Null, |lease| lease["spec"].clone())
    }
}

struct Controller {
    standing: watch::Receiver<Standing>,
    fence: Fence,
    stop: CancellationToken,
    cut: watch::Sender<bool>,
    ended: tokio::task::JoinHandle<()>,
    /// Terms whose work runs now.
    working: watch::Receiver<u32>,
}

fn start(server: &Server, name: &str) -> Controller {
    let timing = Timing::new(Duration::from_millis(900), Duration::from_millis(600)).unwrap();
    let (client, cut) = server.client();
    let fence = Fence::new(timing.grace());
    let election = Election::new(
        Api::<Lease>::default_namespaced(client),
        "quorate".into(),
        Candidate::new(name.into(), timing),
        fence.clone(),
        Arc::new(Metrics::new()),
    );
    let standing = election.standing();
    let stop = CancellationToken::new();
    let (working, watching) = watch::channel(0);
    let run = election.run(stop.clone(), move |term| {
        let working = working.clone();
        async move {
            working.send_modify(|terms| *terms += 1);
            term.cancelled().await;
            working.send_modify(|terms| *terms -= 1);
        }
    });
    let ended = tokio::spawn(async move { run.await.unwrap() });
    Controller { standing, fence, stop, cut, ended, working: watching }
}

impl Controller {
    async fn works(&mut self, expected: bool) {
        let working = self.working.wait_for(|terms| (*terms > 0) == expected);
        tokio::time::timeout(LIMIT, working).await.expect("in time").unwrap();
    }

    async fn leads(&mut self, expected: bool) {
        let leads = self.standing.wait_for(|standing| standing.leads == expected);
        tokio::time::timeout(LIMIT, leads).await.expect("in time").unwrap();
    }
}

#[tokio::test]
async fn a_graceful_stop_lets_the_next_lead_at_once() {
    let server = Server::new();
    let mut first = start(&server, "a");
    first.works(true).await;
    let mut second = start(&server, "b");
    let seen = second.standing.wait_for(|standing| standing.seen);
    tokio::time::timeout(LIMIT, seen).await.unwrap().unwrap();
    assert_eq!(server.spec()["holderIdentity"], "a");

    let stopped = Instant::now();
    first.stop.cancel();
    second.works(true).await;
    // The lease would have lasted for 900 ms more.
    assert!(stopped.elapsed() < Duration::from_millis(600), "{:?}", stopped.elapsed());
    first.ended.await.unwrap();
    assert!(first.fence.check().is_err());
    assert_eq!(*first.working.borrow(), 0, "the work ended before the lease was given up");
    assert_eq!(server.spec()["holderIdentity"], "b");
    assert_eq!(server.spec()["leaseTransitions"], 1);
    second.stop.cancel();
    second.ended.await.unwrap();
}

#[tokio::test]
async fn a_leader_without_a_link_stops_before_the_next_begins() {
    let server = Server::new();
    let mut first = start(&server, "a");
    first.works(true).await;
    let mut second = start(&server, "b");

    first.cut.send_replace(true);
    // Two fences are never open at once, looked at as often as the scheduler lets us.
    let (one, two) = (first.fence.clone(), second.fence.clone());
    let both = tokio::spawn(async move {
        loop {
            assert!(one.check().is_err() || two.check().is_err(), "two may write");
            tokio::task::yield_now().await;
        }
    });
    second.works(true).await;
    assert!(first.fence.check().is_err());
    first.leads(false).await;
    first.works(false).await;

    // Back again it follows, and takes over when the second leaves.
    first.cut.send_replace(false);
    second.stop.cancel();
    first.works(true).await;
    both.abort();
    assert!(both.await.unwrap_err().is_cancelled(), "two could write at once");
    assert_eq!(server.spec()["leaseTransitions"], 2);
    first.stop.cancel();
    first.ended.await.unwrap();
}

#[tokio::test]
async fn a_leader_goes_on_when_the_api_is_away_for_a_moment() {
    let server = Server::new();
    let mut only = start(&server, "a");
    only.works(true).await;
    let before = server.spec()["renewTime"].clone();
    only.cut.send_replace(true);
    tokio::time::sleep(Duration::from_millis(200)).await;
    only.cut.send_replace(false);
    let deadline = Instant::now() + LIMIT;
    while server.spec()["renewTime"] == before {
        assert!(Instant::now() < deadline, "no renewal");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(server.spec()["leaseTransitions"], 0);
    assert!(only.fence.check().is_ok());
    only.stop.cancel();
    only.ended.await.unwrap();
}
