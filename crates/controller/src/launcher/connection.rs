//! One connection to a launcher's broker: TCP, the preamble, TLS, lines.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use quorate_contract::ClusterStatus;
use quorate_contract::keys::{Holder, Keyring};
use quorate_contract::observe::{self, Ask, LineError, Lines, MOST_TOLD, REFRESH, Tell};
use quorate_tls::{Cause, Identity, Pinned, cause, server_name};
use rustls::ClientConfig;
use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::seeds::{SeedError, Seeds};
use super::target::Target;
use crate::watch::Key;

/// A broker on a living node answers well within this.
const DIAL_WAIT: Duration = Duration::from_secs(3);
/// The same for the handshake: a busy broker may be slow.
const HANDSHAKE_WAIT: Duration = Duration::from_secs(10);
/// A broker that has said nothing for so long hangs.
const SILENCE: Duration = Duration::from_secs(3 * REFRESH.as_secs());
/// The kernel asks a silent peer's kernel after so long, each so long, so often: a node that is
/// gone is known within 6 s, and no process is woken for it.
const PROBE_AFTER: Duration = Duration::from_secs(3);
const PROBE_EACH: Duration = Duration::from_secs(1);
const PROBES: u32 = 3;
/// Bytes that are read at once.
const READ_ROOM: usize = 4096;

