//! Each rank's key pair, derived from the cluster's seed (`docs/spec/overlay.md`, security).
//!
//! The Ed25519 secret of a rank is HKDF-SHA256 (RFC 5869) over the seed, with the protocol's name
//! as salt and (cluster UID, rank, attempt) as info. Whoever has the seed can compute every key:
//! all pods of a cluster are one trust domain. Keys differ by attempt, so a straggler of an
//! earlier attempt cannot pass for a member of this one.

use crate::settings::Seed;
use ring::hkdf;
use ring::signature::{Ed25519KeyPair, KeyPair};
use zeroize::Zeroizing;

/// Separates these keys from all others that may be derived from the same seed.
const SALT: &[u8] = b"quorate overlay keys v1";

/// The DER head of an Ed25519 SubjectPublicKeyInfo (RFC 8410 section 4); the key follows.
const SPKI_HEAD: [u8; 12] =
    [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];

/// The DER head of an Ed25519 PKCS #8 private key (RFC 8410 section 7); the secret follows.
const PKCS8_HEAD: [u8; 16] = [
    0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20,
];

/// The bytes of a public key in its DER form.
pub const SPKI_LENGTH: usize = SPKI_HEAD.len() + 32;

/// A public key as it travels in the handshake.
pub type Spki = [u8; SPKI_LENGTH];

/// Derives the keys of a cluster's ranks.
#[derive(Clone)]
pub struct Keyring {
    root: hkdf::Prk,
    cluster: String,
}

impl std::fmt::Debug for Keyring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Keyring({}, redacted)", self.cluster)
    }
}

impl Keyring {
    /// The keys of the cluster with this UID.
    pub fn new(seed: &Seed, cluster_uid: &str) -> Self {
        let root = hkdf::Salt::new(hkdf::HKDF_SHA256, SALT).extract(seed.expose());
        Self { root, cluster: cluster_uid.to_owned() }
    }

    /// A rank's public key.
    pub fn public(&self, rank: u32, attempt: u32) -> Spki {
        let secret = self.secret(rank, attempt);
        let pair = Ed25519KeyPair::from_seed_unchecked(secret.as_slice())
            .expect("any 32 bytes are an Ed25519 secret");
        let mut spki = [0; SPKI_LENGTH];
        spki[..SPKI_HEAD.len()].copy_from_slice(&SPKI_HEAD);
        spki[SPKI_HEAD.len()..].copy_from_slice(pair.public_key().as_ref());
        spki
    }

    /// A rank's key pair in PKCS #8 form.
    pub fn pkcs8(&self, rank: u32, attempt: u32) -> Zeroizing<Vec<u8>> {
        let secret = self.secret(rank, attempt);
        let mut der = Zeroizing::new(Vec::with_capacity(PKCS8_HEAD.len() + 32));
        der.extend_from_slice(&PKCS8_HEAD);
        der.extend_from_slice(secret.as_slice());
        der
    }

    fn secret(&self, rank: u32, attempt: u32) -> Zeroizing<[u8; 32]> {
        let (rank, attempt) = (rank.to_be_bytes(), attempt.to_be_bytes());
        // The UID comes last: the other two have a fixed length, so no two inputs collide.
        let info: [&[u8]; 3] = [&rank, &attempt, self.cluster.as_bytes()];
        let mut secret = Zeroizing::new([0; 32]);
        self.root
            .expand(&info, hkdf::HKDF_SHA256)
            .and_then(|okm| okm.fill(secret.as_mut_slice()))
            .expect("32 bytes are the output length of SHA-256");
        secret
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keyring(seed: u8, uid: &str) -> Keyring {
        Keyring::new(&Seed::new([seed; 32]), uid)
    }

    #[test]
    fn keys_differ_by_seed_cluster_rank_and_attempt() {
        let base = keyring(1, "u").public(3, 0);
        assert_eq!(base, keyring(1, "u").public(3, 0));
        assert_ne!(base, keyring(2, "u").public(3, 0));
        assert_ne!(base, keyring(1, "v").public(3, 0));
        assert_ne!(base, keyring(1, "u").public(4, 0));
        assert_ne!(base, keyring(1, "u").public(3, 1));
    }

    #[test]
    fn the_derivation_does_not_change_between_versions() {
        // Computed once by independent code after RFC 5869 and RFC 8032:
        // pods of one cluster may run different builds of the agent.
        let spki = keyring(7, "6f9619ff-8b86-d011-b42d-00c04fc964ff").public(5, 2);
        let key = u128::from_str_radix(&GOLDEN[..32], 16).unwrap().to_be_bytes();
        assert_eq!(spki[SPKI_HEAD.len()..][..16], key);
        let key = u128::from_str_radix(&GOLDEN[32..], 16).unwrap().to_be_bytes();
        assert_eq!(spki[SPKI_HEAD.len()..][16..], key);
    }

    const GOLDEN: &str = "d16cc36a8ca2a014800975b60f14cdfe16b659b72a4b734dd50a896a51f9f77e";

    #[test]
    fn the_key_ring_has_no_printable_form() {
        assert_eq!(format!("{:?}", keyring(7, "u")), "Keyring(u, redacted)");
    }
}
