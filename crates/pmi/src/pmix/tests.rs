//! What a PMIx client may meet: two nodes, ranks 0 and 1 on the first, 2 and 3 on the second, in
//! both encodings.

use super::wire::{Encoding, Reader, Writer, types};
use super::{message, status};
use crate::effect::{ClientId, Effect};
use crate::layout::{Job, JobSpec, Layout};
use crate::server::{JobServer, Options};
use crate::{Cleanup, CleanupOf, Exit};
use proptest::prelude::*;
use std::time::Duration;

const NS: &str = "secret-1";
const BOTH: [Encoding; 2] = [Encoding::V3, Encoding::V41];

/// One node's server and the encoding that its ranks speak.
struct Node {
    server: JobServer,
    encoding: Encoding,
}

fn node(number: u32, encoding: Encoding) -> Node {
    node_of(&[0, 0, 1, 1], number, encoding)
}

fn node_of(shape: &[u32], number: u32, encoding: Encoding) -> Node {
    let job = Job::new(JobSpec {
        namespace: NS.into(),
        id: "1".into(),
        hosts: (0..=*shape.iter().max().unwrap()).map(|node| format!("node-{node}")).collect(),
        node_of: shape.to_vec(),
        ..JobSpec::default()
    });
    let layout = Layout::new(job.unwrap(), number, "/tmp/job").unwrap();
    Node { server: JobServer::new(layout, Options::default()), encoding }
}

/// An answer: its tag and what was packed.
type Answer = (u32, Vec<u8>);

fn answers(effects: &[Effect]) -> Vec<(ClientId, Answer)> {
    let answer = |effect: &Effect| match effect {
        Effect::Reply { client, bytes } => {
            let bytes = bytes.to_vec();
            let message = message::next(&bytes, usize::MAX).unwrap().unwrap();
            assert_eq!(message.taken, bytes.len());
            Some((*client, (message.tag, message.payload.to_vec())))
        }
        _ => None,
    };
    effects.iter().filter_map(answer).collect()
}

impl Node {
    fn hello(&self, namespace: &str, rank: u32) -> Vec<u8> {
        let name = if self.encoding == Encoding::V3 { "v3" } else { "v41" };
        let mut hello = b"native\0\0\0\0\0\0".to_vec();
        hello.extend_from_slice(namespace.as_bytes());
        hello.push(0);
        hello.extend_from_slice(&rank.to_be_bytes());
        hello.extend_from_slice(format!("5.0\0{name}\0\x01hash\0").as_bytes());
        let mut bytes = message::header(u32::MAX, u32::MAX, 0).to_vec();
        bytes[8..12].copy_from_slice(&(hello.len() as u32).to_le_bytes());
        bytes.extend_from_slice(&hello);
        bytes
    }

    fn connect(&mut self, rank: u32) -> ClientId {
        let client = self.server.connect_pmix();
        let effects = self.server.receive(client, &self.hello(NS, rank));
        assert!(
            matches!(&effects[1], Effect::Reply { bytes, .. } if bytes.to_vec()[..4] == [0; 4])
        );
        client
    }

    fn send(&mut self, client: ClientId, tag: u32, write: &dyn Fn(&mut Writer)) -> Vec<Effect> {
        let mut writer = Writer::new(self.encoding);
        write(&mut writer);
        let payload = writer.finish();
        let mut bytes = message::header(0, tag, payload.len()).to_vec();
        bytes.extend_from_slice(&payload);
        self.server.receive(client, &bytes)
    }

    fn status(&self, payload: &[u8]) -> i32 {
        let mut reader = Reader::new(payload, self.encoding);
        reader.pack(1).unwrap();
        reader.i32().unwrap()
    }

    /// The only answer's status.
    fn one_status(&self, effects: &[Effect]) -> i32 {
        let answers = answers(effects);
        assert_eq!(answers.len(), 1, "{effects:?}");
        self.status(&answers[0].1.1)
    }

    fn commit(&mut self, client: ClientId, local: &str, remote: &str) -> Vec<Effect> {
        let encoding = self.encoding;
        let bucket = |text: &str| {
            let mut pairs = Writer::new(encoding);
            pairs.pack(1).string("key").u16(types::STRING).string(text);
            pairs.finish()
        };
        self.send(client, 7, &|w| {
            w.pack(1).u8(2);
            w.pack(1).u8(1).pack(1).u8(1).object(&bucket(local));
            w.pack(1).u8(2).pack(1).u8(1).object(&bucket(remote));
        })
    }

