//! Spans for a collector of OpenTelemetry, by OTLP over HTTP with protobuf
//! (<https://opentelemetry.io/docs/specs/otlp/#otlphttp>).
//!
//! Owns: how spans leave the process, and whose ids are given. Must not: hold a look up, or fail one:
//! spans that find no collector are dropped, and the library says so in the logs.

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper_util::client::legacy::{self, connect::HttpConnector};
use hyper_util::rt::TokioExecutor;
use opentelemetry::trace::{SpanId, TraceId, TracerProvider as _};
use opentelemetry_http::{HttpClient, HttpError};
use opentelemetry_otlp::{
    ExporterBuildError, SpanExporter, WithExportConfig as _, WithHttpConfig as _,
};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{IdGenerator, RandomIdGenerator, SdkTracer, SdkTracerProvider};
use std::cell::Cell;
use std::time::Duration;
use tokio::runtime::Handle;

/// What traces call this program (`service.name`).
pub(super) const SERVICE: &str = "quorate-controller";
/// How long the last spans may take on their way.
const LAST: Duration = Duration::from_secs(5);
/// More than this of an answer is not read.
const ANSWER: usize = 64 * 1024;

/// Spans that are on their way to a collector.
#[derive(Debug)]
pub struct Traces {
    provider: SdkTracerProvider,
}

impl Traces {
    /// Sends spans to `endpoint`, a URL to which `/v1/traces` is added. Needs a runtime of tokio.
    pub fn start(endpoint: &str) -> Result<Self, ExporterBuildError> {
        let url = format!("{}/v1/traces", endpoint.trim_end_matches('/'));
        let exporter = SpanExporter::builder()
            .with_http()
            .with_http_client(Hyper::new(Handle::current()))
            .with_endpoint(url)
            .build()?;
        let version = opentelemetry::KeyValue::new("service.version", env!("CARGO_PKG_VERSION"));
        let provider = SdkTracerProvider::builder()
            .with_resource(
                Resource::builder().with_service_name(SERVICE).with_attribute(version).build(),
            )
            .with_id_generator(Given::default())
            .with_batch_exporter(exporter)
            .build();
        // As the subscriber of logs is: whoever has a span to tell finds it there.
        opentelemetry::global::set_tracer_provider(provider.clone());
        Ok(Self { provider })
    }

    /// Who makes spans.
    pub fn tracer(&self) -> SdkTracer {
        self.provider.tracer(SERVICE)
    }

    /// Sends what is left, within seconds.
    pub async fn end(self) {
        // It waits for a thread that needs this one to send.
        let ended = tokio::task::spawn_blocking(move || self.provider.shutdown_with_timeout(LAST));
        if let Ok(Err(error)) = ended.await {
            tracing::warn!(%error, "the last spans were not sent");
        }
    }
}

/// Random ids, but for a span that is to have one of our own.
#[derive(Debug, Default)]
pub(super) struct Given {
    random: RandomIdGenerator,
}

thread_local! {
    static NEXT: Cell<Option<(TraceId, SpanId)>> = const { Cell::new(None) };
}

impl Given {
    /// Runs `start`, which starts one span without a parent: it gets these ids.
    pub(super) fn to<T>(ids: (TraceId, SpanId), start: impl FnOnce() -> T) -> T {
        NEXT.set(Some(ids));
        let started = start();
        NEXT.set(None);
        started
    }
}

impl IdGenerator for Given {
    fn new_trace_id(&self) -> TraceId {
        NEXT.get().map_or_else(|| self.random.new_trace_id(), |(trace, _)| trace)
    }

    fn new_span_id(&self) -> SpanId {
        NEXT.get().map_or_else(|| self.random.new_span_id(), |(_, span)| span)
    }
}

/// The library's thread asks; the runtime sends.
#[derive(Debug)]
struct Hyper {
    runtime: Handle,
    client: legacy::Client<HttpConnector, Full<Bytes>>,
}

impl Hyper {
    fn new(runtime: Handle) -> Self {
        let mut tcp = HttpConnector::new();
        tcp.set_connect_timeout(Some(LAST));
        Self { runtime, client: legacy::Client::builder(TokioExecutor::new()).build(tcp) }
    }
}

#[async_trait::async_trait]
impl HttpClient for Hyper {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let client = self.client.clone();
        let sent = self.runtime.spawn(async move {
            let answer = client.request(request.map(Full::new)).await?;
            let (head, body) = answer.into_parts();
            let body = Limited::new(body, ANSWER).collect().await?.to_bytes();
            Ok(Response::from_parts(head, body))
        });
        sent.await.map_err(HttpError::from)?
    }
}
