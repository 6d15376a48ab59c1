//! What a PMI-1 client may meet: two nodes, ranks 0 and 1 on the first, 2 on the second.

use crate::effect::{ClientId, Effect};
use crate::layout::{Job, JobSpec, Layout};
use crate::server::{JobServer, Options};

fn node(number: u32) -> JobServer {
    let job = Job::new(JobSpec {
        namespace: "kvs-1".into(),
        id: "1".into(),
        hosts: vec!["node-0".into(), "node-1".into()],
        node_of: vec![0, 0, 1],
        app: 3,
        universe: 16,
    });
    let layout = Layout::new(job.unwrap(), number, "/tmp/job").unwrap();
    JobServer::new(layout, Options { max_published: 200, ..Options::default() })
}

fn text(effects: &[Effect]) -> String {
    let text = |effect: &Effect| match effect {
        Effect::Reply { bytes, .. } => Some(String::from_utf8(bytes.to_vec()).unwrap()),
        _ => None,
    };
    effects.iter().filter_map(text).collect()
}

fn say(server: &mut JobServer, client: ClientId, line: &str) -> String {
    text(&server.receive(client, line.as_bytes()))
}

fn started(number: u32, rank: u32) -> (JobServer, ClientId) {
    let mut server = node(number);
    let client = server.connect_fd(rank);
    say(&mut server, client, "cmd=init pmi_version=1 pmi_subversion=1\n");
    (server, client)
}

#[test]
fn a_rank_learns_about_its_job() {
    let (mut server, client) = started(0, 1);
    let mut say = |line: &str| say(&mut server, client, line);
    assert_eq!(
        say("cmd=get_maxes\n"),
        "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=1024 rc=0\n"
    );
    assert_eq!(say("cmd=get_appnum\n"), "cmd=appnum appnum=3 rc=0\n");
    assert_eq!(say("cmd=get_my_kvsname\n"), "cmd=my_kvsname kvsname=kvs-1 rc=0\n");
    assert_eq!(say("cmd=get_universe_size\n"), "cmd=universe_size size=16 rc=0\n");
    assert_eq!(
        say("cmd=get kvsname=kvs-1 key=PMI_process_mapping\n"),
        "cmd=get_result rc=0 msg=success value=(vector,(0,1,2),(1,1,1))\n"
    );
    assert_eq!(say("cmd=finalize\n"), "cmd=finalize_ack rc=0\n");
}

#[test]
fn the_topology_of_a_node_is_named_where_it_is_known() {
    let job = Job::new(JobSpec {
        namespace: "kvs-1".into(),
        id: "1".into(),
        hosts: vec!["node-0".into()],
        node_of: vec![0],
        ..JobSpec::default()
    });
    let job = job.unwrap();
    let question = "cmd=get kvsname=kvs-1 key=PMI_hwloc_xmlfile\n";
    for (file, want) in [
        (Some("/run/topology.xml"), "rc=0 msg=success value=/run/topology.xml"),
        (None, "rc=-1 msg=key_not_found value=unknown"),
    ] {
        let layout = Layout::new(job.clone(), 0, "/tmp/job").unwrap();
        let layout = layout.with_topology(file.map(str::to_owned));
        let mut server = JobServer::new(layout, Options::default());
        let client = server.connect_fd(0);
        assert_eq!(say(&mut server, client, question), format!("cmd=get_result {want}\n"));
    }
}

#[test]
fn values_are_kept_byte_for_byte() {
    let (mut server, client) = started(0, 0);
    let mut say = |line: &str| say(&mut server, client, line);
    for value in ["QUJD=", "a b  c ", "x\\;y", "key=k value=v"] {
        assert_eq!(
            say(&format!("cmd=put kvsname=kvs-1 key=k value={value}\n")),
            "cmd=put_result rc=0 msg=success\n"
        );
        assert_eq!(
            say("cmd=get kvsname=kvs-1 key=k\n"),
            format!("cmd=get_result rc=0 msg=success value={value}\n")
        );
    }
    assert_eq!(
        say("cmd=get kvsname=kvs-1 key=other\n"),
        "cmd=get_result rc=-1 msg=key_not_found value=unknown\n"
    );
}

