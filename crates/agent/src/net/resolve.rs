//! Names to addresses, without the C library: a static binary may not use it, and its negative
//! caching would hide pods that have just come.
//!
//! Each look-up reads `/etc/hosts` and `/etc/resolv.conf` anew (they are small, and a kubelet may
//! write them late), asks for A and AAAA, and keeps nothing. "No such name" means "not yet": the
//! caller tries again by its own back-off, and puts its questions in another [`Form`] each time, so
//! that a server's memory of the name's absence does not hide it either.

use super::dns::{self, Answer, Family, Form};
use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};
use tokio::time::timeout;

mod files;

pub use files::{ResolvConf, hosts_lookup};

/// The longest wait for one server, whatever resolv.conf says: the caller tries again anyway.
const WAIT_LIMIT: Duration = Duration::from_secs(2);

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

/// Looks names up.
#[derive(Clone, Debug)]
pub struct Resolver {
    hosts: PathBuf,
    resolv_conf: PathBuf,
    /// Look-ups so far.
    turns: Arc<AtomicU8>,
}

impl Default for Resolver {
    fn default() -> Self {
        Self::new("/etc/hosts", "/etc/resolv.conf")
    }
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
        Self { hosts: hosts.into(), resolv_conf: resolv_conf.into(), turns: Arc::default() }
    }

    /// A rank's addresses, IPv4 first, never empty.
    pub async fn resolve(&self, names: &Names) -> Result<Vec<IpAddr>, ResolveError> {
        let hosts = std::fs::read_to_string(&self.hosts).unwrap_or_default();
        for name in [&names.full, &names.service, &names.host] {
            let found = hosts_lookup(&hosts, name);
            if !found.is_empty() {
                return Ok(found);
            }
        }
        let conf = std::fs::read_to_string(&self.resolv_conf).unwrap_or_default();
        let conf = ResolvConf::parse(&conf);
        let mut candidates = vec![names.full.clone()];
        for candidate in conf.candidates(&names.service) {
            if !candidates.contains(&candidate) {
                candidates.push(candidate);
            }
        }
        let form = Form::of_turn(self.turns.fetch_add(1, Ordering::Relaxed));
        let mut failure = None;
        let mut answered = false;
        for candidate in &candidates {
            match ask_servers(&conf, candidate, form).await {
                Verdict::Found(addresses) => return Ok(addresses),
                Verdict::None => answered = true,
                Verdict::Failed(why) => failure = Some(why),
            }
        }
        let name = names.full.clone();
        match failure {
            Some(last) if !answered => Err(ResolveError::NoServer { name, last }),
            _ => Err(ResolveError::NotYet { name }),
        }
    }
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
