//! Bytes and effects through real sockets. What the server says is tested in `quorate_pmi`.

use super::*;
use quorate_pmi::{Job, JobSpec};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// Two nodes of which this is the first; the other brings what is in `other`, when it is told.
struct Pair {
    other: Vec<u8>,
    go: Arc<tokio::sync::Notify>,
}

impl Exchanger for Pair {
    fn exchange(&self, _: u64, blob: Bytes) -> BoxFuture<Result<Blobs, String>> {
        let (other, go) = (self.other.clone(), self.go.clone());
        Box::pin(async move {
            go.notified().await;
            if other.is_empty() {
                return Err("rank 1 was lost".to_string());
            }
            Ok(vec![(0, Arc::from(&blob[..])), (1, Arc::from(&other[..]))])
        })
    }

    fn modex(&self, _: u32, _: u32) -> BoxFuture<Option<Vec<u8>>> {
        Box::pin(async { None })
    }
}

fn server(exchanger: Pair) -> (Server, mpsc::UnboundedReceiver<Event>) {
    let spec = JobSpec {
        namespace: "q-test".into(),
        id: "1".into(),
        hosts: vec!["a".into(), "b".into()],
        node_of: vec![0, 1],
        ..JobSpec::default()
    };
    let layout = Layout::new(Job::new(spec).unwrap(), 0, "/nonexistent").unwrap();
    let (events, queue) = mpsc::unbounded_channel();
    let ways = Ways { offer: Offer::Pmi1, pmi_port: false };
    (Server::open(layout, ways, Box::new(exchanger), events).unwrap(), queue)
}

/// A rank's end, as its process would use it.
fn rank(server: &Server) -> UnixStream {
    let stream = UnixStream::from(server.rank_end(0).unwrap().unwrap());
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    stream
}

/// Says lines and reads as many in answer, away from the server's thread.
async fn talk(mut stream: UnixStream, lines: &'static [&'static str]) -> (UnixStream, Vec<String>) {
    tokio::task::spawn_blocking(move || {
        let mut answers = Vec::new();
        for line in lines {
            stream.write_all(line.as_bytes()).unwrap();
            let mut answer = Vec::new();
            let mut byte = [0];
            while stream.read(&mut byte).unwrap() == 1 && byte[0] != b'\n' {
                answer.push(byte[0]);
            }
            answers.push(String::from_utf8(answer).unwrap());
        }
        (stream, answers)
    })
    .await
    .unwrap()
}

const INIT: &str = "cmd=init pmi_version=1 pmi_subversion=1\n";

#[tokio::test]
async fn a_rank_talks_to_its_server_and_meets_the_other_node() {
    let go = Arc::new(tokio::sync::Notify::new());
    // What the other node would bring is of the server's own making: nothing published.
    let (probe, _events) = server(Pair { other: vec![0], go: go.clone() });
    let (stream, answers) = talk(rank(&probe), &[INIT, "cmd=get_appnum\n"]).await;
    assert_eq!(answers[0], "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0");
    assert_eq!(answers[1], "cmd=appnum appnum=0 rc=0");
    let (state, protocol) = probe.rank_exited(0, Exit::Success);
    assert!(state.initialized && !state.finalized);
    assert_eq!(protocol, Some(Protocol::Pmi1));
    drop(stream);
    assert_eq!(probe.close(), []);
}

#[tokio::test]
async fn the_last_words_of_a_rank_count_even_if_nobody_has_read_them_yet() {
    let go = Arc::new(tokio::sync::Notify::new());
    let (server, _events) = server(Pair { other: vec![0], go });
    let (mut stream, _) = talk(rank(&server), &[INIT]).await;
    // Written and left at once, as by a process that exits; the server's task has not run since.
    stream.write_all(b"cmd=finalize\n").unwrap();
    drop(stream);
    let (state, _) = server.rank_exited(0, Exit::Success);
    assert!(state.finalized);
}

#[tokio::test]
async fn an_abort_reaches_the_job() {
    let go = Arc::new(tokio::sync::Notify::new());
    let (server, mut events) = server(Pair { other: vec![0], go });
    let (mut stream, _) = talk(rank(&server), &[INIT]).await;
    stream.write_all(b"cmd=abort exitcode=77\n").unwrap();
    let event = tokio::time::timeout(Duration::from_secs(10), events.recv()).await.unwrap();
    let Some(Event::Abort { rank, code, .. }) = event else { panic!("no abort") };
    assert_eq!((rank, code), (0, 77));
}

#[tokio::test]
async fn a_failed_exchange_does_not_leave_its_ranks_waiting() {
    let go = Arc::new(tokio::sync::Notify::new());
    let (server, mut events) = server(Pair { other: Vec::new(), go: go.clone() });
    let (mut stream, _) = talk(rank(&server), &[INIT]).await;
    stream.write_all(b"cmd=barrier_in\n").unwrap();
    go.notify_one();
    // Either the rank hears of it, or the job is told to end.
    let answer = tokio::task::spawn_blocking(move || {
        let mut text = [0; 256];
        stream.read(&mut text).map(|count| String::from_utf8_lossy(&text[..count]).into_owned())
    });
    tokio::select! {
        answer = answer => assert!(!answer.unwrap().unwrap().contains("rc=0")),
        event = events.recv() => assert!(matches!(event, Some(Event::Abort { .. }))),
    }
}
