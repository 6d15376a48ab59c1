//! Output without end: byte for byte what the task wrote, at the pace of who reads it, in little memory.
//!
//! More goes through each test than all buffers may hold together; `QUORATE_FLOOD_MEGABYTES=2048` makes it
//! two gigabytes (`cargo xtask soak` does).

use crate::asking::{ended, submit};
use crate::pods::Pods;
use crate::typing::{Marks, cluster, code, stderr, typed};
use std::fs::{self, File};
use std::io::Read;
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

/// What a broker may take for a flood, beyond what it has taken before: all queues and windows of a
/// channel, with room for the allocator.
const MOST: u64 = 48 << 20;

/// What the producer may write while nobody reads.
const WINDOWS: u64 = 48 << 20;

/// Bytes of the piece that is written again and again. No power of two, so that pieces of any size begin
/// elsewhere in it each time.
const PIECE: usize = 4_000_037;

/// How many pieces are written.
fn pieces() -> usize {
    let megabytes = std::env::var("QUORATE_FLOOD_MEGABYTES").ok();
    let megabytes: usize = megabytes.map_or(96, |text| text.parse().unwrap());
    (megabytes << 20).div_ceil(PIECE)
}

/// All bytes there are, in no order.
fn noise() -> Vec<u8> {
    let mut state = 7u32;
    let mut byte = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    (0..PIECE).map(|_| byte()).collect()
}

/// A line of shell that writes the piece so often, and how often by now to a file.
fn producer(marks: &Marks, piece: &[u8]) -> String {
    let file = marks.path("piece");
    fs::write(&file, piece).unwrap();
    let (file, done) = (file.display().to_string(), marks.path("done").display().to_string());
    let count = pieces();
    format!("i=0; while [ $i -lt {count} ]; do cat {file}; i=$((i+1)); echo $i >{done}; done")
}

fn written(marks: &Marks) -> u64 {
    let count = fs::read_to_string(marks.path("done")).unwrap_or_default();
    count.trim().parse::<u64>().unwrap_or(0) * PIECE as u64
}

/// Reads to the end and compares with the piece, again and again; gives how much it was.
fn compare(mut from: impl Read, piece: &[u8], mut at: usize) -> usize {
    let mut block = vec![0; 1 << 20];
    loop {
        let count = from.read(&mut block).unwrap();
        if count == 0 {
            return at;
        }
        let mut rest = &block[..count];
        while !rest.is_empty() {
            let place = at % piece.len();
            let length = rest.len().min(piece.len() - place);
            assert!(rest[..length] == piece[place..place + length], "other bytes behind {at}");
            rest = &rest[length..];
            at += length;
        }
    }
}

/// The most memory that a process has ever had.
fn peak(pid: i32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().strip_suffix("kB").unwrap().trim().parse::<u64>().unwrap() << 10
}

fn peaks(pods: &Pods) -> Vec<u64> {
    (0..2).map(|rank| peak(pods.broker(rank))).collect()
}

fn bounded(pods: &Pods, before: &[u64]) {
    for (rank, (now, before)) in peaks(pods).into_iter().zip(before).enumerate() {
        assert!(now < before + MOST, "rank {rank} took {now} bytes, {before} before");
    }
}

#[test]
fn a_flood_arrives_byte_for_byte_at_the_readers_pace_in_bounded_memory() {
    let pods = cluster(2);
    let (marks, piece) = (Marks::new(), noise());
    let before = peaks(&pods);
    let script = producer(&marks, &piece);
    // From the worker over the leader to a client that first does not read at all.
    let script = format!("test $QUORATE_BROKER_RANK = 1 || exit 0; {script}");
    let words = ["run", "-N2", "--unbuffered", "sh", "-c", &script];
    let mut child = typed(&pods, 0, &words).spawn().unwrap();
    let mut pipe = child.stdout.take().unwrap();
    let mut first = [0; 1000];
    pipe.read_exact(&mut first).unwrap();
    assert!(first[..] == piece[..first.len()]);
    // The task stands still once everything between is full.
    let (mut last, mut still) = (0, 0);
    while still < 50 {
        sleep(Duration::from_millis(10));
        let now = written(&marks);
        still = if now == last { still + 1 } else { 0 };
        last = now;
    }
    assert!(last < WINDOWS, "{last} bytes were taken that nobody read");
    let all = compare(pipe, &piece, first.len());
    assert_eq!(all, pieces() * PIECE);
    let output = child.wait_with_output().unwrap();
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    bounded(&pods, &before);
}

#[test]
fn a_flood_into_a_file_is_whole_and_takes_little_memory() {
    let pods = cluster(2);
    let (marks, piece) = (Marks::new(), noise());
    let before = peaks(&pods);
    let file = marks.path("out").display().to_string();
    let script = producer(&marks, &piece);
    let words = ["--requires", "rank:1", "--output", &file, "sh", "-c", &script];
    let id = submit(&pods, 0, &words);
    // Waiting has no bound of its own here: the file grows, or the test's time is over.
    while !is_over(&pods, id, Path::new(&file)) {}
    assert_eq!(ended(&pods, id), 0);
    assert_eq!(compare(File::open(&file).unwrap(), &piece, 0), pieces() * PIECE);
    bounded(&pods, &before);
}

/// Whether a job is over, after a while in which its file has grown.
fn is_over(pods: &Pods, id: u64, file: &Path) -> bool {
    let length = || fs::metadata(file).map_or(0, |meta| meta.len());
    let before = length();
    crate::typing::wait("more of the file, or the end", || {
        let over = crate::asking::job(pods, id)["state"] == "INACTIVE";
        (over || length() > before).then_some(over)
    })
}
