//! Conversations as files: what connects, what clients send, and what servers answer, in order.
//!
//! The first line is `job NAMESPACE HOST,... NODE,...` (the node of each rank). Then, each behind
//! the node and the number of a client: `pair RANK`, `port`, `pmix` (it connects), `> BYTES` (it
//! sends), `< BYTES` (it is answered), `closed`. Bytes are escaped as Rust escapes them.

#![allow(dead_code, reason = "each test binary uses a part")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test's way to fail")]

use quorate_pmi::{
    ClientId, Effect, Job, JobServer, JobSpec, Layout, Options, RankState, Sequence,
};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;

/// A client: its node and number.
pub(crate) type Client = (usize, u64);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Pair(u32),
    Port,
    Pmix,
    Received(Vec<u8>),
    Sent(Vec<u8>),
    Closed,
}

#[derive(Clone, Debug)]
pub(crate) struct Transcript {
    pub(crate) job: JobSpec,
    pub(crate) steps: Vec<(Client, Step)>,
}

impl Transcript {
    pub(crate) fn parse(text: &str) -> Self {
        let mut lines = text.lines();
        let head: Vec<&str> = lines.next().unwrap().split(' ').collect();
        assert_eq!(head[0], "job");
        let job = JobSpec {
            namespace: head[1].into(),
            id: "1".into(),
            hosts: head[2].split(',').map(str::to_owned).collect(),
            node_of: head[3].split(',').map(|node| node.parse().unwrap()).collect(),
            ..JobSpec::default()
        };
        let steps = lines.map(|line| {
            let mut words = line.splitn(4, ' ');
            let mut word = || words.next();
            let node = word().unwrap().parse().unwrap();
            let client = word().unwrap().parse().unwrap();
            let step = match (word().unwrap(), word()) {
                ("pair", Some(rank)) => Step::Pair(rank.parse().unwrap()),
                ("port", None) => Step::Port,
                ("pmix", None) => Step::Pmix,
                ("closed", None) => Step::Closed,
                (">", Some(bytes)) => Step::Received(unescape(bytes)),
                ("<", Some(bytes)) => Step::Sent(unescape(bytes)),
                other => panic!("{other:?} in {line}"),
            };
            ((node, client), step)
        });
        Self { job, steps: steps.collect() }
    }

    pub(crate) fn render(&self) -> String {
        let nodes: Vec<String> = self.job.node_of.iter().map(u32::to_string).collect();
        let (hosts, nodes) = (self.job.hosts.join(","), nodes.join(","));
        let mut text = format!("job {} {hosts} {nodes}\n", self.job.namespace);
        for ((node, client), step) in &self.steps {
            let step = match step {
                Step::Pair(rank) => format!("pair {rank}"),
                Step::Port => "port".to_owned(),
                Step::Pmix => "pmix".to_owned(),
                Step::Closed => "closed".to_owned(),
                Step::Received(bytes) => format!("> {}", bytes.escape_ascii()),
                Step::Sent(bytes) => format!("< {}", bytes.escape_ascii()),
            };
            writeln!(text, "{node} {client} {step}").unwrap();
        }
        text
    }

    /// All that each client sends.
    pub(crate) fn received(&self) -> BTreeMap<Client, Vec<u8>> {
        self.gather(|step| if let Step::Received(bytes) = step { Some(bytes) } else { None })
    }

    /// All that each client is answered.
    pub(crate) fn sent(&self) -> BTreeMap<Client, Vec<u8>> {
        self.gather(|step| if let Step::Sent(bytes) = step { Some(bytes) } else { None })
    }

    fn gather(&self, pick: impl Fn(&Step) -> Option<&Vec<u8>>) -> BTreeMap<Client, Vec<u8>> {
        let mut all = BTreeMap::<Client, Vec<u8>>::new();
        for (client, step) in &self.steps {
            if let Some(bytes) = pick(step) {
                all.entry(*client).or_default().extend_from_slice(bytes);
            }
        }
        all
    }

    /// The same conversation with a new server.
    pub(crate) fn replay(&self) -> Self {
        self.replay_in_pieces(usize::MAX)
    }

    /// The same, with what clients send cut into pieces of so many bytes.
    pub(crate) fn replay_in_pieces(&self, size: usize) -> Self {
        let mut nodes = Nodes::new(self.job.clone());
        self.play(&mut nodes, size);
        Self { job: self.job.clone(), steps: nodes.steps }
    }

