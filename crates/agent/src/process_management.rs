//! The sockets around `quorate_pmi::JobServer`: one server for the ranks of one job in this pod.
//!
//! Owns: the socket pairs and loopback ports that ranks talk to, and carrying out the server's
//! effects: replies, exchanges over the overlay, timers, questions to other nodes. It must not know
//! any wire format. Everything runs on the broker's one thread and answers as soon as bytes come
//! in: ranks spin while they wait.

mod socket;
#[cfg(test)]
mod tests;

use crate::broker::Overlay;
use crate::broker::services::BoxFuture;
use crate::job::protocol::{MODEX, Modex, body};
use bytes::Bytes;
use quorate_pmi::{
    Cleanup, ClientId, Effect, Exit, JobServer, Layout, Offer, Options, Protocol, RankState,
    Sequence, Transports,
};
use socket::Socket;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio::task::AbortHandle;

/// What ranks do that is the job's business.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A rank called MPI_Abort, or its server gave up.
    Abort {
        /// The rank.
        rank: u32,
        /// The job's exit code.
        code: i32,
        /// Its words.
        message: String,
    },
    /// A rank has ended with success while others of this pod wait for it.
    Deserted {
        /// The rank.
        rank: u32,
        /// Whether it had ever been initialized.
        initialized: bool,
    },
    /// An exchange has not been complete for a while.
    Waiting(Sequence),
}

/// An exchange that takes longer is told to the job's leader, who knows whether all will come.
const SLOW: Duration = Duration::from_secs(1);

/// What all nodes brought to an exchange, by node.
pub type Blobs = Vec<(u32, Arc<[u8]>)>;

/// The answer to a question for what a rank has published.
type Answer = oneshot::Sender<Option<Vec<u8>>>;

/// How nodes of a job meet.
pub trait Exchanger: Send + Sync + 'static {
    /// As [`Overlay::exchange`]: the blobs of all nodes of the job as `(node, blob)`.
    fn exchange(&self, sequence: u64, blob: Bytes) -> BoxFuture<Result<Blobs, String>>;

    /// Asks another node for what a rank has published.
    fn modex(&self, node: u32, rank: u32) -> BoxFuture<Option<Vec<u8>>>;
}

/// Nodes of a job that meet over the overlay.
#[derive(Debug)]
pub struct OverOverlay {
    /// The broker.
    pub overlay: Overlay,
    /// The job.
    pub job: u64,
    /// This node's place in the job.
    pub node: u32,
    /// Brokers in node order, which is ascending.
    pub brokers: Arc<[u32]>,
}

impl Exchanger for OverOverlay {
    fn exchange(&self, sequence: u64, blob: Bytes) -> BoxFuture<Result<Blobs, String>> {
        let (overlay, job, brokers) = (self.overlay.clone(), self.job, self.brokers.clone());
        let node = self.node;
        Box::pin(async move {
            if brokers.len() == 1 {
                return Ok(vec![(node, Arc::from(&blob[..]))]);
            }
            let blobs = overlay
                .exchange(job, sequence, &brokers, blob)
                .await
                .map_err(|error| error.to_string())?;
            Ok(blobs
                .into_iter()
                .filter_map(|(broker, blob)| {
                    let node = brokers.binary_search(&broker).ok()?;
                    Some((node as u32, Arc::from(&blob[..])))
                })
                .collect())
        })
    }

    fn modex(&self, node: u32, rank: u32) -> BoxFuture<Option<Vec<u8>>> {
        let question = body(&Modex { job: self.job, node: self.node, rank });
        let (overlay, broker) = (self.overlay.clone(), self.brokers.get(node as usize).copied());
        Box::pin(async move {
            let answer = overlay.request(broker?, MODEX, question).await.ok()?;
            // One byte tells an empty answer from none.
            match answer.split_first() {
                Some((1, blob)) => Some(blob.to_vec()),
                _ => None,
            }
        })
    }
}

/// The process-management server of one job in this pod. Clones share it.
#[derive(Clone)]
pub struct Server {
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<State>,
    offer: Offer,
    transports: Transports,
    exchanger: Box<dyn Exchanger>,
    events: mpsc::UnboundedSender<Event>,
}

