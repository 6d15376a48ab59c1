//! TLS 1.3 between brokers: mutual, raw public keys (RFC 7250), pinned by rank and attempt.
//!
//! ```text
//!   dialing rank                                   accepting rank
//!   preamble (magic, attempt, from, to) ─────────▶ which key has the caller to show?
//!   ClientHello ─────────────────────────────────▶
//!   ◀──────────── ServerHello, key of `to`, signed
//!   key of `from`, signed, Finished ─────────────▶ equal to the derived one? else an alert
//! ```
//!
//! The preamble is not authenticated and needs not be: it only chooses the one key that the
//! handshake then has to prove. A caller that claims an earlier or later attempt is met with that
//! attempt's keys, so that the claim is proved before it is refused; it is never admitted.
//! Nothing is resumed, so each link proves its keys anew.
//!
//! Observers come to the same port with a preamble of their own and prove another key; what they
//! are told is the business of `broker::observe`. Callers from outside prove no key; whether they are
//! heard is the business of `outside`.

use quorate_contract::keys::{Holder, Keyring};
use quorate_contract::{observe, outside};
use quorate_tls::{Cause, Identity, Pinned, cause, server_name};
use rustls::{AlertDescription, ServerConfig};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::{TlsAcceptor, TlsConnector, TlsStream};

/// The preamble's first bytes: the protocol and its version.
const MAGIC: [u8; 4] = *b"QRT1";
/// The bytes of a broker's preamble after these.
const CLAIM_LENGTH: usize = 12;

/// An encrypted connection to another broker.
pub type Stream = TlsStream<TcpStream>;

/// Who a caller says it is, and whom it wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The caller's restart attempt.
    pub attempt: u32,
    /// The caller's rank.
    pub from: u32,
    /// The rank that the caller means to reach.
    pub to: u32,
}

/// Why a connection did not come about.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The connection broke or nobody listens.
    #[error("cannot connect to {address}")]
    Connect {
        /// Where.
        address: SocketAddr,
        /// The system's word for it.
        #[source]
        source: io::Error,
    },
    /// The connection broke during the handshake.
    #[error("the handshake broke off")]
    Broken(#[source] io::Error),
    /// What listens there has not the key of the rank that was dialed: another seed, cluster,
    /// attempt or rank.
    #[error(
        "what listens at {address} does not have the key of rank {rank}, attempt {attempt}: another secret, cluster or attempt"
    )]
    NotTheRank {
        /// Where.
        address: SocketAddr,
        /// The rank that was dialed.
        rank: u32,
        /// This broker's attempt.
        attempt: u32,
    },
    /// The acceptor proved that it has our cluster's seed and says that our attempt is over.
    #[error("rank {rank} refused: attempt {attempt} is not the current one")]
    Stale {
        /// The rank that was dialed.
        rank: u32,
        /// This broker's attempt.
        attempt: u32,
    },
    /// The acceptor refused our key.
    #[error("rank {rank} refused this broker's key")]
    Refused {
        /// The rank that was dialed.
        rank: u32,
    },
    /// A caller that asks for the status could not prove that it has the cluster's seed.
    #[error("an observer does not have this cluster's key: another secret or cluster")]
    NotAnObserver,
    /// What connected does not speak this protocol.
    #[error("not a broker of this version")]
    NotABroker,
    /// The caller wants another rank; a name led it to the wrong pod.
    #[error("rank {from} looks for rank {to}, which is not here")]
    Misled {
        /// The caller's rank.
        from: u32,
        /// The rank that it looks for.
        to: u32,
    },
    /// A caller proved to belong to another attempt.
    #[error("attempt {theirs}, now {ours}")]
    OtherAttempt {
        /// The caller's rank.
        from: u32,
        /// The caller's attempt.
        theirs: u32,
        /// This broker's attempt.
        ours: u32,
    },
    /// A caller could not prove the rank and attempt that it claims.
    #[error(
        "it does not have the key of rank {from}, attempt {attempt}: another secret or cluster"
    )]
    WrongKey {
        /// The claimed rank.
        from: u32,
        /// The claimed attempt.
        attempt: u32,
    },
}

/// Who has called.
#[derive(Debug)]
pub enum Caller {
    /// A broker that has proved its rank.
    Broker {
        /// The connection.
        stream: Stream,
        /// The rank.
        rank: u32,
    },
    /// Somebody who has proved to have the cluster's seed and asks for its status.
    Observer(Stream),
    /// Somebody who has proved nothing, and asks for a verb; who that may be is decided elsewhere.
    Outsider(TcpStream),
}

/// Makes and takes connections for one rank.
#[derive(Debug)]
pub struct Tls {
    keyring: Keyring,
    own: Identity,
    /// For the status channel. Made once: unlike brokers, all observers have one key.
    observed: Arc<ServerConfig>,
    rank: u32,
    attempt: u32,
}

impl Tls {
    /// Connections of this rank in this attempt.
    pub fn new(keyring: Keyring, rank: u32, attempt: u32) -> Self {
        let own = Identity::new(&keyring, Holder::Rank { rank, attempt });
        let observer = Pinned::new(keyring.public(Holder::Observer));
        let mut observed = own.other(&keyring, Holder::Observed).server(observer);
        observed.alpn_protocols = vec![observe::ALPN.to_vec()];
        Self { keyring, own, observed: Arc::new(observed), rank, attempt }
    }

