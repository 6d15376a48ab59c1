//! Keys of a cluster's brokers and of those who watch it, all derived from the cluster's seed
//! (`docs/spec/handshake.md`).
//!
//! An Ed25519 secret is HKDF-SHA256 (RFC 5869) over the seed: for a rank with (rank, attempt,
//! cluster UID) as info, for the two ends of the status channel with (role, cluster UID). Whoever
//! has the seed can compute every key: the pods of a cluster and its controller are one trust
//! domain. Keys of ranks differ by attempt, so a straggler of an earlier attempt cannot pass for a
//! member of this one. This module derives; it must not know sockets or TLS.

use ring::hkdf;
use ring::signature::{Ed25519KeyPair, KeyPair};
use std::fmt;
use zeroize::Zeroizing;

/// The bytes of a seed.
pub const SEED_LENGTH: usize = 32;

/// Separates keys of ranks from all others that are derived from the same seed.
const RANK_SALT: &[u8] = b"quorate overlay keys v1";
/// The same for the status channel.
const OBSERVE_SALT: &[u8] = b"quorate observe keys v1";

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

/// The cluster's secret: 32 random bytes. Wiped from memory when dropped; it has no printable
/// form.
#[derive(Clone, PartialEq, Eq)]
pub struct Seed(Zeroizing<[u8; SEED_LENGTH]>);

impl Seed {
    /// Takes bytes from the caller's random source, or from the file that holds them.
    pub fn new(bytes: [u8; SEED_LENGTH]) -> Self {
        Self(Zeroizing::new(bytes))
    }

    /// The secret itself, for the one object that carries it and for key derivation.
    pub fn bytes(&self) -> &[u8; SEED_LENGTH] {
        &self.0
    }
}

impl fmt::Debug for Seed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Seed(redacted)")
    }
}

/// Whose key it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holder {
    /// A broker.
    Rank {
        /// Its rank.
        rank: u32,
        /// Its restart attempt.
        attempt: u32,
    },
    /// Who asks for the cluster's status.
    Observer,
    /// The broker that is asked, whatever its rank and attempt: the answer says both.
    Observed,
}

impl Holder {
    /// What stands for a role before the cluster's UID.
    fn role(self) -> u32 {
        match self {
            Self::Rank { .. } => 0,
            Self::Observer => 1,
            Self::Observed => 2,
        }
    }
}

/// Derives the keys of one cluster.
#[derive(Clone)]
pub struct Keyring {
    ranks: hkdf::Prk,
    observe: hkdf::Prk,
    cluster: String,
}

impl fmt::Debug for Keyring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Keyring({}, redacted)", self.cluster)
    }
}

impl Keyring {
    /// The keys of the cluster with this UID.
    pub fn new(seed: &Seed, cluster_uid: &str) -> Self {
        let root = |salt| hkdf::Salt::new(hkdf::HKDF_SHA256, salt).extract(seed.bytes());
        Self {
            ranks: root(RANK_SALT),
            observe: root(OBSERVE_SALT),
            cluster: cluster_uid.to_owned(),
        }
    }

    /// A public key.
    pub fn public(&self, holder: Holder) -> Spki {
        let secret = self.secret(holder);
        let pair = Ed25519KeyPair::from_seed_unchecked(secret.as_slice())
            .expect("any 32 bytes are an Ed25519 secret");
        let mut spki = [0; SPKI_LENGTH];
        spki[..SPKI_HEAD.len()].copy_from_slice(&SPKI_HEAD);
        spki[SPKI_HEAD.len()..].copy_from_slice(pair.public_key().as_ref());
        spki
    }

    /// A key pair in PKCS #8 form.
    pub fn pkcs8(&self, holder: Holder) -> Zeroizing<Vec<u8>> {
        let secret = self.secret(holder);
        let mut der = Zeroizing::new(Vec::with_capacity(PKCS8_HEAD.len() + 32));
        der.extend_from_slice(&PKCS8_HEAD);
        der.extend_from_slice(secret.as_slice());
        der
    }

    fn secret(&self, holder: Holder) -> Zeroizing<[u8; 32]> {
        // The UID comes last: what is before it has a fixed length, so no two inputs collide.
        match holder {
            Holder::Rank { rank, attempt } => {
                self.expand(&self.ranks, &[&rank.to_be_bytes(), &attempt.to_be_bytes()])
            }
            Holder::Observer | Holder::Observed => {
                self.expand(&self.observe, &[&holder.role().to_be_bytes()])
            }
        }
    }

    fn expand(&self, root: &hkdf::Prk, before: &[&[u8]]) -> Zeroizing<[u8; 32]> {
        let mut info = before.to_vec();
        info.push(self.cluster.as_bytes());
        let mut secret = Zeroizing::new([0; 32]);
        root.expand(&info, hkdf::HKDF_SHA256)
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

    fn rank(rank: u32, attempt: u32) -> Holder {
        Holder::Rank { rank, attempt }
    }

    #[test]
    fn keys_differ_by_seed_cluster_rank_and_attempt() {
        let base = keyring(1, "u").public(rank(3, 0));
        assert_eq!(base, keyring(1, "u").public(rank(3, 0)));
        assert_ne!(base, keyring(2, "u").public(rank(3, 0)));
        assert_ne!(base, keyring(1, "v").public(rank(3, 0)));
        assert_ne!(base, keyring(1, "u").public(rank(4, 0)));
        assert_ne!(base, keyring(1, "u").public(rank(3, 1)));
    }

    #[test]
    fn the_ends_of_the_status_channel_have_keys_of_their_own() {
        let ring = keyring(1, "u");
        let all = [Holder::Observer, Holder::Observed, rank(1, 0), rank(2, 0), rank(0, 0)];
        for (at, one) in all.iter().enumerate() {
            for other in &all[at + 1..] {
                assert_ne!(ring.public(*one), ring.public(*other), "{one:?} {other:?}");
            }
        }
        assert_ne!(ring.public(Holder::Observer), keyring(2, "u").public(Holder::Observer));
        assert_ne!(ring.public(Holder::Observer), keyring(1, "v").public(Holder::Observer));
    }

    /// Expected keys were computed once by independent code after RFC 5869 and RFC 8032: pods of
    /// one cluster may run different builds of the agent, and the controller is another one yet.
    fn assert_golden(holder: Holder, golden: &str) {
        let spki = keyring(7, "6f9619ff-8b86-d011-b42d-00c04fc964ff").public(holder);
        let number = |text: &str| u128::from_str_radix(text, 16).unwrap().to_be_bytes();
        let expected = [number(&golden[..32]), number(&golden[32..])].concat();
        assert_eq!(&spki[SPKI_HEAD.len()..], expected, "{holder:?}");
    }

    #[test]
    fn the_derivation_does_not_change_between_versions() {
        let golden = "d16cc36a8ca2a014800975b60f14cdfe16b659b72a4b734dd50a896a51f9f77e";
        assert_golden(rank(5, 2), golden);
        assert_golden(
            Holder::Observer,
            "27847b185beb86d13e35bc2b6d81f73d91a5b350410ab0c4c0406910365d50d4",
        );
        assert_golden(
            Holder::Observed,
            "6e61943a799e151ada50060293680dd2f69a841a48ae0accb8c9f504ab28e0ca",
        );
    }

    #[test]
    fn secrets_have_no_printable_form() {
        assert_eq!(format!("{:?}", keyring(7, "u")), "Keyring(u, redacted)");
        assert_eq!(format!("{:?}", Seed::new([7; 32])), "Seed(redacted)");
    }
}
