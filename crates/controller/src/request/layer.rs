//! The layer: tower's `Service` around the client's transport.

use super::call::Call;
use super::rate::TokenBucket;
use crate::lease::{Fence, NotLeader};
use crate::metrics::Metrics;
use http::{Request, Response};
use std::error::Error;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::{Instant, Sleep, sleep, timeout};
use tower::limit::ConcurrencyLimit;
use tower::{BoxError, Layer, Service};
use tracing::Instrument as _;
use tracing::field::Empty;

/// Longer than the API server itself allows a request to take (`--request-timeout`, one minute).
const PATIENCE: Duration = Duration::from_secs(75);

/// Why an answer was not waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
enum TooLate {
    /// A write took longer than the leader's term allows; whether it was done is not known.
    #[error("the API did not answer a write within {limit:?}, the rest of this leader's term")]
    Write { limit: Duration },
    /// A server that holds its connections and says nothing must not hold up who asks it.
    #[error("the API did not begin to answer within {limit:?}")]
    Answer { limit: Duration },
}

/// Counts requests, and lays fence and rate around them if given.
#[derive(Clone, Debug)]
pub struct ApiLayer {
    metrics: Arc<Metrics>,
    fence: Option<Fence>,
    rate: Option<TokenBucket>,
}

/// Requests under way at the same time at most; a watch counts until its answer begins.
const AT_ONCE: usize = 48;

impl ApiLayer {
    /// Counts only: for the election, which must write to be able to lead.
    pub fn counting(metrics: Arc<Metrics>) -> Self {
        Self { metrics, fence: None, rate: None }
    }

    /// Counts, and sends a write only while `fence` is open.
    pub fn fenced(metrics: Arc<Metrics>, fence: Fence) -> Self {
        Self { metrics, fence: Some(fence), rate: None }
    }

    /// Keeps this rate as well.
    #[must_use]
    pub fn with_rate(mut self, rate: Option<TokenBucket>) -> Self {
        self.rate = rate;
        self
    }
}

impl<S> Layer<S> for ApiLayer {
    type Service = ApiService<ConcurrencyLimit<S>>;

    fn layer(&self, inner: S) -> Self::Service {
        ApiService {
            // Each request under way has a connection of its own, with buffers and keys; the server
            // works on no more of them at a time for having them all.
            inner: ConcurrencyLimit::new(inner, AT_ONCE),
            layer: self.clone(),
            epoch: Instant::now(),
            waiting: None,
            has_token: false,
        }
    }
}

/// A transport inside the layer.
#[derive(Debug)]
pub struct ApiService<S> {
    inner: S,
    layer: ApiLayer,
    epoch: Instant,
    /// Until a token may be used.
    waiting: Option<Pin<Box<Sleep>>>,
    /// A token that no request has used yet.
    has_token: bool,
}

impl<S> ApiService<S> {
    fn poll_token(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let Some(bucket) = &mut self.layer.rate else { return Poll::Ready(()) };
        if self.has_token {
            return Poll::Ready(());
        }
        let epoch = self.epoch;
        let waiting =
            self.waiting.get_or_insert_with(|| Box::pin(sleep(bucket.take(epoch.elapsed()))));
        std::task::ready!(waiting.as_mut().poll(context));
        self.waiting = None;
        self.has_token = true;
        Poll::Ready(())
    }
}

impl<S, In, Out> Service<Request<In>> for ApiService<S>
where
    S: Service<Request<In>, Response = Response<Out>>,
    S::Error: Into<BoxError>,
    S::Future: Send + 'static,
    Out: Send + 'static,
{
    type Response = Response<Out>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        std::task::ready!(self.poll_token(context));
        self.inner.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, request: Request<In>) -> Self::Future {
        self.has_token = false;
        let call = Call::of(request.method(), request.uri());
        let metrics = Arc::clone(&self.layer.metrics);
        let fence = self.layer.fence.as_ref().filter(|_| call.writes());
        let limit = match fence.map(Fence::check).transpose() {
            Ok(limit) => limit,
            Err(refused) => {
                metrics.requested(&call, "fenced", Duration::ZERO);
                return Box::pin(std::future::ready(Err(refused.into())));
            }
        };
        let started = Instant::now();
        let span = tracing::debug_span!(
            "request",
            otel.kind = "client",
            otel.name = format!("{} {}", call.verb, call.resource),
            http.response.status_code = Empty,
        );
        let answer = self.inner.call(request);
        let traced = span.clone();
        let sent = async move {
            let (limit, late) = match limit {
                Some(limit) if limit < PATIENCE => (limit, TooLate::Write { limit }),
                _ => (PATIENCE, TooLate::Answer { limit: PATIENCE }),
            };
            let answer = match timeout(limit, answer).await {
                Ok(answer) => answer.map_err(Into::into),
                Err(_) => Err(late.into()),
            };
            let code = match &answer {
                Ok(response) => response.status().as_str().to_owned(),
                Err(_) => "none".to_owned(),
            };
            traced.record("http.response.status_code", code.as_str());
            metrics.requested(&call, &code, started.elapsed());
            answer
        };
        Box::pin(sent.instrument(span))
    }
}