    /// How far each rank is at the end.
    pub(crate) fn replay_states(&self) -> Vec<RankState> {
        let mut nodes = Nodes::new(self.job.clone());
        self.play(&mut nodes, usize::MAX);
        let ranks = self.job.node_of.iter().zip(0..);
        ranks.map(|(&node, rank)| nodes.servers[node as usize].rank_state(rank)).collect()
    }

    fn play(&self, nodes: &mut Nodes, size: usize) {
        // Recorded numbers of clients stand for those that the server gives now.
        let mut clients = BTreeMap::<Client, ClientId>::new();
        for (name, step) in &self.steps {
            let node = name.0;
            if matches!(step, Step::Sent(_)) {
                continue;
            }
            nodes.steps.push((*name, step.clone()));
            let server = &mut nodes.servers[node];
            let effects = match step {
                Step::Pair(_) | Step::Port | Step::Pmix => {
                    let client = match step {
                        Step::Pair(rank) => server.connect_fd(*rank),
                        Step::Port => server.connect_tcp_pmi(),
                        _ => server.connect_pmix(),
                    };
                    nodes.names.insert((node, client), *name);
                    clients.insert(*name, client);
                    Vec::new()
                }
                Step::Received(bytes) => {
                    for piece in bytes.chunks(size.min(bytes.len())) {
                        let effects = nodes.servers[node].receive(clients[name], piece);
                        nodes.carry_out(node, effects);
                    }
                    Vec::new()
                }
                Step::Closed => server.closed(clients[name]),
                Step::Sent(_) => Vec::new(),
            };
            nodes.carry_out(node, effects);
        }
    }
}

/// What nodes have brought into an exchange.
type Blobs = Vec<(u32, Arc<[u8]>)>;

/// Servers of all nodes of a job, with the exchange between them in memory.
pub(crate) struct Nodes {
    pub(crate) servers: Vec<JobServer>,
    names: BTreeMap<(usize, ClientId), Client>,
    exchanges: BTreeMap<u64, Blobs>,
    steps: Vec<(Client, Step)>,
}

impl Nodes {
    pub(crate) fn new(job: JobSpec) -> Self {
        let job = Job::new(job).unwrap();
        let layout = |node| Layout::new(job.clone(), node, "/tmp/job").unwrap();
        let nodes = 0..job.hosts().len() as u32;
        Self {
            servers: nodes.map(|n| JobServer::new(layout(n), Options::default())).collect(),
            names: BTreeMap::new(),
            exchanges: BTreeMap::new(),
            steps: Vec::new(),
        }
    }

    pub(crate) fn carry_out(&mut self, node: usize, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Reply { client, bytes } => {
                    let name = self.names[&(node, client)];
                    self.steps.push((name, Step::Sent(bytes.to_vec())));
                }
                Effect::Exchange { sequence, blob } => self.exchange(node, sequence, blob),
                Effect::FetchModex { node: other, rank } => {
                    let effects = self.servers[other as usize].modex_requested(node as u32, rank);
                    self.carry_out(other as usize, effects);
                }
                Effect::AnswerModex { node: asker, rank, blob } => {
                    let effects = self.servers[asker as usize].modex(rank, blob.as_deref());
                    self.carry_out(asker as usize, effects);
                }
                Effect::Timer { .. }
                | Effect::Abort { .. }
                | Effect::Deserted { .. }
                | Effect::Close { .. }
                | Effect::Cleanup(_)
                | Effect::Wire { .. } => (),
            }
        }
    }

    fn exchange(&mut self, node: usize, sequence: Sequence, blob: Vec<u8>) {
        let blobs = self.exchanges.entry(sequence.to_u64()).or_default();
        blobs.push((node as u32, blob.into()));
        if blobs.len() == self.servers.len() {
            let blobs = self.exchanges.remove(&sequence.to_u64()).unwrap();
            for node in 0..self.servers.len() {
                let effects = self.servers[node].exchanged(sequence, &blobs);
                self.carry_out(node, effects);
            }
        }
    }
}

/// Undoes [`slice::escape_ascii`].
pub(crate) fn unescape(text: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'\\' {
            bytes.push(byte);
            continue;
        }
        bytes.push(match rest.next().unwrap() {
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'x' => {
                let digit = |b: u8| char::from(b).to_digit(16).unwrap() as u8;
                digit(rest.next().unwrap()) << 4 | digit(rest.next().unwrap())
            }
            other => other,
        });
    }
    bytes
}
