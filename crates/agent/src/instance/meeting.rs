//! How the brokers of an instance find each other: what each tells the others, and what all know
//! then. The words that travel are plain: fields apart by commas, none of which has one in it.

use super::pmi::{Pmi, PmiError};
use quorate_contract::keys::SEED_LENGTH;
use std::collections::HashSet;
use std::fmt::Write;
use std::net::SocketAddr;
use zeroize::Zeroizing;

/// Bytes of an instance's name that nobody else has.
const UID: usize = 16;
/// Bytes that rank 0 makes at random: the instance's name and its seed.
pub(super) const SECRET: usize = UID + SEED_LENGTH;

/// Why there was no meeting.
#[derive(Debug, thiserror::Error)]
pub(super) enum MeetingError {
    /// The server of process management failed.
    #[error("the tasks could not talk to each other")]
    Pmi(#[from] PmiError),
    /// A task told something else than a broker of an instance does.
    #[error("task {rank} told {text:?}, which no broker of this version does")]
    Unreadable {
        /// The task.
        rank: u32,
        /// What it told.
        text: String,
    },
}

/// What a broker tells the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Member {
    /// Where it listens.
    pub(super) address: SocketAddr,
    /// How people call its pod.
    pub(super) display: String,
    /// The pod's DNS name.
    pub(super) host: String,
    /// Equal for brokers that share a host's processes.
    pub(super) place: String,
}

impl Member {
    fn tell(&self) -> String {
        let plain = |text: &str| {
            let keep = |c: &char| c.is_ascii_graphic() && *c != ',';
            text.chars().filter(keep).collect::<String>()
        };
        let Self { address, display, host, place } = self;
        format!("{address},{},{},{}", plain(display), plain(host), plain(place))
    }

    fn hear(text: &str) -> Option<Self> {
        let mut words = text.split(',');
        let mut word = || words.next().map(str::to_owned);
        let (address, display, host, place) = (word()?, word()?, word()?, word()?);
        Some(Self { address: address.parse().ok()?, display, host, place })
    }
}

/// What all brokers know once they have met.
#[derive(Debug)]
pub(super) struct Meeting {
    /// The instance's name that nobody else has: lowercase hexadecimal.
    pub(super) uid: String,
    /// The seed of its keys.
    pub(super) seed: Zeroizing<[u8; SEED_LENGTH]>,
    /// All brokers by rank.
    pub(super) members: Vec<Member>,
}

impl Meeting {
    /// Of one broker.
    pub(super) fn alone(own: Member, secret: &[u8]) -> Self {
        Self::of(secret, vec![own])
    }

    fn of(secret: &[u8], mut members: Vec<Member>) -> Self {
        name_apart(&mut members);
        let (uid, seed) = secret.split_at(UID);
        let mut bytes = Zeroizing::new([0; SEED_LENGTH]);
        bytes.copy_from_slice(seed);
        Self { uid: hex(uid), seed: bytes, members }
    }

    /// The address book: a line for each rank.
    pub(super) fn book(&self) -> String {
        let mut book = String::new();
        for (rank, member) in self.members.iter().enumerate() {
            let _ = writeln!(book, "{rank} {}", member.address);
        }
        book
    }

    /// Whether any two brokers share a host.
    pub(super) fn shared_host(&self) -> bool {
        let places: HashSet<&str> = self.members.iter().map(|m| m.place.as_str()).collect();
        places.len() < self.members.len()
    }
}

/// Tells the others of this broker and hears of them. `secret` is rank 0's.
pub(super) fn meet(
    pmi: &mut Pmi,
    own: &Member,
    secret: Option<&[u8]>,
) -> Result<Meeting, MeetingError> {
    pmi.put(&key(pmi.rank), &own.tell())?;
    if let Some(secret) = secret {
        pmi.put("quorate-secret", &Zeroizing::new(hex(secret)))?;
    }
    pmi.barrier()?;
    let mut members = Vec::new();
    for rank in 0..pmi.size {
        let text = pmi.get(&key(rank))?;
        members.push(Member::hear(&text).ok_or(MeetingError::Unreadable { rank, text })?);
    }
    let text = Zeroizing::new(pmi.get("quorate-secret")?);
    let secret = unhex(&text).filter(|bytes| bytes.len() == SECRET);
    let unreadable = || MeetingError::Unreadable { rank: 0, text: "a seed that is none".into() };
    let secret = secret.ok_or_else(unreadable)?;
    pmi.finalize()?;
    Ok(Meeting::of(&secret, members))
}

/// Gives brokers of one host names of their own: ranks of MPI programs know nodes by them.
fn name_apart(members: &mut [Member]) {
    let mut known = HashSet::new();
    for (rank, member) in members.iter_mut().enumerate() {
        if !known.insert(member.host.clone()) {
            let (label, rest) = match member.host.split_once('.') {
                Some((label, rest)) => (label, format!(".{rest}")),
                None => (member.host.as_str(), String::new()),
            };
            member.host = format!("{label}-{rank}{rest}");
            member.display = format!("{}-{rank}", member.display);
        }
    }
}

fn key(rank: u32) -> String {
    format!("quorate-{rank}")
}

fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

fn unhex(text: &str) -> Option<Zeroizing<Vec<u8>>> {
    let pairs = text.as_bytes().chunks(2).map(|pair| {
        let pair = std::str::from_utf8(pair).ok().filter(|pair| pair.len() == 2)?;
        u8::from_str_radix(pair, 16).ok()
    });
    pairs.collect::<Option<Vec<u8>>>().map(Zeroizing::new)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(place: &str) -> Member {
        Member {
            address: "[fd00::1]:5000".parse().unwrap(),
            display: "worker-0-1".into(),
            host: "t-worker-0-1.t.lab.svc.cluster.local".into(),
            place: place.into(),
        }
    }

    #[test]
    fn what_is_told_is_heard() {
        let told = member("boot/pid:[4026531836]");
        assert_eq!(Member::hear(&told.tell()), Some(told.clone()));
        assert!(!told.tell().contains(' '), "PMI-1 ends a value at a space");
        assert!(told.tell().len() < 512, "servers bound a value");
        assert_eq!(Member::hear("10.0.0.1:5,a,b"), None);
        assert_eq!(Member::hear("here,a,b,c"), None);
    }

    #[test]
    fn a_meeting_names_the_instance_and_knows_who_shares_a_host() {
        let secret: Vec<u8> = (0..u8::try_from(SECRET).unwrap()).collect();
        let meeting = Meeting::of(&secret, vec![member("a"), member("b")]);
        assert_eq!(meeting.uid, "000102030405060708090a0b0c0d0e0f");
        assert_eq!(meeting.seed[0], 16);
        assert!(!meeting.shared_host());
        assert_eq!(meeting.book(), "0 [fd00::1]:5000\n1 [fd00::1]:5000\n");
        assert!(Meeting::of(&secret, vec![member("a"), member("a")]).shared_host());
        let hosts: Vec<_> = meeting.members.iter().map(|member| member.host.as_str()).collect();
        assert_eq!(
            hosts,
            ["t-worker-0-1.t.lab.svc.cluster.local", "t-worker-0-1-1.t.lab.svc.cluster.local"]
        );
        assert_eq!(unhex(&hex(&secret)).unwrap().as_slice(), secret);
        assert!(unhex("0g").is_none() && unhex("abc").is_none());
    }
}