struct State {
    server: JobServer,
    sockets: HashMap<ClientId, Client>,
    cleanups: Vec<Cleanup>,
    wire: BTreeMap<u32, Protocol>,
    /// Questions of other nodes that wait for a local rank.
    questions: HashMap<(u32, u32), Vec<Answer>>,
    tasks: Vec<AbortHandle>,
    /// Exchanges with other nodes that have no result, and whether one never will.
    open: usize,
    failed: bool,
    closed: bool,
}

struct Client {
    socket: Arc<Socket>,
    pending: VecDeque<Bytes>,
    closing: bool,
}

/// What ranks may use to reach the server.
#[derive(Clone, Copy, Debug)]
pub struct Ways {
    /// The protocols.
    pub offer: Offer,
    /// Serves PMI by TCP too.
    pub pmi_port: bool,
}

impl Server {
    /// Opens the ports and starts to serve. Must be called within the runtime.
    pub fn open(
        layout: Layout,
        ways: Ways,
        exchanger: Box<dyn Exchanger>,
        events: mpsc::UnboundedSender<Event>,
    ) -> io::Result<Self> {
        let port = |wanted: bool| -> io::Result<Option<(TcpListener, SocketAddr)>> {
            if !wanted {
                return Ok(None);
            }
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
            listener.set_nonblocking(true)?;
            let address = listener.local_addr()?;
            Ok(Some((listener, address)))
        };
        let pmi = matches!(ways.offer, Offer::Auto | Offer::Pmi1 | Offer::Pmi2);
        let pmix = port(matches!(ways.offer, Offer::Auto | Offer::Pmix))?;
        let tcp = port(pmi && ways.pmi_port)?;
        let transports = Transports {
            pmi_fd: None,
            pmi_port: tcp.as_ref().map(|(_, address)| *address),
            pmix_port: pmix.as_ref().map(|(_, address)| address.port()),
        };
        let state = State {
            server: JobServer::new(layout, Options::default()),
            sockets: HashMap::new(),
            cleanups: Vec::new(),
            wire: BTreeMap::new(),
            questions: HashMap::new(),
            tasks: Vec::new(),
            open: 0,
            failed: false,
            closed: false,
        };
        let server = Self {
            shared: Arc::new(Shared {
                state: Mutex::new(state),
                offer: ways.offer,
                transports,
                exchanger,
                events,
            }),
        };
        if let Some((listener, _)) = pmix {
            server.listen(listener, |job| {
                // Made when the first rank needs it: most programs speak something else.
                let dir = job.layout().tmp_dir().to_owned();
                if let Err(error) = std::fs::create_dir_all(&dir) {
                    tracing::warn!(%error, %dir, "a job's directory cannot be made");
                }
                job.connect_pmix()
            })?;
        }
        if let Some((listener, _)) = tcp {
            server.listen(listener, JobServer::connect_tcp_pmi)?;
        }
        Ok(server)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.shared.state.lock().expect("the lock holds because nothing panics under it")
    }

    /// A local rank's end of a socket pair, to be inherited by it, if PMI is offered. The pair is
    /// closed on this side when the rank's end is.
    pub fn rank_end(&self, rank: u32) -> io::Result<Option<OwnedFd>> {
        if !matches!(self.shared.offer, Offer::Auto | Offer::Pmi1 | Offer::Pmi2) {
            return Ok(None);
        }
        let (ours, theirs) = socket::pair()?;
        let mut state = self.state();
        let client = state.server.connect_fd(rank);
        self.adopt(&mut state, client, Socket::new(ours)?);
        Ok(Some(theirs))
    }

    /// All variables of process management of a local rank, which has the descriptor `fd`.
    pub fn environment(&self, rank: u32, fd: Option<i32>) -> Vec<(String, String)> {
        let transports = Transports { pmi_fd: fd, ..self.shared.transports };
        self.state().server.layout().environment(rank, &transports, self.shared.offer)
    }

    /// A rank's process has ended: reads what it still said, and tells how far it came.
    pub fn rank_exited(&self, rank: u32, exit: Exit) -> (RankState, Option<Protocol>) {
        self.drain();
        let (state, effects, wire) = {
            let mut state = self.state();
            let (rank_state, effects) = state.server.rank_exited(rank, exit);
            let wire = rank_state.protocol.or_else(|| state.wire.get(&rank).copied());
            (rank_state, effects, wire)
        };
        self.carry_out(effects);
        (state, wire)
    }

    /// How many exchanges were entered here, as [`JobServer::exchanges`].
    pub fn exchanges(&self) -> [u64; 3] {
        self.state().server.exchanges()
    }

