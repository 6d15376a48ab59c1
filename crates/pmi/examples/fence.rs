//! Measures one full exchange of a large job without a network: every rank publishes what an MPI
//! over TCP does, all fence, the nodes' blobs go around in memory, and every rank asks for the data
//! of four ranks on other nodes.
//!
//! ```text
//! fence [NODES [RANKS_PER_NODE]]        256 and 96 by default; run it with --release
//! ```
//!
//! Prints one line of JSON per protocol: `seconds` is the whole of it on two threads; `publish`,
//! `exchange` and `gets` are its parts, `blob_bytes` what one node sends, `merged_bytes` what all
//! do, and `job_info_bytes` (PMIx) what each rank is told at its start, which is packed once and not
//! part of the time.

#![expect(clippy::print_stdout, reason = "the figures are the output")]

use quorate_pmi::{ClientId, Effect, Job, JobServer, JobSpec, Layout, Options, Sequence};
use std::error::Error;
use std::sync::Arc;
use std::time::Instant;

const THREADS: usize = 2;
const GETS: u32 = 4;
/// An address and port in the words of MPICH's TCP module.
const CARD: &str = "020085970A0900010000000000000000";

/// A node: its server and the connections of its ranks.
struct Node {
    server: JobServer,
    clients: Vec<(u32, ClientId)>,
}

/// A language, as far as this bench speaks it.
trait Speech: Sync {
    fn name(&self) -> &'static str;
    fn connect(&self, server: &mut JobServer, rank: u32) -> ClientId;
    fn start(&self, rank: u32) -> Vec<u8>;
    fn publish(&self, rank: u32) -> Vec<u8>;
    fn fence(&self) -> Vec<u8>;
    fn get(&self, rank: u32) -> Vec<u8>;
    /// Tells whether an answer to a get brings a rank's data.
    fn is_card(&self, rank: u32, answer: &[u8]) -> bool;
}

struct Pmi1;

impl Speech for Pmi1 {
    fn name(&self) -> &'static str {
        "PMI-1"
    }

    fn connect(&self, server: &mut JobServer, rank: u32) -> ClientId {
        server.connect_fd(rank)
    }

    fn start(&self, _: u32) -> Vec<u8> {
        b"cmd=init pmi_version=1 pmi_subversion=1\n".to_vec()
    }

    fn publish(&self, rank: u32) -> Vec<u8> {
        format!("cmd=put kvsname=bench key=-allgather-1-{rank} value={CARD}{rank}\n").into_bytes()
    }

    fn fence(&self) -> Vec<u8> {
        b"cmd=barrier_in\n".to_vec()
    }

    fn get(&self, rank: u32) -> Vec<u8> {
        format!("cmd=get kvsname=bench key=-allgather-1-{rank}\n").into_bytes()
    }

    fn is_card(&self, rank: u32, answer: &[u8]) -> bool {
        answer.ends_with(format!(" value={CARD}{rank}\n").as_bytes())
    }
}

/// PMIx in the encoding `v41`.
struct Pmix;

impl Pmix {
    fn message(payload: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0; 16];
        bytes[7] = 101;
        bytes[8..12].copy_from_slice(&(payload.len() as u32).to_be_bytes());
        bytes.extend_from_slice(payload);
        bytes
    }

    fn number(out: &mut Vec<u8>, mut value: u64) {
        while value >= 0x80 {
            out.push(value as u8 | 0x80);
            value >>= 7;
        }
        out.push(value as u8);
    }

    fn text(out: &mut Vec<u8>, text: &str) {
        // Lengths are signed: zig-zag doubles them.
        Self::number(out, (text.len() as u64 + 1) * 2);
        out.extend_from_slice(text.as_bytes());
        out.push(0);
    }

    /// One key-value: what the TCP transport of Open MPI says about itself.
    fn pairs(rank: u32) -> Vec<u8> {
        let mut pairs = vec![2];
        Self::text(&mut pairs, "btl.tcp.5.0");
        pairs.extend_from_slice(&[0x1b, 32]);
        pairs.extend_from_slice(&[0xfd; 28]);
        pairs.extend_from_slice(&rank.to_be_bytes());
        pairs
    }
}

impl Speech for Pmix {
    fn name(&self) -> &'static str {
        "PMIx"
    }

    fn connect(&self, server: &mut JobServer, _: u32) -> ClientId {
        server.connect_pmix()
    }

    fn start(&self, rank: u32) -> Vec<u8> {
        let mut hello = b"native\0\0\0\0\x08\0\0\0\0\0\0\0\0\0bench\0".to_vec();
        hello.extend_from_slice(&rank.to_be_bytes());
        hello.extend_from_slice(b"5.0.11\0v41\0\x01hash\0");
        Self::message(&hello)
    }

    fn publish(&self, rank: u32) -> Vec<u8> {
        // The same data for both scopes, as the client library sends it.
        let pairs = Self::pairs(rank);
        let mut payload = vec![2, 2];
        for scope in [1, 2] {
            payload.extend_from_slice(&[2, scope, 2, 1]);
            Self::number(&mut payload, pairs.len() as u64);
            payload.extend_from_slice(&pairs);
        }
        Self::message(&payload)
    }

    fn fence(&self) -> Vec<u8> {
        let mut payload = vec![2, 3, 2, 1, 2];
        Self::text(&mut payload, "bench");
        Self::number(&mut payload, u64::from(u32::MAX - 1));
        payload.extend_from_slice(&[2, 0]);
        Self::message(&payload)
    }

    fn get(&self, rank: u32) -> Vec<u8> {
        let mut payload = vec![2, 4, 2];
        Self::text(&mut payload, "bench");
        payload.push(2);
        Self::number(&mut payload, u64::from(rank));
        payload.extend_from_slice(&[2, 0, 2]);
        Self::text(&mut payload, "btl.tcp.5.0");
        Self::message(&payload)
    }

    fn is_card(&self, rank: u32, answer: &[u8]) -> bool {
        answer.ends_with(&Self::pairs(rank))
    }
}