    fn fence(&mut self, client: ClientId, tag: u32, ranks: &[u32]) -> Vec<Effect> {
        self.send(client, tag, &|w| {
            w.pack(1).u8(3).pack(1).size(ranks.len()).pack(ranks.len());
            for &rank in ranks {
                w.process(NS, rank);
            }
            w.pack(1).size(0);
        })
    }

    fn get(
        &mut self,
        client: ClientId,
        rank: u32,
        key: &str,
        infos: &[(&str, i32)],
    ) -> Vec<Effect> {
        let old = self.encoding == Encoding::V3;
        self.send(client, 9, &|w| {
            w.pack(1).u8(4).pack(1).string(NS).pack(1).u32(rank).pack(1).size(infos.len());
            if !infos.is_empty() {
                w.pack(infos.len());
            }
            for &(key, value) in infos {
                w.string(key).u32(0);
                match key {
                    "pmix.immediate" => w.u16(1).u8(u8::from(value != 0)),
                    _ if old => w.u16(6).u16(9).i32(value),
                    _ => w.u16(6).i32(value),
                };
            }
            w.pack(1).string(key);
        })
    }

    /// The value that a get's answer brings for the key of [`Self::commit`].
    fn value(&self, answer: &Answer, rank: u32) -> String {
        let mut reader = Reader::new(&answer.1, self.encoding);
        reader.pack(1).unwrap();
        assert_eq!(reader.i32(), Ok(status::SUCCESS));
        reader.pack(1).unwrap();
        let data = reader.object().unwrap();
        let mut reader = Reader::new(data, self.encoding);
        reader.pack(1).unwrap();
        assert_eq!(reader.process().unwrap().rank, rank);
        reader.pack(1).unwrap();
        assert_eq!(reader.string(), Ok(&b"key"[..]));
        // The type: v3 takes two bytes, v41 one.
        reader.u8().unwrap();
        if self.encoding == Encoding::V3 {
            reader.u8().unwrap();
        }
        String::from_utf8(reader.string().unwrap().to_vec()).unwrap()
    }
}

/// The value of the last key-value that an answer brings.
fn last_value(answer: &Answer) -> String {
    let text = String::from_utf8_lossy(&answer.1);
    let start = text.rfind("near").max(text.rfind("far")).unwrap();
    text[start..].trim_end_matches('\0').to_owned()
}

const ALL: [u32; 1] = [u32::MAX - 1];

#[test]
fn data_meets_ranks_of_both_nodes_after_the_fence() {
    for encoding in BOTH {
        let (mut here, mut there) = (node(0, encoding), node(1, encoding));
        let ours = [here.connect(0), here.connect(1)];
        let theirs = [there.connect(2), there.connect(3)];
        let effects = here.commit(ours[0], "near", "far");
        assert_eq!(here.one_status(&effects), status::SUCCESS);
        assert!(here.fence(ours[0], 10, &ALL).is_empty());
        let effects = here.fence(ours[1], 11, &ALL);
        let [Effect::Exchange { sequence, blob }] = &effects[..] else { panic!("{effects:?}") };
        there.fence(theirs[0], 12, &ALL);
        there.fence(theirs[1], 13, &ALL);
        let blobs = [(0, blob.clone().into()), (1, Vec::new().into())];
        let released = answers(&here.server.exchanged(*sequence, &blobs));
        let mut tags: Vec<_> = released.iter().map(|(client, (tag, _))| (*client, *tag)).collect();
        tags.sort_unstable();
        assert_eq!(tags, [(ours[0], 10), (ours[1], 11)]);
        assert_eq!(answers(&there.server.exchanged(*sequence, &blobs)).len(), 2);
        let got = answers(&there.get(theirs[1], 0, "key", &[]));
        assert_eq!(there.value(&got[0].1, 0), "far");
        let got = answers(&here.get(ours[1], 0, "key", &[]));
        assert_eq!(here.value(&got[0].1, 0), "near");
    }
}

