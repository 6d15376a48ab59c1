//! Output and input: nothing lost, nothing mixed, nothing piled up.

use crate::typing::{Marks, cluster, code, run, stderr, stdout, typed, wait_gone};
use std::fs;
use std::io::{Read, Write};
use std::process::Stdio;

#[test]
fn a_hundred_megabytes_arrive_intact() {
    let pods = cluster(3);
    let marks = Marks::new();
    let file = marks.path("data");
    // Neither text nor of one line length; a small generator keeps the test quick.
    let mut state = 1u32;
    let block: Vec<u8> = (0..1_000_003)
        .map(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        })
        .collect();
    let data = block.repeat(100);
    fs::write(&file, &data).unwrap();
    // From the last pod to a client on the second, by way of the leader.
    let output = run(&pods, 1, &["exec", "-r", "2", "cat", file.to_str().unwrap()]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert_eq!(output.stdout.len(), data.len());
    assert!(output.stdout == data, "the bytes differ");
}

#[test]
fn lines_of_ranks_are_never_mixed() {
    let pods = cluster(2);
    let script = "i=0; while [ $i -lt 500 ]; do \
                  echo $QUORATE_TASK_RANK-aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa-$i; i=$((i+1)); done";
    for label in [false, true] {
        let words: Vec<&str> = ["run", "-N2", "-n4"]
            .into_iter()
            .chain(label.then_some("-l"))
            .chain(["sh", "-c", script])
            .collect();
        let output = run(&pods, 0, &words);
        let mut next = [0; 4];
        for line in stdout(&output).lines() {
            let line = if label {
                let (rank, line) = line.split_once(": ").unwrap();
                assert!(line.starts_with(&format!("{rank}-")), "{line}");
                line
            } else {
                line
            };
            let (rank, rest) = line.split_once('-').unwrap();
            let rank: usize = rank.parse().unwrap();
            assert_eq!(rest, format!("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa-{}", next[rank]));
            next[rank] += 1;
        }
        assert_eq!(next, [500; 4]);
    }
}

#[test]
fn a_long_line_is_labelled_once_if_nobody_comes_between() {
    let pods = cluster(1);
    let script = "head -c 1000000 /dev/zero | tr '\\0' x";
    let output = run(&pods, 0, &["run", "-l", "sh", "-c", script]);
    assert_eq!(output.stdout.len(), 1_000_003);
    assert!(stdout(&output).starts_with("0: xxx"));
}

#[test]
fn stdout_and_stderr_keep_apart() {
    let pods = cluster(2);
    let output = run(&pods, 0, &["run", "-N2", "sh", "-c", "echo out; echo err >&2"]);
    assert_eq!((stdout(&output).as_str(), stderr(&output).as_str()), ("out\nout\n", "err\nerr\n"));
}

#[test]
fn stdin_goes_to_rank_0_or_to_all_or_to_none() {
    let pods = cluster(2);
    let data = vec![b'x'; 1_000_000];
    let counts = |flag: &str| {
        let words = ["run", "-l", "-N2", flag, "sh", "-c", "wc -c"];
        let mut child = typed(&pods, 1, &words).stdin(Stdio::piped()).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let data = data.clone();
        let writer = std::thread::spawn(move || {
            // With none the client does not read it.
            let _ = stdin.write_all(&data);
        });
        let output = child.wait_with_output().unwrap();
        writer.join().unwrap();
        assert_eq!(code(&output), 0, "{}", stderr(&output));
        let mut lines: Vec<String> = stdout(&output).lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    assert_eq!(counts("--stdin=first"), ["0: 1000000", "1: 0"]);
    assert_eq!(counts("--stdin=all"), ["0: 1000000", "1: 1000000"]);
    assert_eq!(counts("--stdin=none"), ["0: 0", "1: 0"]);
}

#[test]
fn a_task_that_stops_reading_stdin_hangs_nobody() {
    let pods = cluster(2);
    let mut child =
        typed(&pods, 0, &["run", "head", "-c", "3"]).stdin(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let writer = std::thread::spawn(move || {
        let _ = stdin.write_all(&vec![b'y'; 3_000_000]);
    });
    let output = child.wait_with_output().unwrap();
    assert_eq!((code(&output), stdout(&output).as_str()), (0, "yyy"));
    writer.join().unwrap();
}

#[test]
fn a_reader_that_has_seen_enough_ends_the_job() {
    let pods = cluster(2);
    let marks = Marks::new();
    let script = format!("{} exec yes", marks.leave("pid"));
    let mut child = typed(&pods, 0, &["run", "sh", "-c", &script]).spawn().unwrap();
    let mut start = [0; 4];
    child.stdout.take().unwrap().read_exact(&mut start).unwrap();
    assert_eq!(&start, b"y\ny\n");
    // Its stdout is closed now.
    let output = child.wait_with_output().unwrap();
    assert_eq!((code(&output), stderr(&output).as_str()), (141, ""));
    wait_gone(marks.pid("pid"));
}

#[test]
fn a_slow_reader_slows_the_task_and_loses_nothing() {
    let pods = cluster(2);
    let words = ["exec", "-r", "1", "sh", "-c", "seq 1 200000"];
    let mut child = typed(&pods, 0, &words).spawn().unwrap();
    let mut pipe = child.stdout.take().unwrap();
    let mut text = Vec::new();
    let mut block = vec![0; 65_536];
    loop {
        let count = pipe.read(&mut block).unwrap();
        if count == 0 {
            break;
        }
        text.extend_from_slice(&block[..count]);
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    let lines: Vec<String> = (1..=200_000).map(|n| n.to_string()).collect();
    let want = lines.join("\n") + "\n";
    assert!(String::from_utf8(text).unwrap() == want);
    assert!(child.wait().unwrap().success());
}