/// Why nothing is heard of a launcher.
#[derive(Debug, thiserror::Error)]
pub enum ConnectionError {
    /// Nobody listens there, or packets do not arrive.
    #[error("cannot connect")]
    Dial(#[source] io::Error),
    /// There is no seed to prove.
    #[error("there is no key")]
    Seed(#[source] SeedError),
    /// What listens there has another cluster's key, or does not take ours.
    #[error("what listens there does not have this cluster's key")]
    Key(#[source] io::Error),
    /// The connection broke.
    #[error("the connection broke")]
    Broken(#[source] io::Error),
    /// The broker says why it does not answer.
    #[error("the broker refused: {0}")]
    Refused(String),
    /// The broker said what this version does not know.
    #[error("the broker said what this version does not know")]
    Line(#[source] LineError),
    /// Nothing came for too long.
    #[error("nothing was heard for {} s", SILENCE.as_secs())]
    Silence,
    /// The broker has ended the connection.
    #[error("the broker ended the connection")]
    Ended,
}

impl ConnectionError {
    /// The machine's word, for logs.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Dial(_) => "Unreachable",
            Self::Seed(_) => "NoKey",
            Self::Key(_) => "WrongKey",
            Self::Broken(_) | Self::Ended => "Disconnected",
            Self::Refused(_) => "Refused",
            Self::Line(_) => "Unreadable",
            Self::Silence => "Silent",
        }
    }

    /// Whether nothing came back from the address, not even a refusal.
    pub(super) fn is_unanswered(&self) -> bool {
        matches!(self, Self::Dial(error) if error.kind() != io::ErrorKind::ConnectionRefused)
    }

    /// Whether another key might help.
    pub(super) fn is_about_keys(&self) -> bool {
        matches!(self, Self::Key(_) | Self::Seed(_))
    }
}

/// What proves the right to ask about one cluster. The seed itself is not kept.
pub(super) struct Identified {
    cluster_uid: String,
    config: Arc<ClientConfig>,
}

impl Identified {
    pub(super) async fn new(
        seeds: &dyn Seeds,
        key: &Key,
        target: &Target,
    ) -> Result<Self, ConnectionError> {
        let uid = &target.cluster_uid;
        let seed = seeds.seed(key, uid).await.map_err(ConnectionError::Seed)?;
        let keyring = Keyring::new(&seed, uid);
        drop(seed);
        let peer = Pinned::new(keyring.public(Holder::Observed));
        let mut config = Identity::new(&keyring, Holder::Observer).client(peer);
        config.alpn_protocols = vec![observe::ALPN.to_vec()];
        Ok(Self { cluster_uid: uid.clone(), config: Arc::new(config) })
    }

    pub(super) fn is_of(&self, target: &Target) -> bool {
        self.cluster_uid == target.cluster_uid
    }
}

/// Connects, as far as TCP.
pub(super) async fn dial(target: &Target) -> Result<TcpStream, ConnectionError> {
    let tcp = timeout(DIAL_WAIT, TcpStream::connect(target.address)).await;
    let tcp = tcp.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
    let tcp = tcp.map_err(ConnectionError::Dial)?;
    let probes =
        TcpKeepalive::new().with_time(PROBE_AFTER).with_interval(PROBE_EACH).with_retries(PROBES);
    SockRef::from(&tcp).set_tcp_keepalive(&probes).map_err(ConnectionError::Dial)?;
    tcp.set_nodelay(true).map_err(ConnectionError::Dial)?;
    Ok(tcp)
}

/// An open connection.
pub(super) struct Connection {
    stream: TlsStream<TcpStream>,
    lines: Lines,
}

impl Connection {
    /// Proves both sides.
    pub(super) async fn open(
        mut tcp: TcpStream,
        identity: &Identified,
    ) -> Result<Self, ConnectionError> {
        let handshake = async {
            tcp.write_all(&observe::PREAMBLE).await?;
            TlsConnector::from(identity.config.clone()).connect(server_name(), tcp).await
        };
        let stream = timeout(HANDSHAKE_WAIT, handshake).await;
        let stream = stream.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
        Ok(Self { stream: stream.map_err(broken)?, lines: Lines::new(MOST_TOLD) })
    }

    /// Gives each status to `told`, and tells the broker its size, until the target moves (`Ok`)
    /// or the connection ends.
    pub(super) async fn listen(
        &mut self,
        targets: &mut watch::Receiver<Target>,
        target: &Target,
        mut told: impl FnMut(ClusterStatus),
    ) -> Result<(), ConnectionError> {
        let mut wanted = target.size;
        let mut asked = None;
        loop {
            tokio::select! {
                status = timeout(SILENCE, self.status()) => {
                    let status = status.map_err(|_| ConnectionError::Silence)??;
                    // A broker that was told by its configuration needs not be told again.
                    if status.size == wanted {
                        asked = Some(wanted);
                    }
                    told(status);
                }
                moved = targets.changed() => {
                    if moved.is_err() {
                        return Ok(());
                    }
                    let now = targets.borrow_and_update().clone();
                    if !now.same_place(target) {
                        // For the next turn.
                        targets.mark_changed();
                        return Ok(());
                    }
                    wanted = now.size;
                }
            }
            if asked != Some(wanted) {
                asked = Some(wanted);
                let line = observe::line(&Ask::Size(wanted));
                let write = async {
                    self.stream.write_all(&line).await?;
                    self.stream.flush().await
                };
                let written = timeout(HANDSHAKE_WAIT, write).await;
                written.map_err(|_| ConnectionError::Silence)?.map_err(broken)?;
            }
        }
    }

    /// The next status. Can be dropped and called again.
    async fn status(&mut self) -> Result<ClusterStatus, ConnectionError> {
        loop {
            match self.lines.next_line().map_err(ConnectionError::Line)? {
                Some(Tell::Status(status)) => return Ok(*status),
                Some(Tell::Refused(reason)) => return Err(ConnectionError::Refused(reason)),
                None => {}
            }
            let mut bytes = [0; READ_ROOM];
            let room = self.lines.room().min(READ_ROOM);
            match self.stream.read(&mut bytes[..room]).await {
                Ok(0) => return Err(ConnectionError::Ended),
                Ok(count) => self.lines.push(&bytes[..count]),
                Err(error) => return Err(broken(error)),
            }
        }
    }
}

fn broken(error: io::Error) -> ConnectionError {
    match cause(&error) {
        Cause::WrongKey | Cause::NotAdmitted | Cause::Alert(_) => ConnectionError::Key(error),
        Cause::Other => ConnectionError::Broken(error),
    }
}
