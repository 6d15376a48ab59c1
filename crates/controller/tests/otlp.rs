//! Spans reach a collector: the program's own start, with the official messages read on the other side.

#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use prost::Message as _;
use quorate_controller::metrics::Milestones;
use quorate_controller::settings::Settings;
use quorate_controller::telemetry::{self, Subject};
use std::convert::Infallible;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tracing::Instrument as _;

/// A collector: what it is sent, by path.
async fn collector() -> (String, mpsc::UnboundedReceiver<(String, ExportTraceServiceRequest)>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let (sender, received) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let sender = sender.clone();
            let answer = service_fn(move |request: Request<Incoming>| {
                let sender = sender.clone();
                async move {
                    let path = request.uri().path().to_owned();
                    let body = request.into_body().collect().await.unwrap().to_bytes();
                    sender.send((path, ExportTraceServiceRequest::decode(body).unwrap())).unwrap();
                    Ok::<_, Infallible>(Response::new(Full::new(bytes::Bytes::new())))
                }
            });
            tokio::spawn(
                hyper::server::conn::http1::Builder::new()
                    .serve_connection(TokioIo::new(stream), answer),
            );
        }
    });
    (endpoint, received)
}

/// As in the program: one thread, which must not wait for its own spans.
#[tokio::test]
async fn the_spans_of_a_look_and_of_a_start_reach_a_collector_before_the_process_ends() {
    let (endpoint, mut received) = collector().await;
    let flags = ["quorate-controller", "--agent-image=agent", "--log-filter=off"];
    let flags = flags.map(str::to_owned).into_iter().chain([format!("--otlp-endpoint={endpoint}")]);
    let settings = <Settings as clap::Parser>::try_parse_from(flags).unwrap();
    let traces = telemetry::start(&settings.log).unwrap().unwrap();
    async {
        tracing::debug_span!(target: "quorate_controller::test", "request").in_scope(|| {});
        tracing::debug_span!(target: "hyper", "not ours").in_scope(|| {});
    }
    .instrument(
        tracing::debug_span!(target: "quorate_controller::test", "look", mc.name = "lammps"),
    )
    .await;
    let at = |second| Some(k8s_openapi::jiff::Timestamp::from_second(second).unwrap());
    let uid = "01234567-89ab-cdef-0123-456789abcdef";
    let subject = Subject { uid, namespace: "hpc", name: "lammps", program: true };
    let created = Milestones { created: at(100), ..Milestones::default() };
    telemetry::tell(subject, &created, &Milestones { jobset: at(101), ..created });
    tokio::time::timeout(Duration::from_secs(20), traces.end()).await.unwrap();

    let mut spans = Vec::new();
    while let Ok((path, request)) = received.try_recv() {
        assert_eq!(path, "/v1/traces");
        for resource in request.resource_spans {
            let about = format!("{:?}", resource.resource);
            assert!(
                about.contains("service.name") && about.contains("quorate-controller"),
                "{about}"
            );
            spans.extend(resource.scope_spans.into_iter().flat_map(|scope| scope.spans));
        }
    }
    let mut names: Vec<&str> = spans.iter().map(|span| span.name.as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, ["jobset", "look", "request"]);
    let span = |name: &str| spans.iter().find(|span| span.name == name).unwrap();
    assert_eq!(span("request").parent_span_id, span("look").span_id);
    assert!(format!("{:?}", span("look").attributes).contains("lammps"));
    assert_eq!(
        span("jobset").trace_id,
        0x0123_4567_89ab_cdef_0123_4567_89ab_cdef_u128.to_be_bytes()
    );
    assert_eq!(span("jobset").start_time_unix_nano, 100_000_000_000);
}