#[test]
fn bad_puts_and_gets_are_refused_with_a_reason() {
    let (mut server, client) = started(0, 0);
    let mut say = |line: &str| say(&mut server, client, line);
    let long = "x".repeat(1024);
    for (line, reason) in [
        ("cmd=put kvsname=other key=k value=v\n".to_owned(), "unknown_kvsname"),
        ("cmd=put kvsname=kvs-1 value=v\n".to_owned(), "missing_key"),
        ("cmd=put kvsname=kvs-1 key= value=v\n".to_owned(), "missing_key"),
        ("cmd=put kvsname=kvs-1 key=k value=\n".to_owned(), "missing_value"),
        ("cmd=put kvsname=kvs-1 key=k\n".to_owned(), "missing_value"),
        (format!("cmd=put kvsname=kvs-1 key={} value=v\n", &long[..64]), "key_too_long"),
        (format!("cmd=put kvsname=kvs-1 key=k value={long}\n"), "value_too_long"),
        ("cmd=put kvsname=kvs-1 key=PMI_process_mapping value=v\n".to_owned(), "reserved_key"),
        (format!("cmd=put kvsname=kvs-1 key=k value={}\n", &long[..250]), "too_much_data"),
    ] {
        assert_eq!(say(&line), format!("cmd=put_result rc=-1 msg={reason}\n"));
    }
    assert!(say("cmd=get kvsname=other key=k\n").contains("msg=unknown_kvsname"));
    assert!(say("cmd=get kvsname=kvs-1\n").contains("msg=missing_key"));
}

#[test]
fn no_line_is_left_without_an_answer() {
    let (mut server, client) = started(0, 0);
    let mut say = |line: &str| say(&mut server, client, line);
    assert_eq!(say("hello\n"), "cmd=error rc=-1 msg=line_without_command\n");
    assert_eq!(say("\n"), "cmd=error rc=-1 msg=line_without_command\n");
    assert_eq!(say("cmd=dance\n"), "cmd=dance_result rc=-1 msg=unknown_command\n");
    assert_eq!(say("cmd=\u{fe}\n"), "cmd=error rc=-1 msg=unknown_command\n");
    for (command, answer) in [
        ("publish_name service=s port=p", "publish_result"),
        ("unpublish_name service=s", "unpublish_result"),
        ("lookup_name service=s", "lookup_result"),
    ] {
        let refusal = format!("cmd={answer} rc=-1 msg=names_are_not_supported\n");
        assert_eq!(say(&format!("cmd={command}\n")), refusal);
    }
}

#[test]
fn spawn_is_refused_when_the_client_has_said_all() {
    let (mut server, client) = started(0, 0);
    let mut say = |line: &str| say(&mut server, client, line);
    let refusal = "cmd=spawn_result rc=-1 msg=spawn_is_not_supported\n";
    assert_eq!(say("mcmd=spawn\nnprocs=1\nexecname=cmd=get_maxes\ntotspawns=1\n"), "");
    assert_eq!(say("spawnssofar=1\narg1=cmd=finalize\nendcmd\n"), refusal);
    // Two programs: one answer, after the second.
    assert_eq!(say("mcmd=spawn\ntotspawns=2\nspawnssofar=1\nendcmd\n"), "");
    assert_eq!(say("mcmd=spawn\ntotspawns=2\nspawnssofar=2\nendcmd\n"), refusal);
    assert_eq!(say("cmd=get_appnum\n"), "cmd=appnum appnum=3 rc=0\n");
}

#[test]
fn pairs_can_be_walked_by_index() {
    let (mut server, client) = started(0, 0);
    let mut say = |line: &str| say(&mut server, client, line);
    say("cmd=put kvsname=kvs-1 key=a value=1\n");
    assert_eq!(
        say("cmd=getbyidx kvsname=kvs-1 idx=0\n"),
        "cmd=getbyidx_results rc=0 nextidx=1 key=a val=1\n"
    );
    assert_eq!(
        say("cmd=getbyidx kvsname=kvs-1 idx=1\n"),
        "cmd=getbyidx_results rc=-2 reason=no_more_keyvals\n"
    );
    assert_eq!(
        say("cmd=getbyidx kvsname=kvs-1\n"),
        "cmd=getbyidx_results rc=-1 reason=missing_idx\n"
    );
}

