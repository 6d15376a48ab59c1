//! What a real API server (Kubernetes 1.36) said of the same objects in protobuf and in JSON, in
//! `tests/watches`: the facts of both are the same.

use super::*;
use crate::watch::Lean;
use http_body_util::{Full, StreamBody};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use kube::core::{Status, WatchEvent};
use proptest::prelude::*;
use quorate_observe::{JobFacts, PodFacts};
use serde::de::DeserializeOwned;
use std::convert::Infallible;
use tower::service_fn;

const PODS: &[u8] = include_bytes!("../../../tests/watches/pods.protobuf");
const PODS_JSON: &str = include_str!("../../../tests/watches/pods.json");
const JOBS: &[u8] = include_bytes!("../../../tests/watches/jobs.protobuf");
const JOBS_JSON: &str = include_str!("../../../tests/watches/jobs.json");
const REFUSED: &[u8] = include_bytes!("../../../tests/watches/refused.protobuf");
const EXPIRED: &[u8] = include_bytes!("../../../tests/watches/expired.protobuf");

/// A body that comes in pieces of this size.
fn pieces(bytes: &'static [u8], size: usize) -> impl Body<Data = Bytes, Error = BoxError> + Send {
    let pieces = bytes.chunks(size).map(|piece| Ok(http_body::Frame::data(Bytes::from(piece))));
    StreamBody::new(futures_util::stream::iter(pieces))
}

async fn text<B>(body: B) -> Result<String, BoxError>
where
    B: Body<Data = Bytes, Error = BoxError>,
{
    Ok(String::from_utf8(body.collect().await?.to_bytes().to_vec())?)
}

