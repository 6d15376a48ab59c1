//! Connections of all kinds at one server.

use super::*;
use crate::layout::{Job, JobSpec};

fn server(ranks: u32) -> JobServer {
    let job = Job::new(JobSpec {
        namespace: "kvs-1".into(),
        id: "1".into(),
        hosts: vec!["node-0".into()],
        node_of: vec![0; ranks as usize],
        ..JobSpec::default()
    });
    JobServer::new(Layout::new(job.unwrap(), 0, "/tmp/job").unwrap(), Options::default())
}

const INIT: [&[u8]; 2] =
    [b"cmd=init pmi_version=1 pmi_subversion=1\n", b"cmd=init pmi_version=2 pmi_subversion=0\n"];

fn text(effects: &[Effect]) -> String {
    let text = |effect: &Effect| match effect {
        Effect::Reply { bytes, .. } => Some(bytes.to_vec().escape_ascii().to_string()),
        _ => None,
    };
    effects.iter().filter_map(text).collect()
}

#[test]
fn a_rank_by_port_says_who_it_is() {
    let mut server = server(2);
    let client = server.connect_tcp_pmi();
    let effects = server.receive(client, b"cmd=initack pmiid=1\n");
    let lines = "cmd=initack rc=0\\ncmd=set size=2\\ncmd=set rank=1\\ncmd=set debug=0\\n";
    assert_eq!(text(&effects), lines);
    let effects = server.receive(client, INIT[0]);
    assert_eq!(effects[0], Effect::Wire { rank: 1, protocol: Protocol::Pmi1 });
    for line in [&b"cmd=initack pmiid=1\n"[..], b"cmd=initack pmiid=2\n", b"cmd=get_maxes\n"] {
        let other = server.connect_tcp_pmi();
        let effects = server.receive(other, line);
        assert_eq!(text(&effects), "cmd=initack rc=-1 msg=rank_not_accepted\\n");
        assert_eq!(effects.last(), Some(&Effect::Close { client: other }));
    }
}

#[test]
fn single_node_fences_need_no_exchange() {
    let mut server = server(2);
    let clients = [server.connect_fd(0), server.connect_fd(1)];
    for client in clients {
        server.receive(client, INIT[0]);
    }
    assert!(server.receive(clients[0], b"cmd=barrier_in\n").is_empty());
    let effects = server.receive(clients[1], b"cmd=barrier_in\n");
    assert_eq!(text(&effects), "cmd=barrier_out rc=0\\n".repeat(2));
}

#[test]
fn ranks_of_different_protocols_end_the_job_instead_of_waiting() {
    let mut server = server(2);
    let clients = [server.connect_fd(0), server.connect_fd(1)];
    server.receive(clients[0], INIT[0]);
    server.receive(clients[1], INIT[1]);
    assert!(server.receive(clients[0], b"cmd=barrier_in\n").is_empty());
    let effects = server.receive(clients[1], b"14    cmd=kvs-fence;");
    let [Effect::Abort { code: 1, message, .. }] = &effects[..] else { panic!("{effects:?}") };
    assert!(message.contains("PMI-1, PMI-2") && message.contains("--mpi"), "{message}");
}

#[test]
fn a_client_that_leaves_a_barrier_is_missed() {
    let mut server = server(2);
    let clients = [server.connect_fd(0), server.connect_fd(1)];
    for client in clients {
        server.receive(client, INIT[0]);
    }
    server.receive(clients[0], b"cmd=barrier_in\n");
    server.closed(clients[0]);
    assert!(server.receive(clients[1], b"cmd=barrier_in\n").is_empty());
    let (state, _) = server.rank_exited(0, Exit::Success);
    assert!(state.left_open());
    assert_eq!(state.protocol, Some(Protocol::Pmi1));
}

#[test]
fn a_rank_that_never_speaks_is_no_mpi_program() {
    let mut server = server(1);
    server.connect_fd(0);
    let (state, effects) = server.rank_exited(0, Exit::Success);
    assert_eq!((state, effects), (RankState::default(), Vec::new()));
    assert!(!state.left_open());
}

/// Openings of two protocols: what a rank says first, and how it enters a fence.
const ENTER: [&[u8]; 2] = [b"cmd=barrier_in\n", b"14    cmd=kvs-fence;"];

#[test]
fn a_rank_that_ends_without_init_is_missed_by_those_who_wait() {
    for (init, enter) in INIT.into_iter().zip(ENTER) {
        // It ends before the others come to the fence, or after.
        for late in [false, true] {
            let mut server = server(3);
            let clients = [0, 1, 2].map(|rank| server.connect_fd(rank));
            let mut effects = Vec::new();
            if !late {
                effects.extend(server.rank_exited(2, Exit::Success).1);
                assert!(effects.is_empty(), "nobody waits yet: {effects:?}");
            }
            for client in &clients[..2] {
                server.receive(*client, init);
                effects.extend(server.receive(*client, enter));
            }
            if late {
                assert!(effects.is_empty(), "{effects:?}");
                effects = server.rank_exited(2, Exit::Success).1;
            }
            assert_eq!(effects, [Effect::Deserted { rank: 2, initialized: false }]);
        }
    }
}

#[test]
fn ranks_that_do_not_use_mpi_may_end_when_they_like() {
    let mut server = server(3);
    for rank in 0..3 {
        server.connect_fd(rank);
        assert!(server.rank_exited(rank, Exit::Success).1.is_empty());
    }
}

#[test]
fn a_rank_that_fails_is_not_called_a_deserter() {
    let mut server = server(2);
    let clients = [server.connect_fd(0), server.connect_fd(1)];
    server.receive(clients[0], INIT[0]);
    server.receive(clients[0], ENTER[0]);
    assert!(server.rank_exited(1, Exit::Failure).1.is_empty());
}

#[test]
fn exchanges_are_counted_by_protocol() {
    let mut server = server(1);
    let client = server.connect_fd(0);
    server.receive(client, INIT[1]);
    assert_eq!(server.exchanges(), [0, 0, 0]);
    server.receive(client, ENTER[1]);
    server.receive(client, ENTER[1]);
    assert_eq!(server.exchanges(), [0, 2, 0]);
}

#[test]
fn ranks_of_other_nodes_are_not_served_by_mistake() {
    let mut server = server(1);
    let client = server.connect_fd(5);
    assert!(text(&server.receive(client, INIT[0])).contains("rc=0"));
    assert_eq!(server.receive(client, b"cmd=barrier_in\n"), [Effect::Close { client }]);
    assert_eq!(server.rank_state(5), RankState::default());
}