#[test]
fn a_get_waits_for_a_local_rank_to_publish() {
    for encoding in BOTH {
        let mut node = node(0, encoding);
        let (first, second) = (node.connect(0), node.connect(1));
        assert!(node.get(first, 1, "key", &[]).is_empty());
        let effects = node.commit(second, "near", "far");
        let answers = answers(&effects);
        let got = answers.iter().find(|(client, _)| *client == first).unwrap();
        assert_eq!(node.value(&got.1, 1), "near");
    }
}

#[test]
fn a_get_without_patience_is_answered_at_once() {
    for encoding in BOTH {
        let mut node = node(0, encoding);
        let client = node.connect(0);
        node.connect(1);
        for rank in [1, 3] {
            let effects = node.get(client, rank, "key", &[("pmix.immediate", 1)]);
            assert_eq!(node.one_status(&effects), status::NOT_FOUND);
            // What ranks never publish is not waited for.
            let effects = node.get(client, rank, "pmix.cpuset", &[]);
            assert_eq!(node.one_status(&effects), status::NOT_FOUND);
        }
        let effects = node.get(client, 4, "key", &[]);
        assert_eq!(node.one_status(&effects), status::NOT_FOUND, "there is no rank 4");
        assert!(node.get(client, 1, "key", &[("pmix.immediate", 0)]).is_empty());
    }
}

#[test]
fn a_get_with_a_time_limit_ends_with_it() {
    for encoding in BOTH {
        let mut node = node(0, encoding);
        let client = node.connect(0);
        let effects = node.get(client, 1, "key", &[("pmix.timeout", 3)]);
        let [Effect::Timer { id, after }] = effects[..] else { panic!("{effects:?}") };
        assert_eq!(after, Duration::from_secs(3));
        let effects = node.server.fired(id);
        assert_eq!(node.one_status(&effects), status::TIMEOUT);
        assert!(node.server.fired(id).is_empty(), "it fires once");
    }
}

#[test]
fn data_that_no_fence_brought_is_fetched_from_its_node() {
    for encoding in BOTH {
        let (mut here, mut there) = (node(0, encoding), node(1, encoding));
        let (first, second) = (here.connect(0), here.connect(1));
        let theirs = there.connect(2);
        let effects = here.get(first, 2, "key", &[]);
        assert_eq!(effects, [Effect::FetchModex { node: 1, rank: 2 }]);
        assert!(here.get(second, 2, "key", &[]).is_empty(), "asked once");
        assert!(there.server.modex_requested(0, 2).is_empty(), "not published yet");
        let effects = there.commit(theirs, "near", "far");
        let answer = effects.iter().find_map(|effect| match effect {
            Effect::AnswerModex { node: 0, rank: 2, blob } => blob.clone(),
            _ => None,
        });
        let got = answers(&here.server.modex(2, answer.as_deref()));
        assert_eq!(got.len(), 2);
        assert_eq!(here.value(&got[0].1, 2), "far");
        // Known now.
        assert_eq!(answers(&here.get(first, 2, "key", &[])).len(), 1);
    }
}

#[test]
fn a_rank_that_ends_without_publishing_is_not_waited_for() {
    let (mut here, mut there) = (node(0, Encoding::V41), node(1, Encoding::V41));
    let client = here.connect(0);
    here.get(client, 2, "key", &[]);
    here.get(client, 1, "key", &[]);
    there.server.modex_requested(0, 2);
    let (state, effects) = there.server.rank_exited(2, Exit::Success);
    assert!(!state.left_open(), "it never spoke");
    assert_eq!(effects, [Effect::AnswerModex { node: 0, rank: 2, blob: None }]);
    let effects = here.server.modex(2, None);
    assert_eq!(here.one_status(&effects), status::NOT_FOUND);
    let (_, effects) = here.server.rank_exited(1, Exit::Success);
    assert_eq!(here.one_status(&effects), status::NOT_FOUND);
    // Asked again, the node answers at once.
    let effects = there.server.modex_requested(0, 2);
    assert_eq!(effects, [Effect::AnswerModex { node: 0, rank: 2, blob: None }]);
}

