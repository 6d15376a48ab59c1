//! Links: TCP and TLS under the node's link ids. Dials, accepts, and moves frames; knows nothing
//! of what they say.
//!
//! Each link has a task that reads and one that writes. A writer takes all frames that wait and
//! sends them by one write; its queue has no bound of its own, since the node keeps account of
//! what it has queued ([`FromNet::Written`]) and drops a link that does not move.

use super::observe::{Counters, Observers};
use super::services::Services;
use crate::logs::chain;
use crate::net::resolve::{AddressBook, Names, Pace, Resolver};
use crate::net::tls::{Caller, Stream, Tls, TlsError};
use bytes::BytesMut;
use quorate_contract::AgentConfig;
use quorate_overlay::frame::{Decoder, Frame};
use quorate_overlay::{DialFailure, LinkId};
use std::collections::HashMap;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWriteExt, ReadBuf, ReadHalf, split};
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::timeout;

/// Connections that have not yet proved who they are. More wait in the kernel's queue.
const HANDSHAKES: usize = 256;
/// A caller that has not proved who it is by then is dropped.
const HANDSHAKE_WAIT: Duration = Duration::from_secs(10);
/// What is still queued on a link that is closed has so long to get out.
const CLOSE_WAIT: Duration = Duration::from_secs(1);
/// A writer gathers about so many bytes for one write.
const WRITE_GOAL: usize = 64 * 1024;
/// A reader asks the kernel for about so many bytes.
const READ_ROOM: usize = 8 * 1024;

/// What comes from the network.
pub(super) enum FromNet {
    /// A caller has proved its rank.
    Accepted { peer: u32, stream: Box<Stream> },
    /// A caller has not.
    Refused { peer: u32, reason: String },
    /// A dial is through.
    Connected { link: LinkId, stream: Box<Stream> },
    /// A dial has failed.
    DialFailed { link: LinkId, failure: DialFailure },
    /// A frame.
    Frame { link: LinkId, frame: Frame },
    /// So many bytes have left the writer's queue.
    Written { link: LinkId, bytes: usize },
    /// The link is gone.
    Closed { link: LinkId, reason: String },
}

/// Finds a rank and connects to it.
#[derive(Debug)]
pub(super) struct Dialer {
    pub(super) tls: Arc<Tls>,
    pub(super) resolver: Resolver,
    /// How names that are not there yet are waited for.
    pub(super) pace: Pace,
    /// Replaces names in clusters without DNS.
    pub(super) book: Option<AddressBook>,
}

impl Dialer {
    async fn dial(&self, config: &AgentConfig, rank: u32) -> Result<Stream, DialFailure> {
        let mut failure = DialFailure::Unreachable("it has no address".to_owned());
        for address in self.addresses(config, rank).await? {
            match self.tls.dial(address, rank).await {
                Ok(stream) => return Ok(stream),
                Err(
                    error @ (TlsError::NotTheRank { .. }
                    | TlsError::Stale { .. }
                    | TlsError::Refused { .. }),
                ) => failure = DialFailure::WrongKey(error.to_string()),
                Err(error) => failure = DialFailure::Unreachable(chain(&error)),
            }
        }
        Err(failure)
    }

    async fn addresses(
        &self,
        config: &AgentConfig,
        rank: u32,
    ) -> Result<Vec<SocketAddr>, DialFailure> {
        if let Some(book) = &self.book {
            let address = book.get(&rank).copied();
            return address.map(|address| vec![address]).ok_or_else(|| {
                DialFailure::Unreachable(format!("rank {rank} is not in the address book"))
            });
        }
        let unknown = || DialFailure::Unreachable(format!("rank {rank} is not in the file"));
        let names = Names {
            full: config.full_name(rank).ok_or_else(unknown)?,
            service: config.service_name(rank).ok_or_else(unknown)?,
            host: config.host_name(rank).ok_or_else(unknown)?,
        };
        let found = self.resolver.resolve(&names, self.pace).await;
        let found = found.map_err(|error| DialFailure::Unreachable(error.to_string()))?;
        let port = config.port(rank);
        Ok(found.into_iter().map(|ip| SocketAddr::new(ip, port)).collect())
    }
}

