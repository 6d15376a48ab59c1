//! Names to addresses, without the C library: a static binary may not use it, and its negative
//! caching would hide pods that have just come.
//!
//! Each look-up reads `/etc/hosts` and `/etc/resolv.conf` anew (they are small, and a kubelet may
//! write them late), and keeps nothing. "No such name" means "not yet": a broker mostly starts before
//! others can know the address of its parent. So it asks again at short intervals, and for nothing but
//! whether the name is there ([`Family::Presence`]), each time in words that no cache has heard yet: a
//! server's memory of the name's absence would hide it for seconds, from all that ask. Only then A and
//! AAAA are asked for, in a [`Form`] of which nobody can have kept an absence.

use super::dns::{self, Answer, Family, Form};
use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};
use tokio::time::{Instant, sleep, timeout};

mod files;

pub use files::{ResolvConf, hosts_lookup};

/// The longest wait for one server, whatever resolv.conf says: the caller tries again anyway.
const WAIT_LIMIT: Duration = Duration::from_secs(2);
/// The same when it was only asked whether a name is there: the next question is better than a long wait.
const PRESENCE_WAIT: Duration = Duration::from_millis(200);
/// What of the time waited so far a name may be found late by.
const LATENESS: u32 = 20;

/// One rank's names, in the order in which they are tried after the hosts file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Names {
    /// The full name without the final dot; asked for as it stands.
    pub full: String,
    /// The name within the namespace; completed by the search list.
    pub service: String,
    /// The short host name; looked for in the hosts file only.
    pub host: String,
}

/// Why there is no address.
#[derive(Debug, thiserror::Error)]
pub enum ResolveError {
    /// No server knows the name now.
    #[error("the name {name} has no address yet")]
    NotYet {
        /// The full name.
        name: String,
    },
    /// No server answered.
    #[error("no name server answered for {name} ({last})")]
    NoServer {
        /// The full name.
        name: String,
        /// What went wrong with the last one.
        last: String,
    },
}

/// How often a name that is not there yet is asked for: soon again at first, then in proportion to the time
/// that it has been missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// The shortest wait between two questions.
    pub shortest: Duration,
    /// The longest.
    pub longest: Duration,
    /// After so long without the name the caller is told that there is none yet.
    pub patience: Duration,
}

impl Pace {
    /// The wait before the next question about a name that has been missing for so long.
    fn pause(&self, missing: Duration) -> Duration {
        (missing / LATENESS).clamp(self.shortest, self.longest.max(self.shortest))
    }
}

/// Looks names up.
#[derive(Clone, Debug)]
pub struct Resolver {
    hosts: PathBuf,
    resolv_conf: PathBuf,
    /// Look-ups for addresses, and questions for presence, so far.
    turns: Arc<AtomicU8>,
    questions: Arc<AtomicU8>,
    /// Names that are waited for, and since when.
    missing: Arc<Mutex<HashMap<String, Instant>>>,
}

impl Default for Resolver {
    fn default() -> Self {
        Self::new("/etc/hosts", "/etc/resolv.conf")
    }
}

/// What is known of a name without asking for its addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Presence {
    There,
    Absent,
    /// No server can tell.
    Unknown,
}

/// What one server said about one name, both families together.
enum Verdict {
    Found(Vec<IpAddr>),
    None,
    Failed(String),
}

impl Resolver {
    /// A resolver that reads these files.
    pub fn new(hosts: impl Into<PathBuf>, resolv_conf: impl Into<PathBuf>) -> Self {
        // Brokers that start together must not all put their questions in the same words.
        let first = random_id().map_or(0, |id| id.to_be_bytes()[0]);
        Self {
            hosts: hosts.into(),
            resolv_conf: resolv_conf.into(),
            turns: Arc::default(),
            questions: Arc::new(AtomicU8::new(first)),
            missing: Arc::default(),
        }
    }

    /// A rank's addresses, IPv4 first, never empty. Waits for a name that is not there yet.
    pub async fn resolve(&self, names: &Names, pace: Pace) -> Result<Vec<IpAddr>, ResolveError> {
        let read = || {
            let conf = std::fs::read_to_string(&self.resolv_conf).unwrap_or_default();
            (self.in_hosts(names), ResolvConf::parse(&conf))
        };
        self.wait(names, pace, read).await
    }