#[test]
fn fences_of_some_ranks_work_on_one_node() {
    for encoding in BOTH {
        let mut node = node(0, encoding);
        let (first, second) = (node.connect(0), node.connect(1));
        let effects = node.fence(first, 5, &[0]);
        assert_eq!(node.one_status(&effects), status::SUCCESS, "alone");
        assert!(node.fence(first, 6, &[1, 0]).is_empty());
        assert_eq!(answers(&node.fence(second, 7, &[0, 1])).len(), 2);
        let effects = node.fence(first, 8, &[0, 2]);
        assert_eq!(node.one_status(&effects), status::NOT_SUPPORTED, "across nodes");
        let effects = node.fence(first, 9, &[1]);
        assert_eq!(node.one_status(&effects), status::NOT_SUPPORTED, "without the caller");
        // All ranks by name are the whole job.
        assert!(node.fence(first, 10, &[3, 2, 1, 0]).is_empty());
        assert!(matches!(node.fence(second, 10, &ALL)[..], [Effect::Exchange { .. }]));
    }
}

#[test]
fn a_rank_that_ends_without_init_is_missed_in_a_fence() {
    for encoding in BOTH {
        let mut node = node(0, encoding);
        let first = node.connect(0);
        node.fence(first, 5, &ALL);
        let (_, effects) = node.server.rank_exited(1, Exit::Success);
        assert_eq!(effects, [Effect::Deserted { rank: 1, initialized: false }]);
    }
}

#[test]
fn a_local_fence_ends_when_one_of_its_ranks_does() {
    let mut node = node(0, Encoding::V41);
    let first = node.connect(0);
    node.fence(first, 6, &[0, 1]);
    let (_, effects) = node.server.rank_exited(1, Exit::Success);
    assert_eq!(node.one_status(&effects), status::UNREACHABLE);
}

#[test]
fn a_fence_that_cannot_be_ends_with_an_error() {
    let mut node = node(0, Encoding::V41);
    let (first, second) = (node.connect(0), node.connect(1));
    node.fence(first, 1, &ALL);
    let effects = node.fence(second, 2, &ALL);
    let [Effect::Exchange { sequence, .. }] = effects[..] else { panic!("{effects:?}") };
    let failed = answers(&node.server.exchange_failed(sequence));
    assert_eq!(failed.len(), 2);
    assert_eq!(node.status(&failed[0].1.1), status::UNREACHABLE);
    assert!(node.server.exchange_failed(sequence).is_empty());
    let damaged = [(1, b"\x02\xff".to_vec().into())];
    node.fence(first, 1, &ALL);
    let effects = node.fence(second, 2, &ALL);
    let [Effect::Exchange { sequence, .. }] = effects[..] else { panic!("{effects:?}") };
    let failed = answers(&node.server.exchanged(sequence, &damaged));
    assert_eq!(node.status(&failed[0].1.1), status::ERROR);
}

#[test]
fn a_node_cannot_speak_for_ranks_of_another() {
    let (mut here, mut there) = (node(0, Encoding::V41), node(1, Encoding::V41));
    let (first, second) = (here.connect(0), here.connect(1));
    let theirs = there.connect(2);
    there.commit(theirs, "near", "far");
    let blob = there.server.modex_requested(0, 2);
    let [Effect::AnswerModex { blob: Some(blob), .. }] = &blob[..] else { panic!("{blob:?}") };
    here.fence(first, 1, &ALL);
    let effects = here.fence(second, 2, &ALL);
    let [Effect::Exchange { sequence, .. }] = effects[..] else { panic!("{effects:?}") };
    // A third node claims rank 2.
    let failed = here.server.exchanged(sequence, &[(7, blob.clone().into())]);
    assert_eq!(here.status(&answers(&failed)[0].1.1), status::ERROR);
}

#[test]
fn only_ranks_of_this_node_are_admitted_and_each_once() {
    let mut node = node(0, Encoding::V41);
    let refused = |node: &mut Node, hello: &[u8]| {
        let client = node.server.connect_pmix();
        let effects = node.server.receive(client, hello);
        let [Effect::Reply { bytes, .. }, Effect::Close { .. }] = &effects[..] else {
            panic!("{effects:?}")
        };
        i32::from_be_bytes(bytes.to_vec().try_into().unwrap())
    };
    let guess = node.hello("secret-2", 0);
    assert_eq!(refused(&mut node, &guess), status::INVALID_CREDENTIAL);
    let remote = node.hello(NS, 2);
    assert_eq!(refused(&mut node, &remote), status::INVALID_CREDENTIAL);
    let client = node.connect(0);
    let again = node.hello(NS, 0);
    assert_eq!(refused(&mut node, &again), status::INVALID_CREDENTIAL, "while connected");
    node.server.closed(client);
    assert_eq!(refused(&mut node, &again), status::INVALID_CREDENTIAL, "after a loss");
    let mut noise = again.clone();
    noise.truncate(20);
    noise[8..12].copy_from_slice(&4u32.to_le_bytes());
    assert_eq!(refused(&mut node, &noise), status::UNPACK_FAILURE);
}

