//! What a PMI-2 client may meet: two nodes, ranks 0 and 1 on the first, 2 on the second.

use super::frame::{self, Frame, Writer};
use crate::effect::{ClientId, Effect, Protocol};
use crate::layout::{Job, JobSpec, Layout};
use crate::server::{JobServer, Options};

fn node(number: u32) -> JobServer {
    let job = Job::new(JobSpec {
        namespace: "job-1".into(),
        id: "1".into(),
        hosts: vec!["node-0".into(), "node-1".into()],
        node_of: vec![0, 0, 1],
        ..JobSpec::default()
    });
    let layout = Layout::new(job.unwrap(), number, "/tmp/job").unwrap();
    JobServer::new(layout, Options::default())
}

fn start(server: &mut JobServer, rank: u32) -> ClientId {
    let client = server.connect_fd(rank);
    let effects = server.receive(client, b"cmd=init pmi_version=2 pmi_subversion=0\n");
    assert_eq!(effects[0], Effect::Wire { rank, protocol: Protocol::Pmi2 });
    let line = b"cmd=response_to_init pmi_version=2 pmi_subversion=0 rc=0\n";
    assert!(matches!(&effects[1], Effect::Reply { bytes, .. } if bytes.to_vec() == line));
    client
}

fn frames(effects: &[Effect]) -> Vec<Frame> {
    let frame = |effect: &Effect| match effect {
        Effect::Reply { bytes, .. } => {
            let bytes = bytes.to_vec();
            let (body, taken) = frame::next(&bytes).unwrap().unwrap();
            assert_eq!(taken, bytes.len());
            Some(Frame::parse(body))
        }
        _ => None,
    };
    effects.iter().filter_map(frame).collect()
}

fn ask(server: &mut JobServer, client: ClientId, fields: &[(&str, &str)]) -> Vec<Effect> {
    let mut writer = Writer::new(fields[0].1);
    for (key, value) in &fields[1..] {
        writer = writer.field(key, value);
    }
    server.receive(client, &writer.finish().unwrap())
}

/// One answer's field, as text.
fn field(effects: &[Effect], key: &str) -> String {
    let frames = frames(effects);
    assert_eq!(frames.len(), 1, "{effects:?}");
    String::from_utf8_lossy(frames[0].get(key).unwrap_or(b"-")).into_owned()
}

#[test]
fn a_rank_learns_about_its_job() {
    let mut server = node(0);
    let client = start(&mut server, 1);
    let answer = ask(&mut server, client, &[("cmd", "fullinit"), ("thrid", "7")]);
    for (key, value) in [
        ("cmd", "fullinit-response"),
        ("thrid", "7"),
        ("rc", "0"),
        ("rank", "1"),
        ("size", "3"),
        ("appnum", "0"),
        ("debugged", "FALSE"),
    ] {
        assert_eq!(field(&answer, key), value, "{key}");
    }
    let answer = ask(&mut server, client, &[("cmd", "job-getid")]);
    assert_eq!(field(&answer, "jobid"), "job-1");
    for (key, found, value) in [
        ("PMI_process_mapping", "TRUE", "(vector,(0,1,2),(1,1,1))"),
        ("universeSize", "TRUE", "3"),
        ("netinfo", "FALSE", "-"),
    ] {
        let answer = ask(&mut server, client, &[("cmd", "info-getjobattr"), ("key", key)]);
        assert_eq!(
            (field(&answer, "found"), field(&answer, "value")),
            (found.into(), value.into())
        );
    }
}