    /// Connects to a rank at an address and proves both sides.
    pub async fn dial(&self, address: SocketAddr, to: u32) -> Result<Stream, TlsError> {
        let connect = |source| TlsError::Connect { address, source };
        let mut tcp = TcpStream::connect(address).await.map_err(connect)?;
        tcp.set_nodelay(true).map_err(connect)?;
        let claim = Claim { attempt: self.attempt, from: self.rank, to };
        tcp.write_all(&encode(claim)).await.map_err(TlsError::Broken)?;

        let peer = Holder::Rank { rank: to, attempt: self.attempt };
        let config = self.own.client(Pinned::new(self.keyring.public(peer)));
        let stream = TlsConnector::from(Arc::new(config)).connect(server_name(), tcp).await;
        let mut stream = TlsStream::Client(stream.map_err(|error| match cause(&error) {
            Cause::WrongKey => TlsError::NotTheRank { address, rank: to, attempt: self.attempt },
            _ => TlsError::Broken(error),
        })?);
        self.await_verdict(&mut stream, to).await?;
        Ok(stream)
    }

    /// In TLS 1.3 the dialing side is done before the other has seen its key. One byte from the
    /// acceptor says that it is content; an alert instead says why not.
    async fn await_verdict(&self, stream: &mut Stream, to: u32) -> Result<(), TlsError> {
        stream.flush().await.map_err(TlsError::Broken)?;
        match stream.read_u8().await {
            Ok(_) => Ok(()),
            Err(error) => Err(match cause(&error) {
                Cause::Alert(AlertDescription::CertificateExpired) => {
                    TlsError::Stale { rank: to, attempt: self.attempt }
                }
                Cause::Alert(_) => TlsError::Refused { rank: to },
                _ => TlsError::Broken(error),
            }),
        }
    }

    /// Takes a connection: gives the stream and who the caller has proved to be.
    pub async fn accept(&self, mut tcp: TcpStream) -> Result<Caller, TlsError> {
        tcp.set_nodelay(true).map_err(TlsError::Broken)?;
        let mut magic = [0; MAGIC.len()];
        tcp.read_exact(&mut magic).await.map_err(TlsError::Broken)?;
        match magic {
            MAGIC => self.accept_broker(tcp).await,
            observe::PREAMBLE => self.accept_observer(tcp).await,
            outside::PREAMBLE => Ok(Caller::Outsider(tcp)),
            _ => Err(TlsError::NotABroker),
        }
    }

    async fn accept_observer(&self, tcp: TcpStream) -> Result<Caller, TlsError> {
        let stream = TlsAcceptor::from(self.observed.clone()).accept(tcp).await;
        let stream = stream.map_err(|error| match cause(&error) {
            Cause::WrongKey | Cause::Alert(_) => TlsError::NotAnObserver,
            Cause::NotAdmitted | Cause::Other => TlsError::Broken(error),
        })?;
        Ok(Caller::Observer(TlsStream::Server(stream)))
    }

    async fn accept_broker(&self, mut tcp: TcpStream) -> Result<Caller, TlsError> {
        let mut claim = [0; CLAIM_LENGTH];
        tcp.read_exact(&mut claim).await.map_err(TlsError::Broken)?;
        let claim = decode(&claim);
        if claim.to != self.rank {
            return Err(TlsError::Misled { from: claim.from, to: claim.to });
        }
        let theirs = Holder::Rank { rank: claim.from, attempt: claim.attempt };
        let pinned = Pinned::new(self.keyring.public(theirs));
        let config = if claim.attempt == self.attempt {
            self.own.server(pinned)
        } else {
            let own = Holder::Rank { rank: self.rank, attempt: claim.attempt };
            self.own.other(&self.keyring, own).server(pinned.not_admitted())
        };
        let Claim { attempt, from, .. } = claim;
        let refused = |error: io::Error| match cause(&error) {
            Cause::NotAdmitted => {
                TlsError::OtherAttempt { from, theirs: attempt, ours: self.attempt }
            }
            // Their alert about our key, and our opinion of theirs, mean the same.
            Cause::WrongKey | Cause::Alert(_) => TlsError::WrongKey { from, attempt },
            Cause::Other => TlsError::Broken(error),
        };
        let stream = TlsAcceptor::from(Arc::new(config)).accept(tcp).await.map_err(refused)?;
        let mut stream = TlsStream::Server(stream);
        stream.write_u8(1).await.map_err(TlsError::Broken)?;
        stream.flush().await.map_err(TlsError::Broken)?;
        Ok(Caller::Broker { stream, rank: from })
    }
}

fn encode(claim: Claim) -> [u8; MAGIC.len() + CLAIM_LENGTH] {
    let mut bytes = [0; MAGIC.len() + CLAIM_LENGTH];
    bytes[..4].copy_from_slice(&MAGIC);
    bytes[4..8].copy_from_slice(&claim.attempt.to_be_bytes());
    bytes[8..12].copy_from_slice(&claim.from.to_be_bytes());
    bytes[12..].copy_from_slice(&claim.to.to_be_bytes());
    bytes
}

fn decode(bytes: &[u8; CLAIM_LENGTH]) -> Claim {
    let number = |at: usize| {
        u32::from_be_bytes(bytes[at..at + 4].try_into().expect("the slice has four bytes"))
    };
    Claim { attempt: number(0), from: number(4), to: number(8) }
}

#[cfg(test)]
mod tests;