#[test]
fn barriers_carry_pairs_to_the_other_node() {
    let (mut here, first) = started(0, 0);
    let second = here.connect_fd(1);
    let (mut there, third) = started(1, 2);
    say(&mut here, first, "cmd=put kvsname=kvs-1 key=k-0 value=v-0\n");
    say(&mut there, third, "cmd=put kvsname=kvs-1 key=k-2 value=v-2\n");
    assert!(here.receive(first, b"cmd=barrier_in\n").is_empty());
    say(&mut here, second, "cmd=init pmi_version=1 pmi_subversion=1\n");
    let mut blobs = Vec::new();
    for (server, client, node) in [(&mut here, second, 0), (&mut there, third, 1)] {
        let mut effects = server.receive(client, b"cmd=barrier_in\n");
        let Some(Effect::Exchange { sequence, blob }) = effects.pop() else {
            panic!("{effects:?}")
        };
        assert_eq!(sequence.to_u64(), 0);
        blobs.push((node, blob.into()));
    }
    let sequence = crate::Sequence::from_u64(0).unwrap();
    assert_eq!(text(&here.exchanged(sequence, &blobs)), "cmd=barrier_out rc=0\n".repeat(2));
    assert_eq!(text(&there.exchanged(sequence, &blobs)), "cmd=barrier_out rc=0\n");
    assert!(say(&mut here, second, "cmd=get kvsname=kvs-1 key=k-2\n").contains("value=v-2"));
    assert!(say(&mut there, third, "cmd=get kvsname=kvs-1 key=k-0\n").contains("value=v-0"));
    assert!(here.exchanged(sequence, &blobs).is_empty(), "an exchange is over once");
}

#[test]
fn a_barrier_that_cannot_be_ends_with_an_error() {
    let (mut server, client) = started(1, 2);
    let effects = server.receive(client, b"cmd=barrier_in\n");
    let [Effect::Exchange { sequence, .. }] = effects[..] else { panic!("{effects:?}") };
    assert_eq!(
        text(&server.exchange_failed(sequence)),
        "cmd=barrier_out rc=-1 msg=a_node_was_lost\n"
    );
    let effects = server.receive(client, b"cmd=barrier_in\n");
    let [Effect::Exchange { sequence, .. }] = effects[..] else { panic!("{effects:?}") };
    let damaged = [(0, b"\x01\x02\x03".to_vec().into())];
    assert!(text(&server.exchanged(sequence, &damaged)).contains("rc=-1"));
}

#[test]
fn abort_keeps_its_code_and_words_and_frees_the_client() {
    let (mut server, client) = started(0, 1);
    let line = "cmd=abort exitcode=77 message=application called MPI_Abort(x, 77) - process 1\n";
    let effects = server.receive(client, line.as_bytes());
    let message = "application called MPI_Abort(x, 77) - process 1".to_owned();
    assert_eq!(effects, [Effect::Abort { rank: 1, code: 77, message }, Effect::Close { client }]);
    let (mut server, client) = started(0, 1);
    let effects = server.receive(client, b"cmd=abort\n");
    assert_eq!(effects[0], Effect::Abort { rank: 1, code: 1, message: String::new() });
}

#[test]
fn a_line_without_end_closes_the_connection() {
    let (mut server, client) = started(0, 0);
    let chunk = [b'x'; 10_000];
    for _ in 0..6 {
        assert!(server.receive(client, &chunk).is_empty());
    }
    assert_eq!(server.receive(client, &chunk), [Effect::Close { client }]);
    assert!(server.receive(client, b"\ncmd=get_maxes\n").is_empty(), "it is gone");
}

#[test]
fn two_programs_one_after_the_other_are_served() {
    let (mut server, client) = started(0, 0);
    assert!(server.rank_state(0).left_open());
    say(&mut server, client, "cmd=finalize\n");
    assert!(!server.rank_state(0).left_open());
    assert!(say(&mut server, client, "cmd=init pmi_version=1 pmi_subversion=1\n").contains("rc=0"));
    assert!(server.rank_state(0).left_open());
}
