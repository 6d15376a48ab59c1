//! A million hostile inputs for every reader of bytes that come from ranks or other nodes: nothing
//! panics, and what is kept is bounded by what was sent. Inputs are mutations of real conversations
//! and plain noise, the same in each run.

#[path = "../tests/golden/transcript.rs"]
mod transcript;

use crate::core::Exit;
use crate::effect::{ClientId, Effect};
use crate::kvs::Kvs;
use crate::layout::{Job, JobSpec, Layout};
use crate::pmi1::line::Line;
use crate::pmi2::frame::{self, Frame};
use crate::pmix::fuzz as pmix;
use crate::server::{JobServer, Options};
use std::sync::Arc;
use transcript::{Step, Transcript};

const INPUTS: usize = 1_000_000;

/// A small generator of numbers (xorshift); its quality does not matter here.
struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.roll() % limit.max(1) as u64) as usize
    }
}

/// Makes inputs out of seeds.
struct Inputs {
    dice: Dice,
    seeds: Vec<Vec<u8>>,
}

/// Bytes that are limits of some field.
const EDGES: [u8; 10] = [0, 1, 2, 0x7f, 0x80, 0xff, b';', b'=', b' ', b'\n'];

impl Inputs {
    fn new(seeds: Vec<Vec<u8>>) -> Self {
        assert!(seeds.iter().any(|seed| seed.len() > 8), "there are seeds");
        Self { dice: Dice(0x5eed_1234_5678_9abc), seeds }
    }

    fn next(&mut self) -> Vec<u8> {
        let dice = &mut self.dice;
        if dice.below(8) == 0 {
            return (0..dice.below(64)).map(|_| dice.roll() as u8).collect();
        }
        let mut input = self.seeds[dice.below(self.seeds.len())].clone();
        input.truncate(2048);
        for _ in 0..=dice.below(4) {
            let at = dice.below(input.len());
            match dice.below(7) {
                0 => input.truncate(at),
                1 if !input.is_empty() => input[at] = dice.roll() as u8,
                2 if !input.is_empty() => input[at] = EDGES[dice.below(EDGES.len())],
                3 => input.insert(at, EDGES[dice.below(EDGES.len())]),
                4 if !input.is_empty() => drop(input.remove(at)),
                5 => {
                    let other = &self.seeds[dice.below(self.seeds.len())];
                    let end = dice.below(other.len().min(64) + 1);
                    input.splice(at..at, other[..end].iter().copied());
                }
                _ => {
                    let edge = EDGES[dice.below(EDGES.len())];
                    let end = (at + dice.below(9)).min(input.len());
                    input[at..end].fill(edge);
                }
            }
        }
        input
    }
}

fn conversations(names: &[&str]) -> Vec<Transcript> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden");
    let read = |name: &&str| std::fs::read_to_string(format!("{folder}/{name}.txt")).unwrap();
    names.iter().map(|name| Transcript::parse(&read(name))).collect()
}

const PMI1: [&str; 3] =
    ["pmi1-mpich-5.0.2-two-nodes", "pmi1-mpich-4.1.3-abort", "pmi1-mpich-5.0.2-spawn"];
const PMI2: [&str; 1] = ["pmi2-libpmi2-two-nodes"];
const V41: [&str; 2] = ["pmix-v41-openmpi-5.0.11-two-nodes", "pmix-v41-openmpi-4.1.4-two-nodes"];
const V3: [&str; 2] = ["pmix-v3-openmpi-4.1.8-two-nodes", "peer-orte-pmix-3.2.5"];

/// What clients sent, as recorded: mostly one message each.
fn sent(names: &[&str]) -> Vec<Vec<u8>> {
    let received = |step: Step| match step {
        Step::Received(bytes) => Some(bytes),
        _ => None,
    };
    let steps = conversations(names).into_iter().flat_map(|t| t.steps);
    steps.filter_map(|(_, step)| received(step)).collect()
}

#[test]
fn lines_of_pmi1() {
    let mut inputs = Inputs::new(sent(&PMI1));
    for _ in 0..INPUTS {
        let input = inputs.next();
        if let Some(line) = Line::parse(&input) {
            let all = line.command.len() + line.tail("value").map_or(0, <[u8]>::len);
            assert!(all <= input.len());
            line.word("key");
            line.number::<i32>("exitcode");
        }
    }
}

#[test]
fn frames_of_pmi2() {
    let mut inputs = Inputs::new(sent(&PMI2));
    for _ in 0..INPUTS {
        let input = inputs.next();
        if let Ok(Some((body, taken))) = frame::next(&input) {
            assert!(taken <= input.len() && body.len() < taken);
        }
        assert!(Frame::parse(&input).len() <= input.len());
    }
}

#[test]
fn hellos_of_pmix() {
    let seeds: Vec<_> = sent(&V41).into_iter().chain(sent(&V3)).collect();
    let hellos = seeds.into_iter().filter(|seed| seed.starts_with(&[0xff; 8]));
    let mut inputs = Inputs::new(hellos.map(|seed| seed[16..].to_vec()).collect());
    for _ in 0..INPUTS {
        pmix::hello(&inputs.next());
    }
}

