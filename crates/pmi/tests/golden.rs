//! Conversations of real MPI programs, replayed.
//!
//! `golden/pmi*.txt` were recorded with this crate's own server (`examples/loopback.rs --record`):
//! what it says today must be what it said then, byte for byte. Run with `UPDATE_GOLDEN=1` to write
//! down what it says now, and look at the difference.
//!
//! `golden/peer-*.txt` were recorded between real programs and the process managers of MPICH and
//! Open MPI: to the same requests this server must give answers of the same meaning.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test's way to fail")]

#[path = "golden/transcript.rs"]
mod transcript;

use std::collections::BTreeMap;
use std::fs;
use transcript::{Client, Transcript};

fn files(prefix: &str) -> Vec<String> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden");
    let entries = fs::read_dir(folder).unwrap();
    let names = entries.map(|entry| entry.unwrap().path().to_str().unwrap().to_owned());
    let mut names: Vec<String> = names.filter(|name| name.contains(prefix)).collect();
    names.sort();
    assert!(names.len() >= 2, "the conversations are gone");
    names
}

#[test]
fn the_server_says_what_it_said() {
    for name in files("/golden/pmi") {
        let text = fs::read_to_string(&name).unwrap();
        let transcript = Transcript::parse(&text);
        let now = transcript.replay();
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            fs::write(&name, now.render()).unwrap();
            continue;
        }
        let (now, then) = (now.render(), text);
        for (number, (now, then)) in now.lines().zip(then.lines()).enumerate() {
            assert_eq!(now, then, "{name}:{}", number + 1);
        }
        assert_eq!(now.lines().count(), then.lines().count(), "{name}");
    }
}

#[test]
fn the_conversations_are_whole() {
    // Every client that was admitted said something and ended by finalize or abort.
    for name in files("/golden/pmi") {
        let transcript = Transcript::parse(&fs::read_to_string(&name).unwrap());
        assert!(transcript.received().values().any(|bytes| bytes.len() > 100), "{name}");
        let ends = transcript.replay_states();
        let wants_abort = name.contains("abort");
        assert_eq!(ends.iter().any(|state| state.left_open()), wants_abort, "{name}");
        assert!(ends.iter().any(|state| state.initialized), "{name}");
    }
}

/// Fields of a line of PMI-1 that both servers must agree on.
fn meaning(line: &str, asked: &str) -> BTreeMap<String, String> {
    let mut fields: BTreeMap<String, String> = line
        .split_ascii_whitespace()
        .filter_map(|field| field.split_once('='))
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .collect();
    // What each server says in its own words: the highest version it knows, the file it wrote, the
    // number that failure has, whether there are more slots than ranks.
    for own in ["msg", "found", "tag", "pmi_subversion"] {
        fields.remove(own);
    }
    if fields.get("cmd").is_some_and(|cmd| cmd == "universe_size") {
        fields.remove("size");
    }
    let failed = fields.get("rc").is_some_and(|rc| rc != "0") || asked.contains("PMI_hwloc_xml");
    if failed {
        fields.retain(|key, _| key == "cmd");
    } else {
        fields.remove("rc");
    }
    fields
}

#[test]
fn answers_mean_what_hydras_mean() {
    for name in files("/golden/peer-hydra") {
        let transcript = Transcript::parse(&fs::read_to_string(&name).unwrap());
        let (sent, theirs) = (transcript.received(), transcript.sent());
        for (client, ours) in transcript.replay().sent() {
            let ask = String::from_utf8(sent[&client].clone()).unwrap();
            let ours = String::from_utf8(ours).unwrap();
            let theirs = String::from_utf8(theirs[&client].clone()).unwrap();
            assert_eq!(ours.lines().count(), theirs.lines().count(), "{name} {client:?}");
            for ((ask, ours), theirs) in ask.lines().zip(ours.lines()).zip(theirs.lines()) {
                assert_eq!(meaning(ours, ask), meaning(theirs, ask), "{name}: {ask}");
            }
        }
    }
}

/// The answers of a PMIx server after its word on the hello: tag and payload. The job info, which
/// every server fills as it likes, is left out.
fn messages(mut bytes: &[u8]) -> Vec<(u32, Vec<u8>)> {
    let word = |at: &[u8]| u32::from_be_bytes(at[..4].try_into().unwrap());
    assert_eq!(word(bytes), 0, "the hello was accepted");
    bytes = &bytes[8..];
    let mut messages = Vec::new();
    let mut is_first = true;
    while !bytes.is_empty() {
        if let Some(rest) = bytes.strip_prefix(b"JOB-INFO") {
            bytes = rest;
        } else {
            let (tag, length) = (word(&bytes[4..]), word(&bytes[8..]) as usize);
            if !is_first {
                messages.push((tag, bytes[16..16 + length].to_vec()));
            }
            bytes = &bytes[16 + length..];
        }
        is_first = false;
    }
    messages
}

#[test]
fn answers_are_those_of_openpmix() {
    let mut compared = 0;
    for name in files("/golden/peer-").into_iter().filter(|name| name.contains("pmix")) {
        let transcript = Transcript::parse(&fs::read_to_string(&name).unwrap());
        let theirs = transcript.sent();
        for (client, ours) in transcript.replay().sent() {
            let (ours, theirs) = (messages(&ours), messages(&theirs[&client]));
            let sort = |mut messages: Vec<(u32, Vec<u8>)>| {
                messages.sort();
                messages
            };
            // The answer to a finalize is lost where the process ended before it came.
            assert!(ours.len() - theirs.len() <= 1, "{name} {client:?}");
            compared += ours.len();
            for (ours, theirs) in sort(ours).into_iter().zip(sort(theirs)) {
                assert_eq!(ours.0, theirs.0, "{name}: the same requests are answered");
                let (ours, theirs) = (ours.1.escape_ascii(), theirs.1.escape_ascii());
                assert_eq!(ours.to_string(), theirs.to_string(), "{name} {client:?}");
            }
        }
    }
    assert!(compared >= 60, "{compared} answers compared");
}

#[test]
fn conversations_may_be_cut_anywhere() {
    for name in files("/golden/pmi") {
        let transcript = Transcript::parse(&fs::read_to_string(&name).unwrap());
        let whole: BTreeMap<Client, Vec<u8>> = transcript.replay().sent();
        assert_eq!(transcript.replay_in_pieces(1).sent(), whole, "{name}");
        assert_eq!(transcript.replay_in_pieces(7).sent(), whole, "{name}");
    }
}