    /// Waits for a name by what the two files say at each time.
    async fn wait(
        &self,
        names: &Names,
        pace: Pace,
        read: impl Fn() -> (Option<Vec<IpAddr>>, ResolvConf),
    ) -> Result<Vec<IpAddr>, ResolveError> {
        let now = Instant::now();
        let since = *self.waited_for().entry(names.full.clone()).or_insert(now);
        let found = loop {
            let (found, conf) = read();
            if let Some(found) = found {
                break Ok(found);
            }
            match self.presence(&conf, names).await {
                // Nobody asked for its addresses before it was there.
                Presence::There => break look_up(&conf, names, &FRESH_FORMS).await,
                // A server may know nothing of such questions.
                Presence::Unknown => {
                    let turn = self.turns.fetch_add(1, Ordering::Relaxed);
                    break look_up(&conf, names, &[Form::of_turn(turn)]).await;
                }
                // Or take a name without such records for one that is not there.
                Presence::Absent if now.elapsed() >= pace.patience => {
                    break look_up(&conf, names, &[Form::default()]).await;
                }
                Presence::Absent => sleep(pace.pause(since.elapsed())).await,
            }
        };
        if found.is_ok() {
            self.waited_for().remove(&names.full);
        }
        found
    }

    fn waited_for(&self) -> std::sync::MutexGuard<'_, HashMap<String, Instant>> {
        self.missing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn in_hosts(&self, names: &Names) -> Option<Vec<IpAddr>> {
        let hosts = std::fs::read_to_string(&self.hosts).unwrap_or_default();
        let names = [&names.full, &names.service, &names.host];
        names.iter().map(|name| hosts_lookup(&hosts, name)).find(|found| !found.is_empty())
    }

    /// Whether there is a full name, by our own guess of the domain or by that of resolv.conf.
    async fn presence(&self, conf: &ResolvConf, names: &Names) -> Presence {
        let family = Family::Presence(self.questions.fetch_add(1, Ordering::Relaxed));
        let completed = conf.candidates(&names.service).into_iter().next();
        let own = presence(conf, &names.full, family);
        match completed.filter(|completed| *completed != names.full) {
            None => own.await,
            Some(completed) => match tokio::join!(own, presence(conf, &completed, family)) {
                (Presence::There, _) | (_, Presence::There) => Presence::There,
                (Presence::Absent, _) | (_, Presence::Absent) => Presence::Absent,
                (Presence::Unknown, Presence::Unknown) => Presence::Unknown,
            },
        }
    }
}

/// The forms for a name that is there, the plain one last: it alone may have been used before.
const FRESH_FORMS: [Form; 4] = [
    Form { checking_disabled: true, dnssec_ok: false },
    Form { checking_disabled: false, dnssec_ok: true },
    Form { checking_disabled: true, dnssec_ok: true },
    Form { checking_disabled: false, dnssec_ok: false },
];

/// Asks for the addresses of all candidates, in one form after the other until there is one.
async fn look_up(
    conf: &ResolvConf,
    names: &Names,
    forms: &[Form],
) -> Result<Vec<IpAddr>, ResolveError> {
    let mut candidates = vec![names.full.clone()];
    for candidate in conf.candidates(&names.service) {
        if !candidates.contains(&candidate) {
            candidates.push(candidate);
        }
    }
    let mut failure = None;
    let mut answered = false;
    for &form in forms {
        for candidate in &candidates {
            match ask_servers(conf, candidate, form).await {
                Verdict::Found(addresses) => return Ok(addresses),
                Verdict::None => answered = true,
                Verdict::Failed(why) => failure = Some(why),
            }
        }
    }
    let name = names.full.clone();
    match failure {
        Some(last) if !answered => Err(ResolveError::NoServer { name, last }),
        _ => Err(ResolveError::NotYet { name }),
    }
}

/// Asks one server after the other, once, whether there is a name.
async fn presence(conf: &ResolvConf, name: &str, family: Family) -> Presence {
    for &server in &conf.servers {
        match ask_family(server, name, family, Form::default(), PRESENCE_WAIT).await {
            Ok(Answer::Addresses(_)) => return Presence::There,
            Ok(Answer::NoName) => return Presence::Absent,
            Ok(Answer::Failed(_) | Answer::Truncated) | Err(_) => {}
        }
    }
    Presence::Unknown
}

/// Asks one server after the other, `attempts` times around, until one can tell.
async fn ask_servers(conf: &ResolvConf, name: &str, form: Form) -> Verdict {
    let mut last = "resolv.conf names no server".to_owned();
    for _ in 0..conf.attempts {
        for &server in &conf.servers {
            match ask(server, name, form, conf.timeout.min(WAIT_LIMIT)).await {
                Verdict::Failed(why) => last = format!("{server}: {why}"),
                verdict => return verdict,
            }
        }
    }
    Verdict::Failed(last)
}

