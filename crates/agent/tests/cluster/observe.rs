//! The status channel, with a client that has nothing but the contract and a TLS library.

use crate::pods::{PATIENCE, Plan, Pods, signal};
use quorate_contract::ClusterStatus;
use quorate_contract::keys::{Holder, Keyring, Seed};
use quorate_contract::observe::{self, Ask, Lines, MOST_TOLD, Tell};
use quorate_contract::report::Reason;
use quorate_contract::status::BrokerState;
use quorate_tls::{Cause, Identity, Pinned, cause, server_name};
use rustls::{ClientConnection, StreamOwned};
use std::fs;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Instant;

/// The seed of all clusters of these tests.
const SEED: [u8; 32] = [7; 32];

struct Observer {
    stream: StreamOwned<ClientConnection, TcpStream>,
    lines: Lines,
}

impl Observer {
    fn of(pods: &Pods, rank: u32) -> Self {
        Self::with(pods, rank, SEED)
    }

    fn with(pods: &Pods, rank: u32, seed: [u8; 32]) -> Self {
        let keyring = Keyring::new(&Seed::new(seed), &pods.uid());
        let peer = Pinned::new(keyring.public(Holder::Observed));
        let mut config = Identity::new(&keyring, Holder::Observer).client(peer);
        config.alpn_protocols = vec![observe::ALPN.to_vec()];
        let mut tcp =
            pods.wait("a listening broker", || TcpStream::connect(pods.network.address(rank)).ok());
        tcp.set_read_timeout(Some(PATIENCE)).unwrap();
        tcp.write_all(&observe::PREAMBLE).unwrap();
        let connection = ClientConnection::new(Arc::new(config), server_name()).unwrap();
        Self { stream: StreamOwned::new(connection, tcp), lines: Lines::new(MOST_TOLD) }
    }

    /// What is said next; `None` at the end.
    fn hear(&mut self) -> io::Result<Option<Tell>> {
        loop {
            if let Some(tell) = self.lines.next_line().map_err(io::Error::other)? {
                return Ok(Some(tell));
            }
            let mut bytes = [0; 4096];
            match self.stream.read(&mut bytes)? {
                0 => return Ok(None),
                count => self.lines.push(&bytes[..count]),
            }
        }
    }

    fn status(&mut self) -> ClusterStatus {
        match self.hear() {
            Ok(Some(Tell::Status(status))) => *status,
            other => panic!("no status: {other:?}"),
        }
    }

    /// Reads until a status is as wanted.
    fn until(&mut self, wanted: impl Fn(&ClusterStatus) -> bool) -> ClusterStatus {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let status = self.status();
            if wanted(&status) {
                return status;
            }
            assert!(Instant::now() < deadline, "in vain: {status:?}");
        }
    }

    fn ask(&mut self, ask: &Ask) {
        self.stream.write_all(&observe::line(ask)).unwrap();
        self.stream.flush().unwrap();
    }
}

#[test]
fn an_observer_is_told_at_once_and_of_each_change() {
    let mut pods = Plan::new(3).start();
    pods.wait_running();
    let mut observer = Observer::of(&pods, 0);
    let status = observer.status();
    assert_eq!((status.state, status.online, status.size), (BrokerState::Run, 3, 3));
    assert_eq!(status.boot.len(), 32, "{}", status.boot);
    assert!(status.phases.quorate.is_some(), "{:?}", status.phases);
    let figures = status.figures.unwrap();
    assert!(figures.bytes_in > 0 && figures.bytes_out > 0, "{figures:?}");
    let round_trip = figures.round_trip.unwrap();
    assert_eq!(round_trip.brokers, 2);
    // Who takes longer than a second counts as that slow.
    assert!(round_trip.median_micros > 0 && round_trip.most_micros <= 1_000_000, "{round_trip:?}");

    let killed = Instant::now();
    pods.kill_pod(2);
    let status = observer.until(|status| status.online == 2);
    // Sooner than a status is due anyway.
    assert!(killed.elapsed() < observe::REFRESH, "{:?}", killed.elapsed());
    assert_eq!((&*status.missing[0].pod, status.missing.len()), ("worker-0-1", 1));
}

