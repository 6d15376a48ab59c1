//! Watches of pods and Jobs in protobuf, which the rest of the client reads as lines of JSON.
//!
//! The API server encodes an object once for all watches that want protobuf; scheduler, kubelets and the
//! controllers of Kubernetes all do. A watch in JSON is an encoding of its own for each event: 2 % of the
//! server's work while a thousand clusters start (docs/benchmarks.md). So such a watch is asked for in
//! protobuf, of which what facts are taken from is read ([`messages`]) and written as JSON. All else passes as
//! it is, and so does the answer of a server that has no protobuf.
//!
//! Source of the formats: <https://kubernetes.io/docs/reference/using-api/api-concepts/#protobuf-encoding>.

mod lines;
mod messages;

use super::Call;
use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_LENGTH, CONTENT_TYPE};
use http::{HeaderValue, Request, Response};
use http_body::Body;
use http_body_util::BodyExt as _;
use http_body_util::combinators::UnsyncBoxBody;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use tower::{BoxError, Layer, Service};

/// The media type.
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
/// What is asked for: protobuf before JSON.
const ACCEPTED: HeaderValue =
    HeaderValue::from_static("application/vnd.kubernetes.protobuf,application/json");

/// Puts [`ProtobufWatches`] around a transport.
#[derive(Clone, Copy, Debug)]
pub(super) struct ProtobufLayer;

impl<S> Layer<S> for ProtobufLayer {
    type Service = ProtobufWatches<S>;

    fn layer(&self, inner: S) -> Self::Service {
        ProtobufWatches { inner }
    }
}

/// A transport whose watches of pods and Jobs are in protobuf.
#[derive(Clone, Debug)]
pub(super) struct ProtobufWatches<S> {
    inner: S,
}

impl<S, In, Out> Service<Request<In>> for ProtobufWatches<S>
where
    S: Service<Request<In>, Response = Response<Out>>,
    S::Error: Into<BoxError>,
    S::Future: Send + 'static,
    Out: Body<Data = Bytes> + Send + 'static,
    Out::Error: Into<BoxError>,
{
    type Response = Response<UnsyncBoxBody<Bytes, BoxError>>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, mut request: Request<In>) -> Self::Future {
        if can_be_protobuf(&request) {
            request.headers_mut().insert(ACCEPT, ACCEPTED);
        }
        let answer = self.inner.call(request);
        Box::pin(async move {
            let response = answer.await.map_err(Into::into)?;
            let (mut parts, body) = response.into_parts();
            let kind = parts.headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
            if !kind.is_some_and(|kind| kind.starts_with(PROTOBUF)) {
                return Ok(Response::from_parts(parts, body.map_err(Into::into).boxed_unsync()));
            }
            parts.headers.remove(CONTENT_LENGTH);
            parts.headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
            let body = if parts.status.is_success() {
                lines::of(body)
            } else {
                lines::of_refusal(body).await?
            };
            Ok(Response::from_parts(parts, body))
        })
    }
}

/// Whether a request is a watch of whole objects of a kind that is known here.
fn can_be_protobuf<In>(request: &Request<In>) -> bool {
    let call = Call::of(request.method(), request.uri());
    let known = match request.uri().path() {
        path if path.starts_with("/api/v1/") => call.resource == "pods",
        path if path.starts_with("/apis/batch/v1/") => call.resource == "jobs",
        _ => false,
    };
    known && call.verb == "watch" && !request.headers().contains_key(ACCEPT)
}

#[cfg(test)]
mod tests;