#[test]
fn a_second_program_of_a_rank_is_admitted_after_a_proper_end() {
    let mut node = node(0, Encoding::V41);
    let client = node.connect(0);
    node.commit(client, "near", "far");
    assert!(node.server.rank_state(0).left_open());
    let effects = node.send(client, 3, &|w| {
        w.pack(1).u8(5);
    });
    assert_eq!(node.one_status(&effects), status::SUCCESS);
    assert!(!node.server.rank_state(0).left_open());
    node.server.closed(client);
    node.connect(0);
    assert!(node.server.rank_state(0).left_open());
    let other = node.connect(1);
    assert!(node.get(other, 0, "key", &[]).is_empty(), "the first program's data is gone");
}

#[test]
fn requests_that_are_not_served_say_so() {
    for encoding in BOTH {
        let mut node = node(0, encoding);
        let client = node.connect(0);
        for command in [6, 9, 10, 15, 16, 17, 19, 24, 32, 99, 255] {
            let effects = node.send(client, 1, &|w| {
                w.pack(1).u8(command);
            });
            assert_eq!(node.one_status(&effects), status::NOT_SUPPORTED, "command {command}");
        }
        for command in [12, 13] {
            let effects = node.send(client, 1, &|w| {
                w.pack(1).u8(command);
            });
            assert_eq!(node.one_status(&effects), status::SUCCESS);
        }
        let effects = node.send(client, 1, &|w| {
            w.pack(1).u8(14);
        });
        assert!(effects.is_empty(), "deregistering is not answered");
        let effects = node.send(client, 1, &|w| {
            w.pack(1).u8(4).pack(1);
        });
        assert_eq!(node.one_status(&effects), status::UNPACK_FAILURE);
        assert!(node.send(client, 1, &|_| ()).is_empty(), "a heartbeat");
    }
}

#[test]
fn abort_keeps_its_code_and_words() {
    for encoding in BOTH {
        let mut node = node(0, encoding);
        let client = node.connect(1);
        let effects = node.send(client, 1, &|w| {
            w.pack(1).u8(1).pack(1).i32(77).pack(1).string("bad mesh").pack(1).size(0);
        });
        let abort = Effect::Abort { rank: 1, code: 77, message: "bad mesh".into() };
        assert_eq!(effects.last(), Some(&abort));
        assert_eq!(node.one_status(&effects), status::SUCCESS);
    }
}

#[test]
fn cleanup_is_registered() {
    for encoding in BOTH {
        let mut node = node(0, encoding);
        let client = node.connect(1);
        let effects = node.send(client, 1, &|w| {
            w.pack(1).u8(18).pack(1).size(1).pack(1).process(NS, 1);
            w.pack(1).size(1).pack(1).string("pmix.reg.cleanup").u32(0).u16(types::STRING);
            w.string("/dev/shm/seg");
        });
        let cleanup = Cleanup {
            by: 1,
            of: CleanupOf::Ranks(vec![1]),
            files: vec!["/dev/shm/seg".into()],
            ..Cleanup::default()
        };
        assert_eq!(effects[0], Effect::Cleanup(cleanup));
        assert_eq!(node.one_status(&effects), status::SUCCESS);
    }
}

#[test]
fn job_info_is_packed_once_for_all_clients() {
    let mut node = node(0, Encoding::V41);
    let (first, second) = (node.connect(0), node.connect(1));
    let ask = |node: &mut Node, client| {
        let effects = node.send(client, 1, &|w| {
            w.pack(1).u8(0);
        });
        let [Effect::Reply { bytes, .. }] = &effects[..] else { panic!("{effects:?}") };
        bytes.shared.clone()
    };
    let (one, other) = (ask(&mut node, first), ask(&mut node, second));
    assert!(one.iter().zip(&other).all(|(a, b)| std::sync::Arc::ptr_eq(a, b)));
    let text = one.iter().map(|part| part.escape_ascii().to_string()).collect::<String>();
    for part in ["node-0,node-1", "pmix.lpeers", "0,1", "2,3", "pmix.grank", "secret-1"] {
        assert!(text.contains(part), "{part}");
    }
}

