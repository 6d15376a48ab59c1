//! A proxy between one controller and the API server: counts its writes, answers in the server's
//! place, cuts the link at a chosen write, or lets nothing pass for a while.
//!
//! The controller is reached on the machine's loopback without TLS; the server sees the proxy's name as
//! the user agent, so that its audit log tells controllers apart. A link that is cut is silent, as a
//! broken network is: connections stay, nothing comes through, and what was under way is lost when
//! the controller gives it up.

use bytes::Bytes;
use futures_util::stream;
use http::header::{AUTHORIZATION, CONNECTION, HOST, TRANSFER_ENCODING, USER_AGENT};
use http::{HeaderValue, Method, Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use kube::client::{Body, ClientBuilder};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::json;
use std::error::Error;
use std::path::Path;
use std::sync::{Arc, LazyLock, Mutex};
use std::time::{Duration, Instant};
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Handle};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Runs all proxies of a test program, and its questions, on a thread of its own.
pub(crate) static RUNTIME: LazyLock<Handle> = LazyLock::new(|| {
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        sender.send(runtime.handle().clone()).unwrap();
        runtime.block_on(std::future::pending::<()>());
    });
    receiver.recv().unwrap()
});

/// A request on its way to the API server.
#[derive(Clone, Debug)]
pub struct Call {
    /// The method.
    pub method: Method,
    /// The path, without the query.
    pub path: String,
}

impl Call {
    /// Whether it changes something that MiniClusters are about: leases do not count.
    pub fn writes(&self) -> bool {
        self.method != Method::GET && !self.path.contains("/leases")
    }
}

/// What becomes of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It is passed on.
    Pass,
    /// This answer comes in the server's place: code, reason, message.
    Answer(u16, &'static str, &'static str),
    /// The link is cut for ever before the server gets it.
    CutBefore,
    /// The link is cut for ever after the server has carried it out.
    CutAfter,
}

/// Decides about each request.
pub type Script = Box<dyn FnMut(&Call) -> Fate + Send>;

/// Everything is passed on.
pub fn transparent() -> Script {
    Box::new(|_| Fate::Pass)
}

/// Cuts at the write of this number, counted from 1.
pub fn cut_at(number: usize, fate: Fate) -> Script {
    let mut writes = 0;
    Box::new(move |call| {
        writes += usize::from(call.writes());
        if call.writes() && writes == number { fate } else { Fate::Pass }
    })
}

/// A write that was passed on.
#[derive(Clone, Debug)]
pub struct Write {
    /// The request.
    pub call: Call,
    /// The server's answer; none if there was none.
    pub code: Option<u16>,
    /// When it was answered.
    pub at: Instant,
}

struct Shared {
    name: String,
    upstream: Client,
    script: Mutex<Script>,
    writes: Mutex<Vec<Write>>,
    up: watch::Sender<bool>,
    tripped: watch::Sender<bool>,
}

/// A proxy that ends with this value.
pub struct Proxy {
    port: u16,
    shared: Arc<Shared>,
    serving: JoinHandle<()>,
}

impl Proxy {
    /// Starts it before the API of a kubeconfig.
    pub fn start(name: &str, kubeconfig: &Path, script: Script) -> Self {
        let kubeconfig = Kubeconfig::read_from(kubeconfig).unwrap();
        RUNTIME.block_on(async {
            let options = KubeConfigOptions::default();
            let mut config = Config::from_custom_kubeconfig(kubeconfig, &options).await.unwrap();
            // What the server says is for the controller to hear.
            config.default_retry = false;
            let upstream = ClientBuilder::try_from(config).unwrap().build();
            let shared = Arc::new(Shared {
                name: name.to_owned(),
                upstream,
                script: Mutex::new(script),
                writes: Mutex::default(),
                up: watch::Sender::new(true),
                tripped: watch::Sender::new(false),
            });
            let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
            let port = listener.local_addr().unwrap().port();
            let serving = tokio::spawn(serve(listener, Arc::clone(&shared)));
            Self { port, shared, serving }
        })
    }

