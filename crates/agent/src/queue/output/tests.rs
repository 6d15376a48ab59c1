use super::*;
use crate::job::protocol::output as of_task;

fn out(text: &[u8]) -> Bytes {
    of_task(kind::OUT, 0, text)
}

fn kept(dir: &Path) -> Arc<Output> {
    Output::open(spool_path(dir, 7), &Files::default()).unwrap()
}

#[tokio::test]
async fn readers_get_everything_from_the_beginning_however_late() {
    let dir = tempfile::tempdir().unwrap();
    let output = kept(dir.path());
    let mut early = output.read();
    output.take(out(b"one\0\xff")).await;
    assert_eq!(early.next().await, Some(out(b"one\0\xff")));
    output.take(of_task(kind::ERR, 3, b"two\n")).await;
    let mut late = output.read();
    output.end();
    for reader in [&mut early, &mut late] {
        let mut last = None;
        while let Some(piece) = reader.next().await {
            last = Some(piece);
        }
        assert_eq!(last, Some(of_task(kind::ERR, 3, b"two\n")));
    }
    drop(output);
    let mut after = Reader::of_spool(spool_path(dir.path(), 7));
    assert_eq!(after.next().await, Some(out(b"one\0\xff")));
    assert_eq!(after.next().await, Some(of_task(kind::ERR, 3, b"two\n")));
    assert_eq!(after.next().await, None);
}

#[tokio::test]
async fn a_job_that_writes_nothing_leaves_no_file() {
    let dir = tempfile::tempdir().unwrap();
    let output = kept(dir.path());
    let mut reader = output.read();
    output.end();
    assert_eq!(reader.next().await, None);
    assert!(!spool_path(dir.path(), 7).exists());
}

#[tokio::test]
async fn behind_the_bound_output_goes_to_readers_alone_and_none_is_lost() {
    let dir = tempfile::tempdir().unwrap();
    let output = kept(dir.path());
    let block = out(&vec![b'x'; 48 * 1024]);
    let blocks = usize::try_from(SPOOL_LIMIT).unwrap() / block.len() + 40;
    let mut reader = output.read();
    let reading = tokio::spawn(async move {
        let (mut blocks, mut notices) = (0, 0);
        while let Some(piece) = reader.next().await {
            match piece[0] {
                kind::OUT => blocks += 1,
                _ => notices += 1,
            }
        }
        (blocks, notices)
    });
    for _ in 0..blocks {
        output.take(block.clone()).await;
    }
    output.end();
    assert_eq!(reading.await.unwrap(), (blocks, 1));
    // Without a reader the job goes on, and the spool stays within its bound.
    let length = fs::metadata(spool_path(dir.path(), 7)).unwrap().len();
    assert!(length <= SPOOL_LIMIT + 200, "{length}");
}

#[tokio::test]
async fn output_goes_to_its_file_with_labels_and_errors_follow_it() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("out.txt");
    let files = Files { output: Some(&path), label: true, ..Files::default() };
    let output = Output::open(spool_path(dir.path(), 7), &files).unwrap();
    output.take(of_task(kind::OUT, 1, b"a\n")).await;
    output.take(of_task(kind::ERR, 0, b"b\n")).await;
    output.end();
    assert_eq!(fs::read_to_string(&path).unwrap(), "1: a\n0: b\n");
    let nowhere = dir.path().join("no/such/file");
    let files = Files { output: Some(&nowhere), ..Files::default() };
    let error = Output::open(spool_path(dir.path(), 8), &files).unwrap_err();
    assert!(error.contains("no/such/file"), "{error}");
}