#[test]
fn too_much_data_is_refused() {
    let job = Job::new(JobSpec {
        namespace: NS.into(),
        id: "1".into(),
        hosts: vec!["node-0".into()],
        node_of: vec![0],
        ..JobSpec::default()
    });
    let options = Options { max_published: 100, max_message: 200, ..Options::default() };
    let layout = Layout::new(job.unwrap(), 0, "/tmp").unwrap();
    let mut node = Node { server: JobServer::new(layout, options), encoding: Encoding::V41 };
    let client = node.connect(0);
    let effects = node.commit(client, "near", "far");
    assert_eq!(node.one_status(&effects), status::SUCCESS);
    let effects = node.commit(client, &"x".repeat(80), "far");
    assert_eq!(node.one_status(&effects), status::OUT_OF_RESOURCE);
    let effects = node.commit(client, &"x".repeat(300), "far");
    assert_eq!(effects, [Effect::Close { client }]);
    assert!(node.commit(client, "near", "far").is_empty(), "it is gone");
}

#[test]
fn ranks_of_different_encodings_cannot_read_each_other() {
    let mut node = node(0, Encoding::V41);
    let first = node.connect(0);
    node.commit(first, "near", "far");
    node.encoding = Encoding::V3;
    let second = node.connect(1);
    let effects = node.get(second, 0, "key", &[]);
    assert_eq!(node.one_status(&effects), status::NOT_SUPPORTED);
}

/// Any shape of a few nodes, each with a rank.
fn shape() -> impl Strategy<Value = Vec<u32>> {
    (1u32..4).prop_flat_map(|nodes| {
        prop::collection::vec(0..nodes, 0..6).prop_flat_map(move |more| {
            let ranks: Vec<u32> = (0..nodes).chain(more).collect();
            Just(ranks).prop_shuffle()
        })
    })
}

proptest! {
    /// Ranks publish in some rounds and not in others; after each fence, everybody has the last
    /// word of everybody, from the bucket that is meant for its node.
    #[test]
    fn everybody_has_the_last_word_of_everybody_after_a_fence(
        shape in shape(),
        old in any::<bool>(),
        rounds in prop::collection::vec(any::<u16>(), 1..4),
    ) {
        let encoding = if old { Encoding::V3 } else { Encoding::V41 };
        let count = shape.iter().max().unwrap() + 1;
        let mut nodes: Vec<Node> = (0..count).map(|n| node_of(&shape, n, encoding)).collect();
        let clients: Vec<ClientId> = shape
            .iter()
            .zip(0..)
            .map(|(&node, rank)| nodes[node as usize].connect(rank))
            .collect();
        let mut last = vec![None; shape.len()];
        for (round, published) in rounds.into_iter().enumerate() {
            let mut blobs = Vec::new();
            let mut due = None;
            let mut released = 0;
            for (rank, &home) in shape.iter().enumerate() {
                let node = &mut nodes[home as usize];
                if published >> rank & 1 == 1 {
                    node.commit(clients[rank], &format!("near {round}"), &format!("far {round}"));
                    last[rank] = Some(round);
                }
                for effect in node.fence(clients[rank], 1, &ALL) {
                    match effect {
                        Effect::Exchange { sequence, blob } => {
                            blobs.push((home, blob.into()));
                            due = Some(sequence);
                        }
                        _ => released += 1,
                    }
                }
            }
            for node in &mut nodes {
                released += due.map_or(0, |due| node.server.exchanged(due, &blobs).len());
            }
            prop_assert_eq!(released, shape.len());
            for (asker, &home) in shape.iter().enumerate() {
                for rank in 0..shape.len() as u32 {
                    let node = &mut nodes[home as usize];
                    let infos = [("pmix.immediate", 1)];
                    let effects = node.get(clients[asker], rank, "key", &infos);
                    let Some(round) = last[rank as usize] else {
                        prop_assert_eq!(node.one_status(&effects), status::NOT_FOUND);
                        continue;
                    };
                    let near = shape[rank as usize] == home;
                    let word = format!("{} {round}", if near { "near" } else { "far" });
                    let got = answers(&effects);
                    prop_assert_eq!(last_value(&got[0].1), word);
                }
            }
        }
    }
}