/// Does something for all nodes on [`THREADS`] threads.
fn on_all<T: Send>(nodes: &mut [Node], work: impl Fn(usize, &mut Node) -> T + Sync) -> Vec<T> {
    let share = nodes.len().div_ceil(THREADS);
    std::thread::scope(|scope| {
        let parts = nodes.chunks_mut(share).enumerate().map(|(part, nodes)| {
            let work = &work;
            let run = move || {
                let numbered = nodes.iter_mut().enumerate();
                numbered.map(|(n, node)| work(part * share + n, node)).collect::<Vec<T>>()
            };
            scope.spawn(run)
        });
        let parts: Vec<_> = parts.collect();
        parts.into_iter().flat_map(|part| part.join().expect("the work does not panic")).collect()
    })
}

fn exchanges(effects: Vec<Effect>) -> Option<(Sequence, Vec<u8>)> {
    effects.into_iter().find_map(|effect| match effect {
        Effect::Exchange { sequence, blob } => Some((sequence, blob)),
        _ => None,
    })
}

fn measure(speech: &impl Speech, nodes: u32, ranks: u32) -> Result<(), Box<dyn Error>> {
    let job = Job::new(JobSpec {
        namespace: "bench".into(),
        id: "1".into(),
        hosts: (0..nodes).map(|node| format!("cluster-worker-0-{node}")).collect(),
        node_of: (0..nodes * ranks).map(|rank| rank / ranks).collect(),
        ..JobSpec::default()
    })?;
    let mut all = Vec::new();
    for node in 0..nodes {
        let layout = Layout::new(job.clone(), node, "/tmp/bench")?;
        all.push(Node { server: JobServer::new(layout, Options::default()), clients: Vec::new() });
    }
    // Not part of the exchange: ranks come one by one while programs start.
    on_all(&mut all, |number, node| {
        for rank in job.ranks_of(number as u32) {
            let client = speech.connect(&mut node.server, *rank);
            node.server.receive(client, &speech.start(*rank));
            node.clients.push((*rank, client));
        }
    });
    let mut job_info = 0;
    if speech.name() == "PMIx" {
        let first = all[0].clients[0].1;
        for effect in all[0].server.receive(first, &Pmix::message(&[2, 0])) {
            if let Effect::Reply { bytes, .. } = effect {
                job_info = bytes.len();
            }
        }
    }

    let begin = Instant::now();
    let due = on_all(&mut all, |_, node| {
        for &(rank, client) in &node.clients {
            node.server.receive(client, &speech.publish(rank));
        }
        let mut due = None;
        for &(_, client) in &node.clients {
            due = exchanges(node.server.receive(client, &speech.fence()));
        }
        due
    });
    let publish = begin.elapsed();
    let mut sequence = None;
    let mut blobs: Vec<(u32, Arc<[u8]>)> = Vec::new();
    for (node, due) in due.into_iter().enumerate() {
        let (name, blob) = due.ok_or("every node owes an exchange")?;
        sequence = Some(name);
        blobs.push((node as u32, blob.into()));
    }
    let sequence = sequence.ok_or("there are no nodes")?;
    let released = on_all(&mut all, |_, node| node.server.exchanged(sequence, &blobs).len());
    let exchange = begin.elapsed();
    let answered = on_all(&mut all, |_, node| {
        let mut answered = 0;
        for &(rank, client) in &node.clients {
            for step in 1..=GETS {
                let wanted = (rank + step * ranks + step) % (nodes * ranks);
                for effect in node.server.receive(client, &speech.get(wanted)) {
                    if let Effect::Reply { bytes, .. } = effect {
                        answered += u32::from(speech.is_card(wanted, &bytes.to_vec()));
                    }
                }
            }
        }
        answered
    });
    let seconds = begin.elapsed();
    if released.iter().sum::<usize>() != (nodes * ranks) as usize
        || answered.iter().sum::<u32>() != nodes * ranks * GETS
    {
        return Err("ranks were not answered".into());
    }
    let merged: usize = blobs.iter().map(|(_, blob)| blob.len()).sum();
    println!(
        "{{\"bench\":\"fence\",\"protocol\":\"{}\",\"nodes\":{nodes},\"ranks_per_node\":{ranks},\
         \"seconds\":{:.3},\"publish\":{:.3},\"exchange\":{:.3},\"gets\":{:.3},\
         \"blob_bytes\":{},\"merged_bytes\":{merged},\"job_info_bytes\":{job_info}}}",
        speech.name(),
        seconds.as_secs_f64(),
        publish.as_secs_f64(),
        (exchange.saturating_sub(publish)).as_secs_f64(),
        (seconds.saturating_sub(exchange)).as_secs_f64(),
        blobs[0].1.len(),
    );
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut words = std::env::args().skip(1).map(|word| word.parse::<u32>());
    let nodes = words.next().transpose()?.unwrap_or(256).max(2);
    let ranks = words.next().transpose()?.unwrap_or(96).max(1);
    measure(&Pmi1, nodes, ranks)?;
    measure(&Pmix, nodes, ranks)
}