fn requests(names: &[&str], read: fn(&[u8]) -> usize) {
    let payloads = sent(names).into_iter().filter(|seed| seed.len() > 16);
    let mut inputs = Inputs::new(payloads.map(|seed| seed[16..].to_vec()).collect());
    for _ in 0..INPUTS {
        let input = inputs.next();
        // Each element that is kept took a byte of the message at least.
        assert!(read(&input) <= input.len());
    }
}

#[test]
fn requests_of_pmix_v41() {
    requests(&V41, pmix::request_v41);
}

#[test]
fn requests_of_pmix_v3() {
    requests(&V3, pmix::request_v3);
}

#[test]
fn messages_of_pmix() {
    let mut inputs = Inputs::new(sent(&V41));
    for _ in 0..INPUTS {
        pmix::message(&inputs.next(), 1000);
    }
}

#[test]
fn blobs_of_other_nodes() {
    let (mut pairs, mut buckets) = (Vec::new(), Vec::new());
    for number in 0..8usize {
        let mut kvs = Kvs::default();
        for key in 0..number {
            kvs.put(format!("key-{key}").as_bytes(), &vec![b'v'; number * 20]);
        }
        pairs.push(kvs.take_blob());
        buckets.push(pmix::blob(number as u32));
    }
    let mut inputs = Inputs::new(pairs);
    for _ in 0..INPUTS {
        let input: Arc<[u8]> = inputs.next().into();
        let mut kvs = Kvs::default();
        // Refused or not, a lookup ends.
        let _ = kvs.add_pages(std::iter::once((0, &input)));
        kvs.get(b"key-1");
        kvs.nth(3);
    }
    let mut inputs = Inputs::new(buckets);
    for _ in 0..INPUTS {
        pmix::page(&inputs.next().into());
    }
}

/// A whole server: connections of all kinds come, send mutated conversations and go. Each server
/// takes a thousand inputs, so that later ones meet what earlier ones left.
#[test]
fn whole_servers() {
    let names: Vec<&str> = PMI1.into_iter().chain(PMI2).chain(V41).chain(V3).collect();
    let mut seeds = sent(&names);
    // All conversations speak of one namespace, so that requests get beyond the door.
    for seed in &mut seeds {
        *seed = renamed(seed);
    }
    let mut inputs = Inputs::new(seeds);
    let mut answers = 0;
    for _ in 0..INPUTS / 1000 {
        answers += one_server(&mut inputs);
    }
    assert!(answers > INPUTS / 10, "{answers} answers: the inputs get nowhere");
}

const NAMESPACE: &str = "loopback-12345";

/// Puts the server's namespace where a recorded one of the same length is.
fn renamed(seed: &[u8]) -> Vec<u8> {
    let mut seed = seed.to_vec();
    let place = seed.windows(9).position(|window| window == b"loopback-");
    if let Some(place) = place.filter(|place| place + NAMESPACE.len() <= seed.len()) {
        seed[place..place + NAMESPACE.len()].copy_from_slice(NAMESPACE.as_bytes());
    }
    seed
}

fn one_server(inputs: &mut Inputs) -> usize {
    let job = Job::new(JobSpec {
        namespace: NAMESPACE.into(),
        id: "1".into(),
        hosts: vec!["node-0".into(), "node-1".into()],
        node_of: vec![0, 0, 1, 1],
        ..JobSpec::default()
    });
    let layout = Layout::new(job.unwrap(), 0, "/tmp").unwrap();
    let options = Options { max_message: 4096, max_published: 4096, max_waiting: 8 };
    let mut server = JobServer::new(layout, options);
    let mut clients: Vec<ClientId> = Vec::new();
    let mut answers = 0;
    for _ in 0..1000 {
        let dice = &mut inputs.dice;
        if clients.len() < 6 {
            clients.push(match dice.below(4) {
                0 => server.connect_tcp_pmi(),
                1 => server.connect_fd(dice.below(3) as u32),
                _ => server.connect_pmix(),
            });
        }
        let place = dice.below(clients.len());
        let client = clients[place];
        let effects = match dice.below(64) {
            0 => {
                let exit = if dice.below(2) == 0 { Exit::Success } else { Exit::Failure };
                server.rank_exited(dice.below(4) as u32, exit).1
            }
            1 => server.modex_requested(1, dice.below(4) as u32),
            2 => server.fired(dice.below(10) as u64),
            3 => server.closed(client),
            _ => {
                let input = inputs.next();
                server.receive(client, &input)
            }
        };
        for effect in effects {
            match effect {
                Effect::Reply { .. } => answers += 1,
                Effect::Close { client } => clients.retain(|&open| open != client),
                Effect::Exchange { sequence, blob } => {
                    let blob = if blob.is_empty() { inputs.next() } else { blob };
                    server.exchanged(sequence, &[(1, blob.into())]);
                }
                Effect::FetchModex { rank, .. } => {
                    let blob = inputs.next();
                    server.modex(rank, Some(&blob));
                }
                _ => (),
            }
        }
        if inputs.dice.below(16) == 0 {
            clients.retain(|&other| other != client);
            server.closed(client);
        }
        assert!(server.buffered() <= 6 * (64 << 10), "buffers are bounded");
    }
    answers
}