fn events<K: DeserializeOwned>(lines: &str) -> Vec<WatchEvent<K>> {
    lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Type of each event, and what it says of its object.
fn told<K, F>(lines: &str, facts: impl Fn(&K) -> F) -> Vec<(&'static str, Option<F>, String)>
where
    K: kube::Resource,
    Lean<K>: DeserializeOwned,
{
    let one =
        |kind, Lean(object): &Lean<K>| (kind, Some(facts(object)), format!("{:?}", object.meta()));
    events::<Lean<K>>(lines)
        .iter()
        .map(|event| match event {
            WatchEvent::Added(object) => one("added", object),
            WatchEvent::Modified(object) => one("modified", object),
            WatchEvent::Deleted(object) => one("deleted", object),
            WatchEvent::Bookmark(mark) => ("bookmark", None, format!("{:?}", mark.types)),
            WatchEvent::Error(status) => ("error", None, status.message.clone()),
        })
        .collect()
}

#[tokio::test]
async fn the_facts_of_a_watch_in_protobuf_are_those_in_json() {
    for size in [1, 7, 4096, usize::MAX] {
        let pods = text(lines::of(pieces(PODS, size))).await.unwrap();
        assert_eq!(told(&pods, PodFacts::from_pod), told(PODS_JSON, PodFacts::from_pod), "{size}");
        let jobs = text(lines::of(pieces(JOBS, size))).await.unwrap();
        assert_eq!(told(&jobs, JobFacts::from_job), told(JOBS_JSON, JobFacts::from_job), "{size}");
    }
    // What was recorded has something to say.
    let pods = told::<Pod, _>(PODS_JSON, PodFacts::from_pod);
    let facts: Vec<&PodFacts> = pods.iter().filter_map(|(_, facts, _)| facts.as_ref()).collect();
    assert!(facts.iter().any(|pod| pod.unscheduled.is_some()));
    assert!(facts.iter().any(|pod| pod.ready && pod.address.is_some() && pod.node.is_some()));
    assert!(facts.iter().any(|pod| pod.main.is_some() && !pod.others.is_empty()));
    assert!(facts.iter().any(|pod| pod.deleting.is_some() && !pod.job.is_empty()));
    assert!(pods.iter().any(|(kind, ..)| *kind == "deleted"));
    let jobs = told::<Job, _>(JOBS_JSON, JobFacts::from_job);
    let facts: Vec<&JobFacts> = jobs.iter().filter_map(|(_, facts, _)| facts.as_ref()).collect();
    assert!(facts.iter().any(|job| job.failed.holds().is_some() && job.failed_pods > 0));
    assert!(facts.iter().any(|job| job.suspended && job.started.is_none()));
    assert!(facts.iter().any(|job| !job.node_keys.is_empty() && job.limit.is_some()));
}

#[tokio::test]
async fn a_watch_that_is_cut_in_a_frame_ends_with_the_last_whole_one() {
    let whole = text(lines::of(pieces(PODS, 4096))).await.unwrap();
    let cut = text(lines::of(pieces(&PODS[..PODS.len() - 1], 4096))).await.unwrap();
    assert!(whole.starts_with(&cut));
    assert_eq!(cut.lines().count(), whole.lines().count() - 1);
}

#[tokio::test]
async fn an_error_in_a_watch_and_a_refusal_have_their_status() {
    let expired = text(lines::of(pieces(EXPIRED, 64))).await.unwrap();
    match &events::<Lean<Pod>>(&expired)[..] {
        [WatchEvent::Error(status)] => assert_eq!((status.code, &*status.reason), (410, "Expired")),
        other => panic!("{other:?}"),
    }
    let refused = lines::of_refusal(pieces(REFUSED, 64)).await.unwrap();
    let status: Status = serde_json::from_str(&text(refused).await.unwrap()).unwrap();
    assert_eq!((status.code, &*status.reason), (403, "Forbidden"));
    assert!(status.message.contains("cannot watch resource \"pods\""), "{}", status.message);
}

/// What a server gets, and what the client gets of its answer.
async fn answered(
    uri: &str,
    own: Option<&str>,
    kind: &str,
    answer: &'static [u8],
) -> (String, String) {
    let seen = std::sync::Mutex::new(String::new());
    let server = service_fn(|request: Request<()>| {
        let accepted = request.headers().get(ACCEPT).map(|value| value.to_str().unwrap());
        accepted.unwrap_or_default().clone_into(&mut seen.lock().unwrap());
        let response = Response::builder().header(CONTENT_TYPE, kind).body(Full::from(answer));
        std::future::ready(Ok::<_, Infallible>(response.unwrap()))
    });
    let mut request = Request::get(uri);
    if let Some(own) = own {
        request = request.header(ACCEPT, own);
    }
    let answer = ProtobufLayer.layer(server).call(request.body(()).unwrap()).await.unwrap();
    let text = text(answer.into_body()).await.unwrap();
    (seen.into_inner().unwrap(), text)
}

#[tokio::test]
async fn watches_of_pods_and_jobs_alone_are_asked_for_in_protobuf() {
    let watch = "watch=true&labelSelector=quorate.dev/cluster";
    for path in ["/api/v1/pods", "/api/v1/namespaces/hpc/pods", "/apis/batch/v1/jobs"] {
        let (asked, _) = answered(&format!("{path}?{watch}"), None, "application/json", b"").await;
        assert_eq!(asked, "application/vnd.kubernetes.protobuf,application/json", "{path}");
    }
    for (uri, own) in [
        ("/api/v1/pods?limit=100", None),
        ("/api/v1/namespaces/hpc/pods/a", None),
        ("/api/v1/events?watch=true", None),
        ("/apis/batch.volcano.sh/v1alpha1/jobs?watch=true", None),
        ("/apis/jobset.x-k8s.io/v1alpha2/jobsets?watch=true", None),
        ("/api/v1/pods?watch=true", Some("application/json;as=PartialObjectMetadata")),
    ] {
        let (asked, _) = answered(uri, own, "application/json", b"").await;
        assert_eq!(asked, own.unwrap_or_default(), "{uri}");
    }
}

#[tokio::test]
async fn an_answer_in_json_passes_as_it_is() {
    let answer = b"{\"type\":\"ADDED\",\"object\":{}}\n";
    let watch = "/api/v1/pods?watch=true";
    let (_, text) = answered(watch, None, "application/json", answer).await;
    assert_eq!(text.as_bytes(), answer);
    let protobuf = "application/vnd.kubernetes.protobuf;stream=watch";
    let (_, text) = answered(watch, None, protobuf, PODS).await;
    assert_eq!(text.lines().count(), PODS_JSON.lines().count());
}

proptest! {
    #[test]
    fn no_bytes_break_the_reader(frame in proptest::collection::vec(any::<u8>(), 0..300)) {
        let _ = lines::line(&frame, &mut Vec::new());
    }

    /// A frame with one byte changed is read or refused, and a line is JSON in any case.
    #[test]
    fn a_changed_byte_breaks_no_line(at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let length = u32::from_be_bytes(PODS[..4].try_into().unwrap()) as usize;
        let mut frame = PODS[4..4 + length].to_vec();
        let at = at.index(frame.len());
        frame[at] = byte;
        let mut out = Vec::new();
        if lines::line(&frame, &mut out).is_ok() {
            serde_json::from_slice::<serde_json::Value>(&out).unwrap();
        }
    }
}
