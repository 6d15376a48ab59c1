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

use super::keys::{Keyring, Spki};
use rustls::client::AlwaysResolvesClientRawPublicKeys;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, ring as provider};
use rustls::pki_types::{
    CertificateDer, PrivatePkcs8KeyDer, ServerName, SubjectPublicKeyInfoDer, UnixTime,
};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{AlwaysResolvesServerRawPublicKeys, NoServerSessionStorage};
use rustls::sign::CertifiedKey;
use rustls::version::TLS13;
use rustls::{
    AlertDescription, CertificateError, ClientConfig, DigitallySignedStruct, DistinguishedName,
    ServerConfig, SignatureScheme,
};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::{TlsAcceptor, TlsConnector, TlsStream};

/// The preamble's first bytes: the protocol and its version.
const MAGIC: [u8; 4] = *b"QRT1";
const PREAMBLE_LENGTH: usize = 16;

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

/// Makes and takes connections for one rank.
#[derive(Debug)]
pub struct Tls {
    keyring: Keyring,
    provider: Arc<CryptoProvider>,
    own: Arc<CertifiedKey>,
    rank: u32,
    attempt: u32,
}

impl Tls {
    /// Connections of this rank in this attempt.
    pub fn new(keyring: Keyring, rank: u32, attempt: u32) -> Self {
        let mut provider = provider::default_provider();
        provider.cipher_suites = vec![
            provider::cipher_suite::TLS13_AES_128_GCM_SHA256,
            provider::cipher_suite::TLS13_CHACHA20_POLY1305_SHA256,
        ];
        provider.kx_groups = vec![provider::kx_group::X25519];
        let own = certified(&keyring, rank, attempt);
        Self { keyring, provider: Arc::new(provider), own, rank, attempt }
    }

    /// Connects to a rank at an address and proves both sides.
    pub async fn dial(&self, address: SocketAddr, to: u32) -> Result<Stream, TlsError> {
        let connect = |source| TlsError::Connect { address, source };
        let mut tcp = TcpStream::connect(address).await.map_err(connect)?;
        tcp.set_nodelay(true).map_err(connect)?;
        let claim = Claim { attempt: self.attempt, from: self.rank, to };
        tcp.write_all(&encode(claim)).await.map_err(TlsError::Broken)?;

        let pinned = Pinned::new(&self.provider, self.keyring.public(to, self.attempt));
        let mut config = ClientConfig::builder_with_provider(self.provider.clone())
            .with_protocol_versions(&[&TLS13])
            .expect("the provider's suites are TLS 1.3")
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(pinned))
            .with_client_cert_resolver(Arc::new(AlwaysResolvesClientRawPublicKeys::new(
                self.own.clone(),
            )));
        config.resumption = rustls::client::Resumption::disabled();
        config.enable_sni = false;
        // The name takes no part in the proof; a constant keeps ranks out of the clear.
        let name = ServerName::try_from("broker").expect("it is a valid name");
        let stream = TlsConnector::from(Arc::new(config)).connect(name, tcp).await;
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

    /// Takes a connection: gives the stream and the rank that the caller has proved to be.
    pub async fn accept(&self, mut tcp: TcpStream) -> Result<(Stream, u32), TlsError> {
        tcp.set_nodelay(true).map_err(TlsError::Broken)?;
        let mut preamble = [0; PREAMBLE_LENGTH];
        tcp.read_exact(&mut preamble).await.map_err(TlsError::Broken)?;
        let claim = decode(&preamble).ok_or(TlsError::NotABroker)?;
        if claim.to != self.rank {
            return Err(TlsError::Misled { from: claim.from, to: claim.to });
        }
        let current = claim.attempt == self.attempt;
        let own = if current {
            self.own.clone()
        } else {
            certified(&self.keyring, self.rank, claim.attempt)
        };
        let mut pinned =
            Pinned::new(&self.provider, self.keyring.public(claim.from, claim.attempt));
        pinned.admit = current;
        let mut config = ServerConfig::builder_with_provider(self.provider.clone())
            .with_protocol_versions(&[&TLS13])
            .expect("the provider's suites are TLS 1.3")
            .with_client_cert_verifier(Arc::new(pinned))
            .with_cert_resolver(Arc::new(AlwaysResolvesServerRawPublicKeys::new(own)));
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
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
        Ok((stream, from))
    }
}