/// Takes callers until it is dropped.
pub(super) async fn accept(
    listener: TcpListener,
    tls: Arc<Tls>,
    to: mpsc::Sender<FromNet>,
    observers: Observers,
    services: Arc<OnceLock<Services>>,
) {
    let room = Arc::new(Semaphore::new(HANDSHAKES));
    let mut handshakes = JoinSet::new();
    loop {
        let Ok(permit) = room.clone().acquire_owned().await else { return };
        while handshakes.try_join_next().is_some() {}
        let tcp = match listener.accept().await {
            Ok((tcp, _)) => tcp,
            Err(error) => {
                // Out of descriptors, or the caller has already gone: neither lasts.
                tracing::warn!(%error, "cannot take a connection");
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        let (tls, to, observers) = (tls.clone(), to.clone(), observers.clone());
        let services = services.clone();
        handshakes.spawn(async move {
            let _permit = permit;
            let news = match timeout(HANDSHAKE_WAIT, tls.accept(tcp)).await {
                Ok(Ok(Caller::Broker { stream, rank })) => {
                    FromNet::Accepted { peer: rank, stream: Box::new(stream) }
                }
                Ok(Ok(Caller::Observer(stream))) => return observers.serve(stream),
                Ok(Ok(Caller::Outsider(stream))) => {
                    if let Some(serve) = services.get().and_then(|all| all.outsider.clone()) {
                        tokio::spawn(serve(stream));
                    }
                    return;
                }
                Ok(Err(error)) => match error {
                    TlsError::OtherAttempt { from, .. } | TlsError::WrongKey { from, .. } => {
                        FromNet::Refused { peer: from, reason: error.to_string() }
                    }
                    error => {
                        tracing::debug!(error = chain(&error), "a caller was turned away");
                        return;
                    }
                },
                Err(_) => {
                    tracing::debug!("a caller did not say who it is");
                    return;
                }
            };
            let _ = to.send(news).await;
        });
    }
}

enum Link {
    Dialing(AbortHandle),
    Up { frames: mpsc::UnboundedSender<Frame>, reader: AbortHandle, writer: AbortHandle },
}

/// All links of a broker.
pub(super) struct Links {
    config: Arc<AgentConfig>,
    dialer: Arc<Dialer>,
    to_node: mpsc::Sender<FromNet>,
    table: HashMap<LinkId, Link>,
    tasks: JoinSet<()>,
    accepted: u64,
    counters: Arc<Counters>,
}

impl Links {
    pub(super) fn new(
        config: Arc<AgentConfig>,
        dialer: Arc<Dialer>,
        to_node: mpsc::Sender<FromNet>,
    ) -> Self {
        Self {
            config,
            dialer,
            to_node,
            table: HashMap::new(),
            tasks: JoinSet::new(),
            accepted: 0,
            counters: Arc::default(),
        }
    }

    /// Where the bytes of all links are counted.
    pub(super) fn counters(&self) -> Arc<Counters> {
        self.counters.clone()
    }

    /// Starts a dial; [`FromNet::Connected`] or [`FromNet::DialFailed`] follows.
    pub(super) fn dial(&mut self, link: LinkId, rank: u32) {
        while self.tasks.try_join_next().is_some() {}
        let (config, dialer) = (self.config.clone(), self.dialer.clone());
        let to_node = self.to_node.clone();
        let task = self.tasks.spawn(async move {
            let news = match dialer.dial(&config, rank).await {
                Ok(stream) => FromNet::Connected { link, stream: Box::new(stream) },
                Err(failure) => FromNet::DialFailed { link, failure },
            };
            let _ = to_node.send(news).await;
        });
        self.table.insert(link, Link::Dialing(task));
    }

    /// Names an accepted stream.
    pub(super) fn next_accepted(&mut self) -> LinkId {
        self.accepted += 1;
        LinkId::accepted(self.accepted)
    }

    /// A dial that came through: false when it was given up in the meantime.
    pub(super) fn connected(&mut self, link: LinkId, stream: Stream) -> bool {
        let wanted = matches!(self.table.get(&link), Some(Link::Dialing(_)));
        if wanted {
            self.start(link, stream);
        }
        wanted
    }

    /// Moves frames over a stream from now on.
    pub(super) fn start(&mut self, link: LinkId, stream: Stream) {
        while self.tasks.try_join_next().is_some() {}
        let (mut input, mut output) = split(stream);
        let (frames, mut queue) = mpsc::unbounded_channel::<Frame>();
        let (to_node, counters) = (self.to_node.clone(), self.counters.clone());
        let reader = self.tasks.spawn(async move {
            let mut decoder = Decoder::new();
            let reason = loop {
                match read(&mut input, decoder.buffer()).await {
                    Ok(0) => break "closed by the peer".to_owned(),
                    Ok(bytes) => counters.came_in(bytes),
                    Err(error) => break error.to_string(),
                }
                match hand_over(&mut decoder, link, &to_node).await {
                    Ok(true) if decoder.buffer().is_empty() => *decoder.buffer() = BytesMut::new(),
                    Ok(true) => {}
                    Ok(false) => return,
                    Err(error) => break error.to_string(),
                }
            };
            let _ = to_node.send(FromNet::Closed { link, reason }).await;
        });
        let (to_node, counters) = (self.to_node.clone(), self.counters.clone());
        let writer = self.tasks.spawn(async move {
            let mut buffer = Vec::new();
            while let Some(frame) = queue.recv().await {
                buffer.clear();
                frame.encode(&mut buffer);
                while buffer.len() < WRITE_GOAL {
                    let Ok(frame) = queue.try_recv() else { break };
                    frame.encode(&mut buffer);
                }
                let bytes = buffer.len();
                let written = match output.write_all(&buffer).await {
                    Ok(()) => output.flush().await,
                    Err(error) => Err(error),
                };
                let news = match written {
                    Ok(()) => {
                        counters.went_out(bytes);
                        FromNet::Written { link, bytes }
                    }
                    Err(error) => FromNet::Closed { link, reason: error.to_string() },
                };
                let broken = matches!(news, FromNet::Closed { .. });
                if to_node.send(news).await.is_err() || broken {
                    return;
                }
                if queue.is_empty() {
                    buffer = Vec::new();
                }
            }
            let _ = output.shutdown().await;
        });
        self.table.insert(link, Link::Up { frames, reader, writer });
    }

    /// Queues a frame; frames of links that are gone are dropped.
    pub(super) fn send(&self, link: LinkId, frame: Frame) {
        if let Some(Link::Up { frames, .. }) = self.table.get(&link) {
            // Fails when the writer has met an error; the node hears of that by `Closed`.
            let _ = frames.send(frame);
        }
    }

    /// Forgets a link that broke: true when it was known.
    pub(super) fn broken(&mut self, link: LinkId) -> bool {
        match self.table.remove(&link) {
            Some(Link::Up { reader, writer, .. }) => {
                reader.abort();
                writer.abort();
                true
            }
            Some(Link::Dialing(task)) => {
                task.abort();
                true
            }
            None => false,
        }
    }

    /// Closes a link after what is queued on it.
    pub(super) fn close(&mut self, link: LinkId) {
        match self.table.remove(&link) {
            Some(Link::Dialing(task)) => task.abort(),
            Some(Link::Up { frames, reader, writer }) => {
                reader.abort();
                drop(frames);
                self.tasks.spawn(async move {
                    tokio::time::sleep(CLOSE_WAIT).await;
                    writer.abort();
                });
            }
            None => {}
        }
    }

    /// Closes all links and waits until what was queued is out, within [`CLOSE_WAIT`].
    pub(super) async fn drain(mut self, mut from_net: mpsc::Receiver<FromNet>) {
        let mut writers = Vec::new();
        for (_, link) in self.table.drain() {
            match link {
                Link::Dialing(task) => task.abort(),
                Link::Up { reader, writer, .. } => {
                    reader.abort();
                    writers.push(writer);
                }
            }
        }
        // Writers report what they have written; somebody has to take that.
        let done = async {
            while writers.iter().any(|writer| !writer.is_finished()) {
                tokio::select! {
                    joined = self.tasks.join_next() => if joined.is_none() { return },
                    _ = from_net.recv() => {}
                }
            }
        };
        let _ = timeout(CLOSE_WAIT, done).await;
    }
}

/// Reads what is there behind what has come. The room for it is on the stack: a link that waits,
/// as most do, must not hold any.
async fn read(input: &mut ReadHalf<Stream>, come: &mut BytesMut) -> io::Result<usize> {
    poll_fn(|context| {
        let mut room = [0; READ_ROOM];
        let mut piece = ReadBuf::new(&mut room);
        ready!(Pin::new(&mut *input).poll_read(context, &mut piece))?;
        come.extend_from_slice(piece.filled());
        Poll::Ready(Ok(piece.filled().len()))
    })
    .await
}

/// Passes on all whole frames; false when the node is gone.
async fn hand_over(
    decoder: &mut Decoder,
    link: LinkId,
    to_node: &mpsc::Sender<FromNet>,
) -> Result<bool, quorate_overlay::frame::FrameError> {
    while let Some(frame) = decoder.next_frame()? {
        if to_node.send(FromNet::Frame { link, frame }).await.is_err() {
            return Ok(false);
        }
    }
    Ok(true)
}