async fn ask(server: SocketAddr, name: &str, form: Form, wait: Duration) -> Verdict {
    let (v4, v6) = tokio::join!(
        ask_family(server, name, Family::V4, form, wait),
        ask_family(server, name, Family::V6, form, wait)
    );
    let mut failure = None;
    let mut found = Vec::new();
    for outcome in [v4, v6] {
        match outcome {
            Ok(Answer::Addresses(addresses)) => found.extend(addresses),
            Ok(Answer::NoName) => {}
            Ok(Answer::Failed(code)) => failure = Some(format!("answer code {code}")),
            Ok(Answer::Truncated) => failure = Some("truncated over TCP".to_owned()),
            Err(error) => failure = Some(error.to_string()),
        }
    }
    match failure {
        _ if !found.is_empty() => Verdict::Found(found),
        Some(why) => Verdict::Failed(why),
        None => Verdict::None,
    }
}

async fn ask_family(
    server: SocketAddr,
    name: &str,
    family: Family,
    form: Form,
    wait: Duration,
) -> io::Result<Answer> {
    let late = |_| io::Error::from(io::ErrorKind::TimedOut);
    match timeout(wait, ask_udp(server, name, family, form)).await.map_err(late)?? {
        Answer::Truncated => {
            timeout(wait, ask_tcp(server, name, family, form)).await.map_err(late)?
        }
        answer => Ok(answer),
    }
}

async fn ask_udp(server: SocketAddr, name: &str, family: Family, form: Form) -> io::Result<Answer> {
    let local: SocketAddr = match server {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    // A fresh port and a random id for each question; a connected socket takes answers of this
    // server only.
    let socket = UdpSocket::bind(local).await?;
    socket.connect(server).await?;
    let id = random_id()?;
    let question = dns::question(id, name, family, form).map_err(io::Error::other)?;
    socket.send(&question).await?;
    let mut buffer = [0; dns::UDP_LIMIT];
    loop {
        let length = socket.recv(&mut buffer).await?;
        // What is no answer to our question may be a late or forged one: wait for the right one.
        if let Ok(answer) = dns::answer(&buffer[..length], id, name, family) {
            return Ok(answer);
        }
    }
}

async fn ask_tcp(server: SocketAddr, name: &str, family: Family, form: Form) -> io::Result<Answer> {
    let mut stream = TcpStream::connect(server).await?;
    let id = random_id()?;
    let question = dns::question(id, name, family, form).map_err(io::Error::other)?;
    let length = u16::try_from(question.len()).expect("a question has at most 282 bytes");
    stream.write_all(&[&length.to_be_bytes()[..], &question].concat()).await?;
    let length = usize::from(stream.read_u16().await?);
    let mut buffer = vec![0; length];
    stream.read_exact(&mut buffer).await?;
    dns::answer(&buffer, id, name, family).map_err(io::Error::other)
}

fn random_id() -> io::Result<u16> {
    let mut bytes = [0; 2];
    getrandom::fill(&mut bytes).map_err(io::Error::other)?;
    Ok(u16::from_be_bytes(bytes))
}

/// Addresses by rank that replace names, for clusters without DNS.
pub type AddressBook = HashMap<u32, SocketAddr>;

/// Why an address book is not usable.
#[derive(Debug, thiserror::Error)]
#[error("line {line} of the address book is not `RANK ADDRESS:PORT`: {text:?}")]
pub struct AddressBookError {
    /// The line, from 1.
    pub line: usize,
    /// What it says.
    pub text: String,
}

/// Reads lines of `RANK ADDRESS:PORT`; empty lines and `#` comments are skipped.
pub fn parse_address_book(text: &str) -> Result<AddressBook, AddressBookError> {
    let mut book = AddressBook::new();
    for (index, full) in text.lines().enumerate() {
        let line = full.split('#').next().unwrap_or_default().trim();
        if line.is_empty() {
            continue;
        }
        let entry = line
            .split_once(char::is_whitespace)
            .and_then(|(rank, address)| Some((rank.parse().ok()?, address.trim().parse().ok()?)));
        let error = || AddressBookError { line: index + 1, text: full.to_owned() };
        let (rank, address) = entry.ok_or_else(error)?;
        book.insert(rank, address);
    }
    Ok(book)
}

#[cfg(test)]
mod tests;