    /// Whether ranks here wait for an exchange with other nodes, or one has failed. Such a job does not go
    /// on when rank 0 is started anew: some nodes may have the result of it, which no other rank 0 knows.
    pub fn in_exchange(&self) -> bool {
        let state = self.state();
        state.open > 0 || state.failed
    }

    /// Whether all local ranks have met the others and said that they are done with that.
    pub fn has_met(&self) -> bool {
        let state = self.state();
        let mut ranks = state.server.layout().local_ranks().iter();
        ranks.all(|rank| state.server.rank_state(*rank).finalized)
    }

    /// Another node's question for what a local rank has published.
    pub async fn question(&self, node: u32, rank: u32) -> Option<Vec<u8>> {
        let (answer, waiting) = oneshot::channel();
        let effects = {
            let mut state = self.state();
            state.questions.entry((node, rank)).or_default().push(answer);
            state.server.modex_requested(node, rank)
        };
        self.carry_out(effects);
        waiting.await.ok().flatten()
    }

    /// Stops serving, when no rank is left: gives what has to be removed.
    pub fn close(&self) -> Vec<Cleanup> {
        let mut state = self.state();
        state.closed = true;
        state.sockets.clear();
        state.questions.clear();
        for task in state.tasks.drain(..) {
            task.abort();
        }
        std::mem::take(&mut state.cleanups)
    }

    fn listen(
        &self,
        listener: TcpListener,
        connect: fn(&mut JobServer) -> ClientId,
    ) -> io::Result<()> {
        let listener = tokio::net::TcpListener::from_std(listener)?;
        let weak = Arc::downgrade(&self.shared);
        let accept = async move {
            while let Ok((stream, _)) = listener.accept().await {
                let Some(server) = Self::upgrade(&weak) else { return };
                // A request and its answer must not wait for each other's acknowledgement.
                let socket = stream
                    .set_nodelay(true)
                    .and_then(|()| stream.into_std())
                    .and_then(|stream| Socket::new(stream.into()));
                if let Ok(socket) = socket {
                    let mut state = server.state();
                    let client = connect(&mut state.server);
                    server.adopt(&mut state, client, socket);
                }
            }
        };
        self.state().tasks.push(tokio::spawn(accept).abort_handle());
        Ok(())
    }

    fn upgrade(weak: &Weak<Shared>) -> Option<Self> {
        weak.upgrade().map(|shared| Self { shared })
    }

    fn adopt(&self, state: &mut State, client: ClientId, socket: Socket) {
        if state.closed {
            return;
        }
        let socket = Arc::new(socket);
        let reader = {
            let (socket, weak) = (socket.clone(), Arc::downgrade(&self.shared));
            async move {
                let mut buffer = vec![0; 8192];
                loop {
                    let read = socket.read(&mut buffer).await;
                    let Some(server) = Self::upgrade(&weak) else { return };
                    match read {
                        Ok(count) if count > 0 => server.received(client, &buffer[..count]),
                        _ => return server.lost(client),
                    }
                }
            }
        };
        state.sockets.insert(client, Client { socket, pending: VecDeque::new(), closing: false });
        state.tasks.push(tokio::spawn(reader).abort_handle());
    }

    fn received(&self, client: ClientId, bytes: &[u8]) {
        let effects = self.state().server.receive(client, bytes);
        self.carry_out(effects);
    }

    fn lost(&self, client: ClientId) {
        let effects = {
            let mut state = self.state();
            state.sockets.remove(&client);
            state.server.closed(client)
        };
        self.carry_out(effects);
    }

    /// Reads what is in the sockets right now.
    fn drain(&self) {
        let sockets: Vec<_> =
            self.state().sockets.iter().map(|(id, c)| (*id, c.socket.clone())).collect();
        let mut buffer = [0; 4096];
        for (client, socket) in sockets {
            while let Ok(count @ 1..) = socket.read_now(&mut buffer) {
                self.received(client, &buffer[..count]);
            }
        }
    }

