//! One whole exchange of a large parallel job, in one process: 256 brokers of a real overlay, each
//! with a real server for the 96 clients of its node. Prints the seconds of each round as JSON, by
//! protocol.
//!
//! ```text
//! exchange [BROKERS CLIENTS ROUNDS]
//! ```
//!
//! A round is over when every client has published a value, entered the fence, left it, and read
//! the value of a client on another node. Frames are encoded and decoded as on the wire; sockets
//! and TLS are left out. Where all brokers wait, so does this program, so their waits count.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "an example's output is its figures"
)]

mod clients;
mod network;

use clients::{Pmi1, Pmix, Wire};
use network::Network;
use quorate_overlay::{Command, Delivery, ExchangeKey};
use quorate_pmi::{ClientId, Effect, Job, JobServer, JobSpec, Layout, Options, Sequence};
use std::collections::BTreeMap;
use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A round that takes longer has hung.
const LIMIT: Duration = Duration::from_mins(2);

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<u32> =
        std::env::args().skip(1).map(|word| word.parse()).collect::<Result<_, _>>()?;
    let [brokers, clients, rounds] = match words[..] {
        [] => [256, 96, 3],
        [brokers, clients, rounds] => [brokers, clients, rounds],
        _ => return Err("usage: exchange [BROKERS CLIENTS ROUNDS]".into()),
    };
    let started = Instant::now();
    let mut network = Network::new(brokers);
    network.bring_up(LIMIT)?;
    eprintln!("{brokers} brokers quorate after {:.3} s", started.elapsed().as_secs_f64());

    let mut figures: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for round in 0..rounds {
        let job = u64::from(round) * 2;
        let seconds = exchange::<Pmi1>(&mut network, job, brokers, clients)?;
        figures.entry("PMI-1").or_default().push(seconds);
        let seconds = exchange::<Pmix>(&mut network, job + 1, brokers, clients)?;
        figures.entry("PMIx").or_default().push(seconds);
    }
    println!("{}", serde_json::to_string(&figures)?);
    Ok(())
}

/// The servers of one job and how far their clients are.
struct Run<'a, W> {
    network: &'a mut Network,
    job: u64,
    servers: Vec<JobServer>,
    clients: Vec<BTreeMap<ClientId, W>>,
    /// Clients that have read the other's value.
    done: u32,
}

/// Seconds of one exchange in which all clients speak `W`.
fn exchange<W: Wire>(
    network: &mut Network,
    number: u64,
    brokers: u32,
    each: u32,
) -> Result<f64, Box<dyn Error>> {
    let size = brokers * each;
    let job = Job::new(JobSpec {
        namespace: format!("exchange-{number}"),
        id: number.to_string(),
        hosts: (0..brokers).map(|broker| format!("worker-0-{broker}")).collect(),
        node_of: (0..size).map(|rank| rank / each).collect(),
        ..JobSpec::default()
    })?;
    let mut run = Run::<W> { network, job: number, servers: vec![], clients: vec![], done: 0 };
    for node in 0..brokers {
        let mut server =
            JobServer::new(Layout::new(job.clone(), node, "/tmp")?, Options::default());
        let mut clients = BTreeMap::new();
        for rank in node * each..(node + 1) * each {
            let client = W::connect(&mut server, rank);
            // The next node's client of the same place; the first node's after the last.
            let wire = W::new(rank, (rank + each) % size, job.namespace());
            server.receive(client, &wire.greeting());
            clients.insert(client, wire);
        }
        run.servers.push(server);
        run.clients.push(clients);
    }

    let started = Instant::now();
    for node in 0..brokers as usize {
        for client in run.clients[node].keys().copied().collect::<Vec<_>>() {
            let words = run.clients[node][&client].publish_and_fence();
            let effects = run.servers[node].receive(client, &words);
            run.carry_out(node, effects);
        }
    }
    while run.done < size {
        if started.elapsed() > LIMIT {
            return Err(format!("{} of {size} clients were done in time", run.done).into());
        }
        for (node, delivery) in run.network.turn() {
            match delivery {
                Delivery::Exchanged { key, blobs } if key.job == number => {
                    let blobs: Vec<(u32, Arc<[u8]>)> =
                        blobs.iter().map(|(rank, blob)| (*rank, Arc::from(&blob[..]))).collect();
                    let effects = run.servers[node].exchanged(sequence::<W>(key), &blobs);
                    run.carry_out(node, effects);
                }
                Delivery::ExchangeFailed { rank, failure, .. } => {
                    return Err(format!("the exchange failed at {rank}: {failure:?}").into());
                }
                _ => {}
            }
        }
    }
    let seconds = started.elapsed().as_secs_f64();
    run.network.command(0, Command::EndJob { job: number });
    Ok(seconds)
}

/// The server's name of an exchange of the overlay: in one job there is one protocol.
fn sequence<W: Wire>(key: ExchangeKey) -> Sequence {
    Sequence { protocol: W::PROTOCOL, number: u64::from(key.sequence) }
}

impl<W: Wire> Run<'_, W> {
    /// What a server wants done; answers to clients may make them say more.
    fn carry_out(&mut self, node: usize, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Exchange { sequence, blob } => {
                    let key = ExchangeKey { job: self.job, sequence: sequence.number as u32 };
                    let members = self.network.all();
                    let command = Command::Contribute { key, members, blob: blob.into() };
                    self.network.command(node, command);
                }
                Effect::Reply { client, bytes } => {
                    let Some(wire) = self.clients[node].get_mut(&client) else { continue };
                    let mut words = Vec::new();
                    for piece in bytes.slices() {
                        words.extend_from_slice(piece);
                    }
                    self.done += u32::from(wire.hears(&words));
                    if let Some(words) = wire.asks() {
                        let effects = self.servers[node].receive(client, &words);
                        self.carry_out(node, effects);
                    }
                }
                _ => {}
            }
        }
    }
}
