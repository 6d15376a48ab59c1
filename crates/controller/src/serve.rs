//! The controller's HTTP: health, readiness and metrics, plain and read-only.
//!
//! Owns: who is answered what. Must not: show anything of an object; metrics carry no names, and
//! whoever may not see them is kept away by a NetworkPolicy.

use crate::lease::Standing;
use crate::metrics::{Format, Metrics};
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::debug;

/// Kubelet and scrapers hold one connection each; a bound keeps a flood from eating the memory.
const MOST_CONNECTIONS: usize = 64;
/// A client that sends no whole request for this long is cut off.
const PATIENCE: Duration = Duration::from_secs(10);

/// A server cannot start.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address} (`{flag}`)")]
pub struct ListenError {
    /// Where.
    pub address: SocketAddr,
    /// The flag that says so.
    pub flag: &'static str,
    /// What the kernel said.
    #[source]
    pub source: io::Error,
}

/// Takes the address; port 0 becomes a free one.
pub async fn listen(address: SocketAddr, flag: &'static str) -> Result<TcpListener, ListenError> {
    let listened = TcpListener::bind(address).await;
    let listened = match (listened, address) {
        // A node without IPv6 has no wildcard that covers both families.
        (Err(_), SocketAddr::V6(v6)) if v6.ip().is_unspecified() => {
            TcpListener::bind((std::net::Ipv4Addr::UNSPECIFIED, v6.port())).await
        }
        (listened, _) => listened,
    };
    listened.map_err(|source| ListenError { address, flag, source })
}

/// What is true of this process now.
#[derive(Clone, Debug)]
pub struct Health {
    standing: watch::Receiver<Standing>,
    synced: watch::Receiver<bool>,
}

impl Health {
    /// `synced` turns true once the leader's caches are filled.
    pub fn new(standing: watch::Receiver<Standing>, synced: watch::Receiver<bool>) -> Self {
        Self { standing, synced }
    }

    /// `Ok` if this process can do its part: work as the leader, or take over as a follower.
    fn ready(&self) -> Result<&'static str, &'static str> {
        let standing = *self.standing.borrow();
        match (standing.seen, standing.leads, *self.synced.borrow()) {
            (false, _, _) => Err("the leader lease was not seen yet"),
            (true, false, _) => Ok("standby"),
            (true, true, false) => Err("the caches are not filled yet"),
            (true, true, true) => Ok("leading"),
        }
    }
}

/// What a server answers.
#[derive(Clone, Debug)]
pub enum Pages {
    /// `/healthz` and `/readyz`.
    Health(Health),
    /// `/metrics`.
    Metrics(Arc<Metrics>),
}

type Answer = Response<Full<Bytes>>;

impl Pages {
    fn answer<B>(&self, request: &Request<B>) -> Answer {
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            return text(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD are answered");
        }
        match (self, request.uri().path()) {
            // Whoever answers lives: the runtime has one thread, and it runs the work too.
            (Self::Health(_), "/healthz" | "/livez") => text(StatusCode::OK, "ok"),
            (Self::Health(health), "/readyz") => match health.ready() {
                Ok(why) => text(StatusCode::OK, why),
                Err(why) => text(StatusCode::SERVICE_UNAVAILABLE, why),
            },
            (Self::Metrics(metrics), "/metrics") => {
                let accept = request.headers().get(header::ACCEPT);
                let format = Format::accepted(accept.and_then(|value| value.to_str().ok()));
                let mut answer = Response::new(Full::from(metrics.encode(format)));
                let kind = header::HeaderValue::from_static(format.content_type());
                answer.headers_mut().insert(header::CONTENT_TYPE, kind);
                answer
            }
            (Self::Health(_), _) => text(StatusCode::NOT_FOUND, "try /healthz or /readyz"),
            (Self::Metrics(_), _) => text(StatusCode::NOT_FOUND, "try /metrics"),
        }
    }
}

fn text(status: StatusCode, text: &'static str) -> Answer {
    let mut answer = Response::new(Full::from(format!("{text}\n")));
    *answer.status_mut() = status;
    answer
}

/// Answers until `stop`; what was begun is finished first.
pub async fn serve(listener: TcpListener, pages: Pages, stop: CancellationToken) {
    let connections = TaskTracker::new();
    let places = Arc::new(Semaphore::new(MOST_CONNECTIONS));
    loop {
        let accepted = tokio::select! {
            () = stop.cancelled() => break,
            accepted = listener.accept() => accepted,
        };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                // Out of descriptors, most likely; some may be free in a moment.
                debug!(%error, "cannot accept a connection");
                sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        // Without a place the connection is closed at once.
        if let Ok(place) = Arc::clone(&places).try_acquire_owned() {
            let (pages, stop) = (pages.clone(), stop.clone());
            connections.spawn(async move {
                answer_all(stream, pages, stop).await;
                drop(place);
            });
        }
    }
    connections.close();
    connections.wait().await;
}

/// Answers the requests of one connection.
async fn answer_all(stream: TcpStream, pages: Pages, stop: CancellationToken) {
    let service = service_fn(move |request: Request<Incoming>| {
        let answer = pages.answer(&request);
        async move { Ok::<_, Infallible>(answer) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(PATIENCE)
        .serve_connection(TokioIo::new(stream), service);
    tokio::pin!(connection);
    let ended = tokio::select! {
        ended = &mut connection => ended,
        () = stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        debug!(%error, "a connection ended early");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn health(seen: bool, leads: bool, synced: bool) -> (Pages, impl Sized) {
        let (standing, standing_rx) = watch::channel(Standing { seen, leads });
        let (sync, sync_rx) = watch::channel(synced);
        (Pages::Health(Health::new(standing_rx, sync_rx)), (standing, sync))
    }

    fn get(pages: &Pages, path: &str) -> StatusCode {
        pages.answer(&Request::get(path).body(()).unwrap()).status()
    }

    #[test]
    fn readiness_follows_lease_and_caches() {
        let cases = [
            ("not seen", (false, false, false), StatusCode::SERVICE_UNAVAILABLE),
            ("standby", (true, false, false), StatusCode::OK),
            ("new leader", (true, true, false), StatusCode::SERVICE_UNAVAILABLE),
            ("leader", (true, true, true), StatusCode::OK),
        ];
        for (name, (seen, leads, synced), expected) in cases {
            let (pages, _kept) = health(seen, leads, synced);
            assert_eq!(get(&pages, "/readyz"), expected, "{name}");
            assert_eq!(get(&pages, "/healthz"), StatusCode::OK, "{name}");
            assert_eq!(get(&pages, "/metrics"), StatusCode::NOT_FOUND, "{name}");
        }
    }

    #[test]
    fn nothing_can_be_changed() {
        let (pages, _kept) = health(true, true, true);
        let request = Request::post("/readyz").body(()).unwrap();
        assert_eq!(pages.answer(&request).status(), StatusCode::METHOD_NOT_ALLOWED);
    }

    #[test]
    fn a_scraper_gets_the_format_that_it_asks_for() {
        let pages = Pages::Metrics(Arc::new(Metrics::new()));
        for (accept, kind) in [
            ("*/*", "text/plain; version=0.0.4; charset=utf-8"),
            (
                "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;q=0.4",
                "application/openmetrics-text; version=1.0.0; charset=utf-8",
            ),
        ] {
            let request = Request::get("/metrics").header("accept", accept).body(()).unwrap();
            assert_eq!(pages.answer(&request).headers()[header::CONTENT_TYPE], kind);
        }
    }
}
