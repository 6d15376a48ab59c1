//! Whatever the shape of a job and the order of its ranks: after a fence, every rank finds what
//! every other has published.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test's way to fail")]

use proptest::prelude::*;
use quorate_pmi::{ClientId, Effect, Job, JobServer, JobSpec, Layout, Options, Sequence};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What nodes have brought into an exchange.
type Blobs = Vec<(u32, Arc<[u8]>)>;

/// A job with servers on all of its nodes.
struct World {
    job: Arc<Job>,
    servers: Vec<JobServer>,
    clients: Vec<ClientId>,
    /// What each rank was answered and has not read.
    answers: Vec<String>,
    exchanges: BTreeMap<u64, Blobs>,
}

impl World {
    fn new(node_of: Vec<u32>) -> Self {
        let nodes = node_of.iter().max().unwrap() + 1;
        let job = Job::new(JobSpec {
            namespace: "kvs".into(),
            id: "1".into(),
            hosts: (0..nodes).map(|node| format!("n{node}")).collect(),
            node_of,
            ..JobSpec::default()
        })
        .unwrap();
        let layout = |node| Layout::new(job.clone(), node, "/tmp").unwrap();
        let mut servers: Vec<_> =
            (0..nodes).map(|n| JobServer::new(layout(n), Options::default())).collect();
        let clients = (0..job.size())
            .map(|rank| servers[job.node_of(rank).unwrap() as usize].connect_fd(rank))
            .collect();
        let answers = vec![String::new(); job.size() as usize];
        Self { job, servers, clients, answers, exchanges: BTreeMap::new() }
    }

    fn say(&mut self, rank: u32, line: &str, cut: usize) {
        let node = self.job.node_of(rank).unwrap() as usize;
        let (head, tail) = line.as_bytes().split_at(cut.min(line.len()));
        for part in [head, tail] {
            let effects = self.servers[node].receive(self.clients[rank as usize], part);
            self.carry_out(node, effects);
        }
    }

    fn carry_out(&mut self, node: usize, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Reply { client, bytes } => {
                    let ranks = self.job.ranks_of(node as u32);
                    let rank = ranks.iter().find(|&&r| self.clients[r as usize] == client);
                    let text = String::from_utf8(bytes.to_vec()).unwrap();
                    self.answers[*rank.unwrap() as usize].push_str(&text);
                }
                Effect::Exchange { sequence, blob } => self.exchange(node, sequence, blob),
                Effect::Wire { .. } => (),
                other => panic!("{other:?}"),
            }
        }
    }

    fn exchange(&mut self, node: usize, sequence: Sequence, blob: Vec<u8>) {
        let blobs = self.exchanges.entry(sequence.to_u64()).or_default();
        assert!(blobs.iter().all(|(other, _)| *other != node as u32), "a node takes part once");
        blobs.push((node as u32, blob.into()));
        if blobs.len() == self.servers.len() {
            let blobs = self.exchanges.remove(&sequence.to_u64()).unwrap();
            for node in 0..self.servers.len() {
                let effects = self.servers[node].exchanged(sequence, &blobs);
                self.carry_out(node, effects);
            }
        }
    }

    fn read(&mut self, rank: u32) -> String {
        std::mem::take(&mut self.answers[rank as usize])
    }
}

/// Any shape: blocks, cycles, uneven, in any order; every node has a rank.
fn shape() -> impl Strategy<Value = Vec<u32>> {
    (1u32..5).prop_flat_map(|nodes| {
        prop::collection::vec(0..nodes, 0..9).prop_flat_map(move |more| {
            let mut ranks: Vec<u32> = (0..nodes).collect();
            ranks.extend(more);
            Just(ranks).prop_shuffle()
        })
    })
}

/// The node of each rank, as a reader of the vector form sees it.
fn deal(vector: &str) -> Vec<u32> {
    let list = vector.strip_prefix("(vector,").unwrap().strip_suffix(')').unwrap();
    let block = |text: &str| -> Vec<u32> {
        text.trim_matches(['(', ')']).split(',').map(|number| number.parse().unwrap()).collect()
    };
    let nodes = list.split("),(").map(block).flat_map(|block| {
        let ranks = block[2] as usize;
        (block[0]..block[0] + block[1]).flat_map(move |node| std::iter::repeat_n(node, ranks))
    });
    nodes.collect()
}

proptest! {
    #[test]
    fn everybody_finds_everything_after_a_barrier(
        node_of in shape(),
        order in any::<u64>(),
        rounds in 1usize..4,
        cut in 0usize..40,
    ) {
        let mut world = World::new(node_of.clone());
        let size = world.job.size();
        // A different order of ranks in each round.
        let turn = |round: usize| {
            let mut ranks: Vec<u32> = (0..size).collect();
            ranks.sort_by_key(|&rank| {
                (u64::from(rank) + 1).wrapping_mul(order | 1).rotate_left(round as u32 * 7)
            });
            ranks
        };
        for rank in turn(9) {
            world.say(rank, "cmd=init pmi_version=1 pmi_subversion=1\n", cut);
            prop_assert!(world.read(rank).contains("rc=0"));
        }
        for round in 0..rounds {
            for rank in turn(round) {
                world.say(rank, &format!("cmd=put kvsname=kvs key=k{round}-{rank} value=v{rank}={round}\n"), cut);
                prop_assert!(world.read(rank).contains("rc=0"));
            }
            for (entered, rank) in turn(round + 1).into_iter().enumerate() {
                prop_assert!(world.answers.iter().all(String::is_empty), "{entered} ranks suffice");
                world.say(rank, "cmd=barrier_in\n", cut);
            }
            for rank in 0..size {
                prop_assert_eq!(world.read(rank), "cmd=barrier_out rc=0\n");
                for other in 0..size {
                    for past in 0..=round {
                        world.say(rank, &format!("cmd=get kvsname=kvs key=k{past}-{other}\n"), cut);
                        let answer = world.read(rank);
                        let value = format!("value=v{other}={past}\n");
                        prop_assert!(answer.ends_with(&value), "{answer}");
                    }
                }
            }
        }
    }

    #[test]
    fn the_mapping_reads_back_as_the_shape(node_of in shape()) {
        let world = World::new(node_of.clone());
        prop_assert_eq!(deal(world.job.process_mapping()), node_of);
    }
}