    /// A kubeconfig (as JSON, which is YAML) that leads here.
    pub fn kubeconfig(&self) -> String {
        let server = format!("http://127.0.0.1:{}", self.port);
        json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "proxy",
            "clusters": [{"name": "proxy", "cluster": {"server": server}}],
            "users": [{"name": "proxy", "user": {}}],
            "contexts": [{"name": "proxy", "context": {"cluster": "proxy", "user": "proxy"}}],
        })
        .to_string()
    }

    /// Takes the link down or up.
    pub fn link(&self, up: bool) {
        self.shared.up.send_replace(up);
    }

    /// Waits until the script has cut the link; answers whether it has within `limit`.
    pub fn cut_within(&self, limit: Duration) -> bool {
        let mut tripped = self.shared.tripped.subscribe();
        RUNTIME.block_on(async {
            tokio::time::timeout(limit, tripped.wait_for(|tripped| *tripped)).await.is_ok()
        })
    }

    /// Writes that were passed on so far, in the order of their answers.
    pub fn writes(&self) -> Vec<Write> {
        self.shared.writes.lock().unwrap().clone()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

type Failure = Box<dyn Error + Send + Sync>;
type Answer = Response<UnsyncBoxBody<Bytes, Failure>>;

async fn serve(listener: TcpListener, shared: Arc<Shared>) {
    let mut connections = tokio::task::JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                let Ok((stream, _)) = accepted else { continue };
                let shared = Arc::clone(&shared);
                connections.spawn(async move {
                    let service = service_fn(move |request| pass(Arc::clone(&shared), request));
                    // A controller that is killed leaves connections behind.
                    let _ = http1::Builder::new()
                        .serve_connection(TokioIo::new(stream), service)
                        .await;
                });
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

impl Shared {
    /// Waits until the link is up.
    async fn linked(&self) {
        let mut up = self.up.subscribe();
        // The sender lives in `self`, so the wait cannot fail.
        let _ = up.wait_for(|up| *up).await;
    }

    fn cut(&self) {
        self.up.send_replace(false);
        self.tripped.send_replace(true);
    }
}

/// One request. Dropped by hyper when the controller has closed its end.
async fn pass(shared: Arc<Shared>, request: Request<Incoming>) -> Result<Answer, Failure> {
    let (parts, body) = request.into_parts();
    let body = body.collect().await?.to_bytes();
    shared.linked().await;
    let call = Call { method: parts.method.clone(), path: parts.uri.path().to_owned() };
    let fate = (shared.script.lock().unwrap())(&call);
    match fate {
        Fate::Pass | Fate::CutAfter => {}
        Fate::CutBefore => {
            shared.cut();
            shared.linked().await;
        }
        Fate::Answer(code, reason, message) => return Ok(refusal(code, reason, message)),
    }
    let target = parts.uri.path_and_query().map_or("/", |target| target.as_str());
    let mut upstream =
        Request::builder().method(parts.method).uri(target).body(Body::from(body))?;
    *upstream.headers_mut() = parts.headers;
    for header in [HOST, CONNECTION, TRANSFER_ENCODING, AUTHORIZATION] {
        upstream.headers_mut().remove(header);
    }
    upstream.headers_mut().insert(USER_AGENT, HeaderValue::from_str(&shared.name)?);
    // What was passed on is carried out to its end, whatever becomes of the controller: a request that
    // is taken back half way may be carried out and yet stand in the audit log as failed.
    let answer = tokio::spawn(carry_out(Arc::clone(&shared), call, upstream)).await?;
    if fate == Fate::CutAfter {
        shared.cut();
    }
    shared.linked().await;
    let (mut parts, body) = answer?.into_parts();
    for header in [CONNECTION, TRANSFER_ENCODING] {
        parts.headers.remove(header);
    }
    let frames = stream::unfold((shared, body), |(shared, mut body)| async {
        let frame: Result<Frame<Bytes>, Failure> = body.frame().await?.map_err(Into::into);
        shared.linked().await;
        Some((frame, (shared, body)))
    });
    Ok(Response::from_parts(parts, BodyExt::boxed_unsync(StreamBody::new(frames))))
}

/// Asks the server, and keeps account of it if it is a write.
async fn carry_out(
    shared: Arc<Shared>,
    call: Call,
    request: Request<Body>,
) -> kube::Result<Response<Body>> {
    let answer = shared.upstream.send(request).await;
    if call.writes() {
        let code = answer.as_ref().ok().map(|answer| answer.status().as_u16());
        shared.writes.lock().unwrap().push(Write { call, code, at: Instant::now() });
    }
    answer
}

/// What an API server says when it refuses.
fn refusal(code: u16, reason: &str, message: &str) -> Answer {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "reason": reason, "message": message, "code": code,
    });
    let body = Full::from(status.to_string()).map_err(|never| match never {}).boxed_unsync();
    let builder = Response::builder().status(code).header("Content-Type", "application/json");
    builder.body(body).unwrap()
}