    fn carry_out(&self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Reply { client, bytes } => {
                    let mut state = self.state();
                    for piece in bytes.slices() {
                        Self::write(&self.shared, &mut state, client, piece);
                    }
                }
                Effect::Close { client } => {
                    let mut state = self.state();
                    match state.sockets.get_mut(&client) {
                        Some(open) if !open.pending.is_empty() => open.closing = true,
                        _ => drop(state.sockets.remove(&client)),
                    }
                }
                Effect::Exchange { sequence, blob } => self.exchange(sequence, blob),
                Effect::FetchModex { node, rank } => self.fetch(node, rank),
                Effect::AnswerModex { node, rank, blob } => {
                    let waiting = self.state().questions.remove(&(node, rank));
                    for answer in waiting.into_iter().flatten() {
                        // Whoever asked may be gone.
                        let _ = answer.send(blob.clone());
                    }
                }
                Effect::Timer { id, after } => {
                    let weak = Arc::downgrade(&self.shared);
                    self.spawn(async move {
                        tokio::time::sleep(after).await;
                        if let Some(server) = Self::upgrade(&weak) {
                            let effects = server.state().server.fired(id);
                            server.carry_out(effects);
                        }
                    });
                }
                Effect::Abort { rank, code, message } => {
                    let _ = self.shared.events.send(Event::Abort { rank, code, message });
                }
                Effect::Deserted { rank, initialized } => {
                    let _ = self.shared.events.send(Event::Deserted { rank, initialized });
                }
                Effect::Cleanup(cleanup) => self.state().cleanups.push(cleanup),
                Effect::Wire { rank, protocol } => {
                    self.state().wire.insert(rank, protocol);
                }
            }
        }
    }

    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let mut state = self.state();
        if !state.closed {
            state.tasks.retain(|task| !task.is_finished());
            state.tasks.push(tokio::spawn(task).abort_handle());
        }
    }

    fn exchange(&self, sequence: Sequence, blob: Vec<u8>) {
        let mut exchange = self.shared.exchanger.exchange(sequence.to_u64(), blob.into());
        let weak = Arc::downgrade(&self.shared);
        let events = self.shared.events.clone();
        self.state().open += 1;
        self.spawn(async move {
            let in_time = tokio::time::timeout(SLOW, &mut exchange).await;
            let result = if let Ok(result) = in_time {
                result
            } else {
                let _ = events.send(Event::Waiting(sequence));
                exchange.await
            };
            let Some(server) = Self::upgrade(&weak) else { return };
            {
                let mut state = server.state();
                state.open -= 1;
                state.failed |= result.is_err();
            }
            let effects = match &result {
                Ok(blobs) => server.state().server.exchanged(sequence, blobs),
                Err(reason) => {
                    tracing::warn!(%reason, "an exchange of a job failed");
                    server.state().server.exchange_failed(sequence)
                }
            };
            server.carry_out(effects);
        });
    }

    fn fetch(&self, node: u32, rank: u32) {
        let question = self.shared.exchanger.modex(node, rank);
        let weak = Arc::downgrade(&self.shared);
        self.spawn(async move {
            let blob = question.await;
            let Some(server) = Self::upgrade(&weak) else { return };
            let effects = server.state().server.modex(rank, blob.as_deref());
            server.carry_out(effects);
        });
    }

    /// Writes at once what the socket takes, and the rest when it can.
    fn write(shared: &Arc<Shared>, state: &mut State, client: ClientId, bytes: &[u8]) {
        let Some(open) = state.sockets.get_mut(&client) else { return };
        let mut rest = bytes;
        if open.pending.is_empty() {
            match open.socket.write_now(bytes) {
                Ok(count) => rest = &bytes[count..],
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                // The reader sees the broken socket and settles it.
                Err(_) => return,
            }
            if rest.is_empty() {
                return;
            }
            let (socket, weak) = (open.socket.clone(), Arc::downgrade(shared));
            let writer = async move {
                while socket.writable().await.is_ok() {
                    let Some(server) = Self::upgrade(&weak) else { return };
                    let mut state = server.state();
                    let Some(open) = state.sockets.get_mut(&client) else { return };
                    while let Some(piece) = open.pending.front_mut() {
                        match socket.write_ready(piece) {
                            Ok(count) if count == piece.len() => drop(open.pending.pop_front()),
                            Ok(count) => drop(piece.split_to(count)),
                            Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                            Err(_) => return,
                        }
                    }
                    if open.pending.is_empty() {
                        if open.closing {
                            state.sockets.remove(&client);
                        }
                        return;
                    }
                }
            };
            state.tasks.push(tokio::spawn(writer).abort_handle());
        }
        let Some(open) = state.sockets.get_mut(&client) else { return };
        open.pending.push_back(Bytes::copy_from_slice(rest));
    }
}