fn encode(claim: Claim) -> [u8; PREAMBLE_LENGTH] {
    let mut bytes = [0; PREAMBLE_LENGTH];
    bytes[..4].copy_from_slice(&MAGIC);
    bytes[4..8].copy_from_slice(&claim.attempt.to_be_bytes());
    bytes[8..12].copy_from_slice(&claim.from.to_be_bytes());
    bytes[12..].copy_from_slice(&claim.to.to_be_bytes());
    bytes
}

fn decode(bytes: &[u8; PREAMBLE_LENGTH]) -> Option<Claim> {
    let number = |at: usize| {
        u32::from_be_bytes(bytes[at..at + 4].try_into().expect("the slice has four bytes"))
    };
    (bytes[..4] == MAGIC).then(|| Claim { attempt: number(4), from: number(8), to: number(12) })
}

fn certified(keyring: &Keyring, rank: u32, attempt: u32) -> Arc<CertifiedKey> {
    let secret = keyring.pkcs8(rank, attempt);
    let key = provider::sign::any_eddsa_type(&PrivatePkcs8KeyDer::from(secret.as_slice()))
        .expect("the derived key is an Ed25519 key");
    let public = CertificateDer::from(keyring.public(rank, attempt).to_vec());
    Arc::new(CertifiedKey::new(vec![public], key))
}

/// What a failed handshake comes down to.
enum Cause {
    /// We found that the peer's key is not the pinned one.
    WrongKey,
    /// The peer has the pinned key, of an attempt that is not ours.
    NotAdmitted,
    /// The peer sent an alert.
    Alert(AlertDescription),
    Other,
}

fn cause(error: &io::Error) -> Cause {
    let inner = error.get_ref().and_then(|e| e.downcast_ref::<rustls::Error>());
    match inner {
        Some(rustls::Error::InvalidCertificate(CertificateError::Expired)) => Cause::NotAdmitted,
        Some(rustls::Error::InvalidCertificate(_)) => Cause::WrongKey,
        Some(rustls::Error::AlertReceived(alert)) => Cause::Alert(*alert),
        _ => Cause::Other,
    }
}

/// Accepts one public key only.
#[derive(Debug)]
struct Pinned {
    expected: Spki,
    algorithms: WebPkiSupportedAlgorithms,
    /// False for other attempts: the right key is proved and then refused, as an expired one.
    admit: bool,
}

impl Pinned {
    fn new(provider: &CryptoProvider, expected: Spki) -> Self {
        Self { expected, algorithms: provider.signature_verification_algorithms, admit: true }
    }

    fn check(&self, presented: &CertificateDer<'_>) -> Result<(), rustls::Error> {
        if presented.as_ref() == self.expected {
            Ok(())
        } else {
            Err(CertificateError::ApplicationVerificationFailure.into())
        }
    }

    fn verify(
        &self,
        message: &[u8],
        key: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let key = SubjectPublicKeyInfoDer::from(key.as_ref());
        let valid = rustls::crypto::verify_tls13_signature_with_raw_key(
            message,
            &key,
            signature,
            &self.algorithms,
        )?;
        if self.admit { Ok(valid) } else { Err(CertificateError::Expired.into()) }
    }
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        self.check(end_entity).map(|()| ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Err(rustls::PeerIncompatible::Tls12NotOffered.into())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        key: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.verify(message, key, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}

impl ClientCertVerifier for Pinned {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        self.check(end_entity).map(|()| ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Err(rustls::PeerIncompatible::Tls12NotOffered.into())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        key: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.verify(message, key, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests;