#[test]
fn a_worker_sends_observers_to_the_launcher() {
    let pods = Plan::new(2).start();
    pods.wait_running();
    let mut observer = Observer::of(&pods, 1);
    match observer.hear().unwrap() {
        Some(Tell::Refused(reason)) => assert!(
            reason.contains("worker-0-0") && reason.contains("ask launcher-0-0"),
            "{reason}"
        ),
        other => panic!("{other:?}"),
    }
    assert_eq!(observer.hear().unwrap(), None);
}

#[test]
fn an_observer_with_another_seed_is_told_nothing() {
    let pods = Plan::new(1).start();
    pods.wait_running();
    let error = Observer::with(&pods, 0, [8; 32]).hear().unwrap_err();
    assert_eq!(cause(&error), Cause::WrongKey, "{error}");
    assert_eq!(Observer::of(&pods, 0).status().online, 1, "others are served");
}

#[test]
fn a_running_cluster_takes_another_size_and_lets_ranks_go() {
    let mut pods = Plan { min_size: 2, ..Plan::new(3) }.prepare();
    pods.start(0);
    pods.start(1);
    let mut observer = Observer::of(&pods, 0);
    let status = observer.until(|status| status.state == BrokerState::Run);
    assert_eq!((status.size, status.missing.len()), (3, 1));

    observer.ask(&Ask::Size(2));
    let status = observer.until(|status| status.size == 2);
    assert_eq!((status.online, status.missing.len()), (2, 0));

    observer.ask(&Ask::Size(3));
    observer.until(|status| status.missing.len() == 1);
    pods.start(2);
    observer.until(|status| status.online == 3 && status.missing.is_empty());

    signal(pods.supervisor(2), 15);
    assert_eq!(pods.wait_exit(2), 143);
    let status = observer.until(|status| status.online == 2);
    assert_eq!(status.missing.len(), 1, "nobody has said yet that it may go");
    observer.ask(&Ask::Size(2));
    let status = observer.until(|status| status.size == 2);
    assert_eq!((status.online, status.missing.len()), (2, 0));
    assert_eq!(status.state, BrokerState::Run);

    observer.ask(&Ask::Size(4));
    let refusal = loop {
        match observer.hear().unwrap() {
            Some(Tell::Status(_)) => {}
            Some(Tell::Refused(reason)) => break reason,
            None => panic!("no reason"),
        }
    };
    assert!(refusal.contains("from 1 to 3"), "{refusal}");
}

#[test]
fn an_observer_hears_how_the_program_ended() {
    // The script waits for a file that appears in its own directory.
    let go = tempfile::tempdir().unwrap();
    let file = go.path().join("go");
    let script = format!("while ! test -e {}; do sleep 0.02; done; exit 3", file.display());
    let mut pods = Plan::script(2, &script).start();
    let mut observer = Observer::of(&pods, 0);
    let status = observer.until(|status| status.program.is_some());
    assert!(status.report.is_none() && status.phases.program_started.is_some());
    fs::write(&file, "").unwrap();
    let status = observer.until(|status| status.report.is_some());
    let report = status.report.unwrap();
    assert_eq!((report.exit_code, report.reason), (3, Reason::ProgramFailed));
    assert!(report.phases.program_ended.is_some());
    assert_eq!(pods.wait_exit(0), 3);
}

#[test]
fn the_newest_observer_takes_the_place_of_the_oldest() {
    let pods = Plan::new(1).start();
    pods.wait_running();
    let mut observers: Vec<Observer> = (0..16).map(|_| Observer::of(&pods, 0)).collect();
    for observer in &mut observers {
        observer.status();
    }
    let mut newest = Observer::of(&pods, 0);
    newest.status();
    assert!(!matches!(observers[0].hear(), Ok(Some(_))), "the oldest is shut out");
    // Told again when it is due, as are all others.
    observers[1].status();
}

#[test]
fn who_asks_in_other_words_is_shut_out() {
    let pods = Plan::new(1).start();
    pods.wait_running();
    for wrong in [b"{\"stop\":true}\n".to_vec(), vec![b'x'; 2048]] {
        let mut observer = Observer::of(&pods, 0);
        observer.status();
        observer.stream.write_all(&wrong).unwrap();
        observer.stream.flush().unwrap();
        assert!(!matches!(observer.hear(), Ok(Some(_))));
    }
}
