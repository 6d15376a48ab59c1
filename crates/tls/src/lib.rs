//! TLS 1.3 with raw public keys on both sides (RFC 8446, RFC 7250), each side pinning the one key
//! that it expects (`docs/spec/handshake.md`).
//!
//! Owns: which suites are spoken, how a derived key becomes a TLS identity, and what a failed
//! handshake comes down to. It opens no socket and runs no handshake: agents and the controller
//! take the configurations from here and do so themselves.

#![forbid(unsafe_code)]

mod cause;
mod pinned;

pub use cause::{Cause, cause};
pub use pinned::Pinned;

use quorate_contract::keys::{Holder, Keyring};
use rustls::client::AlwaysResolvesClientRawPublicKeys;
use rustls::crypto::{CryptoProvider, ring as provider};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName};
use rustls::server::{AlwaysResolvesServerRawPublicKeys, NoServerSessionStorage};
use rustls::sign::CertifiedKey;
use rustls::version::TLS13;
use rustls::{ClientConfig, ServerConfig};
use std::sync::Arc;

/// One side of the handshake: the suites that are spoken and the key that is shown.
#[derive(Clone, Debug)]
pub struct Identity {
    provider: Arc<CryptoProvider>,
    key: Arc<CertifiedKey>,
}

impl Identity {
    /// The identity of a holder.
    pub fn new(keyring: &Keyring, holder: Holder) -> Self {
        let mut provider = provider::default_provider();
        provider.cipher_suites = vec![
            provider::cipher_suite::TLS13_AES_128_GCM_SHA256,
            provider::cipher_suite::TLS13_CHACHA20_POLY1305_SHA256,
        ];
        provider.kx_groups = vec![provider::kx_group::X25519];
        Self { provider: Arc::new(provider), key: certified(keyring, holder) }
    }

    /// The same suites with the key of another holder.
    #[must_use]
    pub fn other(&self, keyring: &Keyring, holder: Holder) -> Self {
        Self { provider: self.provider.clone(), key: certified(keyring, holder) }
    }

    /// For the side that dials. Nothing is resumed, so each connection proves its keys anew.
    pub fn client(&self, peer: Pinned) -> ClientConfig {
        let mut config = ClientConfig::builder_with_provider(self.provider.clone())
            .with_protocol_versions(&[&TLS13])
            .expect("the provider's suites are TLS 1.3")
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(peer))
            .with_client_cert_resolver(Arc::new(AlwaysResolvesClientRawPublicKeys::new(
                self.key.clone(),
            )));
        config.resumption = rustls::client::Resumption::disabled();
        config.enable_sni = false;
        config
    }

    /// For the side that accepts.
    pub fn server(&self, peer: Pinned) -> ServerConfig {
        let mut config = ServerConfig::builder_with_provider(self.provider.clone())
            .with_protocol_versions(&[&TLS13])
            .expect("the provider's suites are TLS 1.3")
            .with_client_cert_verifier(Arc::new(peer))
            .with_cert_resolver(Arc::new(AlwaysResolvesServerRawPublicKeys::new(self.key.clone())));
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        config
    }
}

/// The name that dialing sides give. It takes no part in the proof and is not sent; a constant
/// keeps ranks out of the clear.
pub fn server_name() -> ServerName<'static> {
    ServerName::try_from("broker").expect("it is a valid name")
}

fn certified(keyring: &Keyring, holder: Holder) -> Arc<CertifiedKey> {
    let secret = keyring.pkcs8(holder);
    let key = provider::sign::any_eddsa_type(&PrivatePkcs8KeyDer::from(secret.as_slice()))
        .expect("the derived key is an Ed25519 key");
    let public = CertificateDer::from(keyring.public(holder).to_vec());
    Arc::new(CertifiedKey::new(vec![public], key))
}