/// Whether a request failed because this process does not lead: no error of the object at hand, and
/// nothing to report about it.
pub fn refused_by_fence(error: &kube::Error) -> bool {
    let mut cause: Option<&(dyn Error + 'static)> = Some(error);
    while let Some(error) = cause {
        if error.is::<NotLeader>() {
            return true;
        }
        cause = error.source();
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Format;
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::Client;
    use kube::api::{Api, DeleteParams};
    use kube::client::Body;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// A client whose transport counts what reaches it and answers 404.
    fn client(layer: &ApiLayer, reached: Arc<AtomicUsize>) -> Client {
        let transport = tower::service_fn(move |_: Request<Body>| {
            reached.fetch_add(1, Ordering::SeqCst);
            let answer = Response::builder().status(404).body(Body::empty());
            async move { answer.map_err(BoxError::from) }
        });
        Client::new(layer.layer(transport), "hpc")
    }

    #[tokio::test]
    async fn a_write_behind_a_closed_fence_is_not_sent() {
        let metrics = Arc::new(Metrics::new());
        let reached = Arc::new(AtomicUsize::new(0));
        let fence = Fence::new(Duration::from_secs(5));
        let layer = ApiLayer::fenced(Arc::clone(&metrics), fence.clone());
        let maps: Api<ConfigMap> = Api::default_namespaced(client(&layer, Arc::clone(&reached)));

        let error = maps.delete("a", &DeleteParams::default()).await.unwrap_err();
        assert!(refused_by_fence(&error), "{error:?}");
        assert_eq!(reached.load(Ordering::SeqCst), 0);

        // Reading is free, and a leader writes.
        assert!(!refused_by_fence(&maps.get("a").await.unwrap_err()));
        fence.open_until(fence.now() + Duration::from_mins(1));
        assert!(!refused_by_fence(&maps.delete("a", &DeleteParams::default()).await.unwrap_err()));
        assert_eq!(reached.load(Ordering::SeqCst), 2);

        let text = metrics.encode(Format::Prometheus);
        for line in [
            r#"quorate_api_requests_total{verb="delete",resource="configmaps",code="fenced"} 1"#,
            r#"quorate_api_requests_total{verb="delete",resource="configmaps",code="404"} 1"#,
            r#"quorate_api_requests_total{verb="get",resource="configmaps",code="404"} 1"#,
        ] {
            assert!(text.contains(line), "{line} is not in\n{text}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_thousand_clusters_at_once_do_not_open_a_connection_for_each_request() {
        let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (under_way, peak) = (Arc::clone(&now), Arc::clone(&most));
        let transport = tower::service_fn(move |_: Request<Body>| {
            let (now, most) = (Arc::clone(&now), Arc::clone(&most));
            async move {
                most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                sleep(Duration::from_millis(10)).await;
                now.fetch_sub(1, Ordering::SeqCst);
                Response::builder().status(404).body(Body::empty()).map_err(BoxError::from)
            }
        });
        let layer = ApiLayer::counting(Arc::new(Metrics::new()));
        let maps: Api<ConfigMap> =
            Api::default_namespaced(Client::new(layer.layer(transport), "hpc"));
        let all = (0..200).map(|_| maps.get("a"));
        let answers = futures_util::future::join_all(all).await;
        assert_eq!(answers.iter().filter(|answer| answer.is_err()).count(), 200);
        assert_eq!((under_way.load(Ordering::SeqCst), peak.load(Ordering::SeqCst)), (0, AT_ONCE));
    }

    #[tokio::test(start_paused = true)]
    async fn the_rate_is_kept() {
        let reached = Arc::new(AtomicUsize::new(0));
        let layer =
            ApiLayer::counting(Arc::new(Metrics::new())).with_rate(Some(TokenBucket::new(10, 2)));
        let maps: Api<ConfigMap> = Api::default_namespaced(client(&layer, Arc::clone(&reached)));
        let started = Instant::now();
        for _ in 0..12 {
            maps.get("a").await.unwrap_err();
        }
        // Two at once, ten more at ten a second.
        let took = started.elapsed();
        assert!(
            took >= Duration::from_millis(990) && took < Duration::from_millis(1_200),
            "{took:?}"
        );
    }
}