#[test]
fn pairs_meet_after_the_fence() {
    let (mut here, mut there) = (node(0), node(1));
    let (first, second) = (start(&mut here, 0), start(&mut here, 1));
    let third = start(&mut there, 2);
    ask(&mut here, first, &[("cmd", "kvs-put"), ("key", "k"), ("value", "a;b=c")]);
    assert!(ask(&mut here, first, &[("cmd", "kvs-fence"), ("thrid", "4")]).is_empty());
    let again = ask(&mut here, first, &[("cmd", "kvs-fence")]);
    assert_eq!(field(&again, "errmsg"), "already in a fence");
    let effects = ask(&mut here, second, &[("cmd", "kvs-fence")]);
    let [Effect::Exchange { sequence, blob }] = &effects[..] else { panic!("{effects:?}") };
    let blobs = [(0, blob.clone().into())];
    let released = frames(&here.exchanged(*sequence, &blobs));
    assert_eq!(released[0].get("thrid"), Some(&b"4"[..]));
    assert_eq!(released[1].get("thrid"), None);
    ask(&mut there, third, &[("cmd", "kvs-fence")]);
    assert_eq!(field(&there.exchanged(*sequence, &blobs), "rc"), "0");
    for job in ["", "job-1"] {
        let get = [("cmd", "kvs-get"), ("jobid", job), ("srcid", "-1"), ("key", "k")];
        assert_eq!(field(&ask(&mut there, third, &get), "value"), "a;b=c");
    }
    let other = [("cmd", "kvs-get"), ("jobid", "job-2"), ("key", "k")];
    assert_eq!(field(&ask(&mut there, third, &other), "found"), "FALSE");
    let lost = ask(&mut there, third, &[("cmd", "kvs-fence")]);
    let [Effect::Exchange { sequence, .. }] = &lost[..] else { panic!("{lost:?}") };
    assert_eq!(field(&there.exchange_failed(*sequence), "errmsg"), "a node was lost");
}

#[test]
fn an_attribute_of_the_node_can_be_waited_for() {
    let mut server = node(0);
    let (first, second) = (start(&mut server, 0), start(&mut server, 1));
    let get = [("cmd", "info-getnodeattr"), ("key", "seg"), ("wait", "TRUE"), ("thrid", "2")];
    assert!(ask(&mut server, first, &get).is_empty());
    let absent = [("cmd", "info-getnodeattr"), ("key", "seg"), ("wait", "FALSE")];
    assert_eq!(field(&ask(&mut server, second, &absent), "found"), "FALSE");
    let put = [("cmd", "info-putnodeattr"), ("key", "seg"), ("value", "shm")];
    let effects = ask(&mut server, second, &put);
    let answers = frames(&effects);
    assert_eq!(answers[0].get("value"), Some(&b"shm"[..]));
    assert_eq!(answers[0].get("thrid"), Some(&b"2"[..]));
    assert_eq!(answers[1].get("cmd"), Some(&b"info-putnodeattr-response"[..]));
    assert_eq!(field(&ask(&mut server, second, &absent), "value"), "shm");
}

#[test]
fn what_is_not_served_is_refused() {
    let mut server = node(0);
    let client = start(&mut server, 0);
    for command in ["name-publish", "name-lookup", "spawn", "job-connect", "dance"] {
        let effects = ask(&mut server, client, &[("cmd", command), ("thrid", "1")]);
        assert_eq!(field(&effects, "cmd"), format!("{command}-response"));
        assert_eq!(field(&effects, "rc"), "1");
    }
    let effects = ask(&mut server, client, &[("cmd", "kvs-put"), ("value", "v")]);
    assert_eq!(field(&effects, "errmsg"), "missing key");
    let effects = server.receive(client, b"3     abc");
    assert_eq!(field(&effects, "errmsg"), "frame without a command");
    assert_eq!(server.receive(client, b"abcdef"), [Effect::Close { client }]);
}

#[test]
fn finalize_and_abort_end_a_rank() {
    let mut server = node(0);
    let (first, second) = (start(&mut server, 0), start(&mut server, 1));
    assert!(server.rank_state(0).left_open());
    assert_eq!(field(&ask(&mut server, first, &[("cmd", "finalize")]), "rc"), "0");
    assert!(!server.rank_state(0).left_open());
    let effects = ask(&mut server, second, &[("cmd", "abort"), ("msg", "no mesh")]);
    let abort = Effect::Abort { rank: 1, code: 1, message: "no mesh".into() };
    assert_eq!(effects, [abort, Effect::Close { client: second }]);
}
