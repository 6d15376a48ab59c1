//! What this broker answers: services for other brokers, verbs for the local socket, and the
//! hooks by which the launching side takes part in the broker's life.

use super::channel::Channel;
use super::handle::Overlay;
use crate::local::Call;
use bytes::Bytes;
use quorate_contract::exit;
use quorate_contract::report::{Reason, Report};
use std::collections::HashMap;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use tokio::net::TcpStream;

/// A boxed future, as handlers return it.
pub type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

type OnChannel = Arc<dyn Fn(Channel) -> BoxFuture<()> + Send + Sync>;
type OnRequest = Arc<dyn Fn(u32, Bytes) -> BoxFuture<Result<Bytes, String>> + Send + Sync>;
type OnCast = Arc<dyn Fn(u32, Bytes) + Send + Sync>;
type OnEvent = Arc<dyn Fn(u64, Bytes) + Send + Sync>;
type OnVerb = Arc<dyn Fn(Call) -> BoxFuture<()> + Send + Sync>;
type OnOutsider = Arc<dyn Fn(TcpStream) -> BoxFuture<()> + Send + Sync>;

/// Handlers by name. Filled once, before the broker joins, so that no message comes too early.
#[derive(Clone, Default)]
pub struct Services {
    pub(crate) channels: HashMap<String, OnChannel>,
    pub(crate) requests: HashMap<String, OnRequest>,
    pub(crate) casts: HashMap<String, OnCast>,
    pub(crate) events: HashMap<String, OnEvent>,
    pub(crate) verbs: HashMap<String, OnVerb>,
    pub(crate) outsider: Option<OnOutsider>,
}

impl fmt::Debug for Services {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Services")
            .field("channels", &self.channels.keys())
            .field("requests", &self.requests.keys())
            .field("casts", &self.casts.keys())
            .field("events", &self.events.keys())
            .field("verbs", &self.verbs.keys())
            .field("outsider", &self.outsider.is_some())
            .finish()
    }
}

impl Services {
    /// Runs `handler` as a task of its own for each channel that another broker opens.
    pub fn on_channel<F, Fut>(&mut self, service: &str, handler: F)
    where
        F: Fn(Channel) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        let handler: OnChannel = Arc::new(move |channel| Box::pin(handler(channel)));
        self.channels.insert(service.to_owned(), handler);
    }

    /// Answers requests: `handler` gets the asking rank and the body, and runs as a task.
    pub fn on_request<F, Fut>(&mut self, service: &str, handler: F)
    where
        F: Fn(u32, Bytes) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Bytes, String>> + Send + 'static,
    {
        let handler: OnRequest = Arc::new(move |from, body| Box::pin(handler(from, body)));
        self.requests.insert(service.to_owned(), handler);
    }

    /// Takes casts: `handler` gets the casting rank and the body. It is called in order of
    /// arrival by the node task itself, so it must not block; spawn what takes long.
    pub fn on_cast<F>(&mut self, service: &str, handler: F)
    where
        F: Fn(u32, Bytes) + Send + Sync + 'static,
    {
        self.casts.insert(service.to_owned(), Arc::new(handler));
    }

    /// Takes the events of a topic ([`Overlay::publish`]): `handler` gets the event's number and
    /// body. Called in order, with the same care as [`Services::on_cast`].
    pub fn on_event<F>(&mut self, topic: &str, handler: F)
    where
        F: Fn(u64, Bytes) + Send + Sync + 'static,
    {
        self.events.insert(topic.to_owned(), Arc::new(handler));
    }

    /// Runs `handler` as a task of its own for each call of a verb on the local socket.
    pub fn on_verb<F, Fut>(&mut self, verb: &str, handler: F)
    where
        F: Fn(Call) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        let handler: OnVerb = Arc::new(move |call| Box::pin(handler(call)));
        self.verbs.insert(verb.to_owned(), handler);
    }

    /// Runs `handler` as a task of its own for each connection to the brokers' port that begins with
    /// [`quorate_contract::outside::PREAMBLE`], which was read. Nobody has proved anything by then.
    pub fn on_outsider<F, Fut>(&mut self, handler: F)
    where
        F: Fn(TcpStream) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        self.outsider = Some(Arc::new(move |stream| Box::pin(handler(stream))));
    }
}

/// How the program of rank 0 ended: the report becomes the launcher's termination message and
/// its `exit_code` the pod's.
#[derive(Clone, Debug)]
pub struct ProgramOutcome {
    /// What to leave behind. The broker fills in the phases that it knows.
    pub report: Report,
}

/// Why tasks have to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopReason {
    /// The cluster is done.
    Done,
    /// Cut off from rank 0 for too long.
    Orphaned,
    /// Told to stop from outside (SIGTERM).
    Terminated,
    /// Rank 0 was started anew: what the former one had under way is over.
    RootReplaced,
    /// Another failure that ends this broker.
    Failed,
}

/// The launching side's part in the broker's life.
pub trait Launching: Send + Sync + 'static {
    /// Adds services and verbs. Called once, before the broker joins.
    fn register(&self, overlay: &Overlay, services: &mut Services);

    /// Runs the program of the configuration to its end. Called on rank 0 when the cluster is
    /// quorate; dropped (cancelled) when the broker has to stop before that.
    fn run_program(&self, overlay: Overlay) -> BoxFuture<ProgramOutcome>;

    /// Called instead of [`Launching::run_program`] when an earlier broker of this launcher died
    /// while its program ran. By default the program counts as lost.
    fn resume_program(&self, overlay: Overlay) -> BoxFuture<ProgramOutcome> {
        let _ = overlay;
        Box::pin(async {
            let message = "the launcher's broker died while the program ran";
            let report = Report::new(exit::BROKER_LOST, Reason::BrokerLost, message);
            ProgramOutcome { report }
        })
    }

    /// A signal that the pod got and that does not stop it (SIGHUP, SIGUSR1, SIGUSR2, SIGCONT,
    /// SIGTSTP, SIGWINCH): passed on to the program on rank 0. Nobody else gets it by default.
    fn signal(&self, overlay: &Overlay, signal: i32) {
        let _ = (overlay, signal);
    }

    /// Stops all tasks of this broker: first kindly, and with SIGKILL by the end of `grace`.
    /// Resolves when none is left.
    fn stop_tasks(
        &self,
        overlay: Overlay,
        reason: StopReason,
        grace: std::time::Duration,
    ) -> BoxFuture<()>;
}
