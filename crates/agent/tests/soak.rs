//! Many jobs while brokers are killed, stopped and cut off, rank 0 among them: none is lost, none runs twice,
//! and nothing is left. What is done to the brokers is drawn from a seed that is printed, and the same for
//! the same seed. `cargo xtask soak` runs it longer, by the variables `QUORATE_SOAK_SEED`, `QUORATE_SOAK_JOBS`
//! and `QUORATE_SOAK_MINUTES`.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "all of it is test code, helpers included; a failing test tells the pods' logs"
)]

#[path = "queue/asking.rs"]
#[allow(dead_code, reason = "the tests of the queue need the rest")]
mod asking;
#[path = "soak/faults.rs"]
mod faults;
#[path = "soak/jobs.rs"]
mod jobs;
#[path = "cluster/pods.rs"]
#[allow(dead_code, reason = "the other tests of pods need the rest")]
mod pods;
#[path = "soak/relay.rs"]
mod relay;
#[path = "launch/typing.rs"]
#[allow(dead_code, reason = "the tests of launching need the rest")]
mod typing;

use faults::{Blow, Dice, Faults};
use jobs::{Fate, Scripts, fates, nested_starts, starts};
use pods::{Plan, Pods, Special, signal};
use quorate_contract::config::Slots;
use relay::Relay;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use typing::{Marks, code, run, stderr, stdout, wait};

/// Brokers, and slots of each.
const BROKERS: u32 = 4;
const SLOTS: u32 = 4;

/// How long it may take until the next job ends when nothing is disturbed any more.
const CALM: Duration = Duration::from_mins(2);

fn variable(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().expect("a number"))
}

/// Pods whose workers reach the launcher by ways that can be cut.
fn start() -> (Pods, Vec<Relay>, Vec<PathBuf>) {
    let plan = Plan { slots: Slots::Fixed(SLOTS), haste: 3, ..Plan::new(BROKERS) };
    let mut pods = plan.prepare();
    let book = |rank: u32| pods.hosts_with(0, &pods.network.beside(rank));
    let books: Vec<PathBuf> = (1..BROKERS).map(book).collect();
    let relays = (1..BROKERS)
        .map(|rank| Relay::open(&pods.network.beside(rank), pods.network.address(0)).unwrap())
        .collect();
    pods.start(0);
    for (rank, hosts) in (1..).zip(&books) {
        pods.start_special(rank, by(hosts));
    }
    pods.wait_running();
    (pods, relays, books)
}

fn by(hosts: &Path) -> Special {
    Special { hosts: Some(hosts.to_owned()), ..Special::default() }
}

/// Disturbs the cluster until told otherwise; leaves it whole. Counts what was done by its kind, and pods
/// that ended by themselves, being cut off, and were replaced.
fn disturb(
    pods: &Pods,
    (relays, books): (&[Relay], &[PathBuf]),
    seed: u64,
    enough: &AtomicBool,
) -> BTreeMap<&'static str, u32> {
    let mut counts = BTreeMap::new();
    let mut replaced = 0;
    let mut replace = || {
        let ended =
            (1..).zip(books).filter(|(rank, hosts)| pods.replace_if_ended(*rank, by(hosts)));
        replaced += ended.count() as u32;
    };
    for fault in Faults::of(seed, BROKERS) {
        replace();
        if enough.load(Ordering::SeqCst) {
            break;
        }
        thread::sleep(fault.after);
        *counts.entry(fault.kind()).or_default() += 1;
        match fault.blow {
            Blow::Kill(rank) => signal(pods.broker(rank), 9),
            Blow::KillBoth([first, second], between) => {
                signal(pods.broker(first), 9);
                thread::sleep(between);
                signal(pods.broker(second), 9);
            }
            Blow::Pause(rank, time) => {
                let broker = pods.broker(rank);
                signal(broker, 19);
                thread::sleep(time);
                signal(broker, 18);
            }
            Blow::Cut(rank, time) => {
                let relay = &relays[rank as usize - 1];
                relay.cut();
                thread::sleep(time);
                relay.mend();
            }
        }
    }
    // Who was cut off last may yet find that it was for too long.
    let settled = Instant::now() + Duration::from_secs(1);
    while Instant::now() < settled || pods.status(0).is_none_or(|it| it.online < BROKERS) {
        replace();
        assert!(Instant::now() < settled + CALM, "the cluster is not whole again");
        thread::sleep(Duration::from_millis(50));
    }
    counts.insert("pods replaced", replaced);
    counts
}

/// Submits jobs in pieces, from any pod, until there are enough or it is time; gives the numbers that
/// were told, and how many of each kind.
fn submit(
    pods: &Pods,
    scripts: &Scripts,
    dice: &mut Dice,
    jobs: u64,
    until: Option<Instant>,
) -> (Vec<u64>, BTreeMap<&'static str, u64>) {
    let (mut told, mut kinds) = (Vec::new(), BTreeMap::new());
    while (told.len() as u64) < jobs && until.is_none_or(|until| Instant::now() < until) {
        let some = (1 + dice.roll(60)).min(jobs - told.len() as u64);
        let (kind, rank) = (dice.roll(8), dice.roll(u64::from(BROKERS)) as u32);
        let cc = format!("1-{some}");
        let array = format!("1-{some}%{}", 1 + dice.roll(6));
        let earlier = told.get(dice.roll(told.len().max(1) as u64) as usize).copied().unwrap_or(1);
        let condition = if dice.roll(2) == 0 { "afterany" } else { "afterok" };
        let after = format!("{condition}:{earlier}");
        let (kind, words) = match kind {
            0 | 1 => ("again", vec!["submit", "--requeue", "--cc", &cc]),
            2 => ("wide", vec!["submit", "-N2", "--cc", &cc]),
            3 => ("array", vec!["submit", "--array", &array]),
            4 if !told.is_empty() => ("after", vec!["submit", "--dependency", &after, "--cc", &cc]),
            5 => ("nested", vec!["batch", "-N2", "-n4", "--wrap", &scripts.nested]),
            _ => ("once", vec!["submit", "--cc", &cc]),
        };
        let command: &[&str] = if kind == "nested" { &[] } else { &["sh", "-c", &scripts.task] };
        let words = [&words[..1], &["--name", kind], &words[1..], command].concat();
        let output = run(pods, rank, &words);
        if output.status.success() {
            let before = told.len();
            told.extend(stdout(&output).lines().map(|id| id.parse::<u64>().unwrap()));
            *kinds.entry(kind).or_default() += (told.len() - before) as u64;
        } else {
            // Nobody was there, or went before the answer: it may have been taken or not.
            thread::sleep(Duration::from_millis(50));
        }
    }
    (told, kinds)
}

#[test]
fn jobs_end_once_and_none_is_lost_while_brokers_are_killed_stopped_and_cut_off() {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let seed = variable("QUORATE_SOAK_SEED").unwrap_or(now.as_millis() as u64);
    let jobs = variable("QUORATE_SOAK_JOBS").unwrap_or(1_000);
    let until = variable("QUORATE_SOAK_MINUTES");
    let until = until.map(|minutes| Instant::now() + Duration::from_secs(60 * minutes));
    eprintln!("seed {seed}: QUORATE_SOAK_SEED={seed} does the same again");
    let (pods, relays, books) = start();
    let marks = Marks::new();
    let (started, inner) = (marks.path("started"), marks.path("nested"));
    let scripts = Scripts::new(&started, &inner);
    let enough = AtomicBool::new(false);
    let ways = (&relays[..], &books[..]);
    let ((told, kinds), counts) = thread::scope(|scope| {
        let submitted = scope.spawn(|| {
            let told = submit(&pods, &scripts, &mut Dice(!seed), jobs, until);
            // Half of them run under faults, too.
            let deadline = Instant::now() + CALM;
            while Instant::now() < deadline {
                let over = |fates: &BTreeMap<u64, Fate>| {
                    fates.values().filter(|fate| fate.standing.is_some()).count() * 2 >= fates.len()
                };
                if fates(&pods).is_some_and(|fates| over(&fates)) {
                    break;
                }
                thread::sleep(Duration::from_millis(200));
            }
            enough.store(true, Ordering::SeqCst);
            told
        });
        // In this thread: pods that it starts end with it.
        let counts = disturb(&pods, ways, seed, &enough);
        (submitted.join().unwrap(), counts)
    });
    eprintln!("seed {seed}: {} jobs: {kinds:?}\nseed {seed}: faults: {counts:?}", told.len());
    pods.wait_running();

    let (mut deadline, mut least) = (Instant::now() + CALM, usize::MAX);
    let fates = loop {
        let fates = fates(&pods);
        let left = fates.iter().flat_map(BTreeMap::values).filter(|fate| fate.standing.is_none());
        let left = left.count();
        if fates.is_some() && left < least {
            // However slow the machine is, as long as they end one after another.
            (deadline, least) = (Instant::now() + CALM, left);
        }
        let over =
            |fates: &&BTreeMap<u64, Fate>| fates.values().all(|fate| fate.standing.is_some());
        if fates.as_ref().is_some_and(|fates| over(&fates)) {
            break fates.unwrap_or_default();
        }
        if Instant::now() > deadline {
            let mut fates = fates.unwrap_or_default();
            fates.retain(|_, fate| fate.standing.is_none());
            for id in fates.keys().take(5) {
                eprintln!("{}", stdout(&run(&pods, 0, &["events", &id.to_string()])));
            }
            panic!("seed {seed}: {} jobs do not end: {:?}", fates.len(), fates.iter().take(5));
        }
        thread::sleep(Duration::from_millis(100));
    };
    let lost: Vec<_> = told.iter().filter(|id| !fates.contains_key(id)).collect();
    assert!(lost.is_empty(), "seed {seed}: lost {lost:?}");
    let mut distinct = told.clone();
    distinct.sort_unstable();
    distinct.dedup();
    assert_eq!(distinct.len(), told.len(), "seed {seed}: a number was given twice");
    let starts = starts(&started);
    let mut ends: BTreeMap<&str, u32> = BTreeMap::new();
    for (id, fate) in &fates {
        let standing = fate.standing.as_deref().unwrap();
        *ends.entry(standing).or_default() += 1;
        let tasks = if fate.name == "wide" { 2 } else { 1 };
        for rank in 0..tasks {
            let times = starts.get(&(*id, rank)).copied().unwrap_or(0);
            assert!(
                times <= 1 + fate.requeues && (fate.name == "again" || times <= 1),
                "seed {seed}: job {id} ({fate:?}) was started {times} times"
            );
            assert!(standing != "completed" || times > 0, "seed {seed}: job {id} never ran");
        }
        assert!(["completed", "failed"].contains(&standing), "seed {seed}: {id}: {fate:?}");
    }
    assert!(starts.keys().all(|(id, _)| fates.contains_key(id)), "seed {seed}: an unknown job ran");
    let nested = nested_starts(&inner);
    for ((id, job), times) in &nested {
        let is_nested = fates.get(id).is_some_and(|fate: &Fate| fate.name == "nested");
        assert!(
            is_nested && *times == 1,
            "seed {seed}: job {job} of {id} was started {times} times"
        );
    }
    eprintln!("seed {seed}: {ends:?}, and {} jobs in nested instances", nested.len());
    assert!(ends["completed"] > ends.get("failed").copied().unwrap_or(0), "{ends:?}");
    // No core is held, and everybody works.
    let all = (BROKERS * SLOTS).to_string();
    let output = run(&pods, 0, &["submit", "--wait", "-n", &all, "true"]);
    assert_eq!(code(&output), 0, "seed {seed}: {}", stderr(&output));
}

#[test]
fn a_launcher_killed_with_a_thousand_jobs_in_every_state_loses_and_doubles_none() {
    let plan = Plan { slots: Slots::Fixed(SLOTS), ..Plan::new(3) };
    let pods = plan.start();
    pods.wait_running();
    let marks = Marks::new();
    let started = marks.path("started");
    let gate = marks.path("gate").display().to_string();
    let say = format!("echo $QUORATE_JOB_ID.$QUORATE_TASK_RANK >> {}", started.display());
    let take = |words: &[&str]| -> Vec<u64> {
        let output = run(&pods, 1, &[&["submit"], words].concat());
        assert_eq!(code(&output), 0, "{}", stderr(&output));
        stdout(&output).lines().map(|id| id.parse().unwrap()).collect()
    };
    let short = format!("{say}; exit 0");
    let over = take(&["--wait", "--cc", "1-20", "sh", "-c", &short]);
    // On the workers: they run on. They fill them, so that all others wait for the gate.
    let long = format!("{say}; while ! test -e {gate}; do sleep 0.05; done; exit 4");
    let running = take(&["--requires=-rank:0", "--cc", "1-5", "sh", "-c", &long]);
    let stubborn = format!("trap '' TERM; {}", long.replace("exit 4", "exit 0"));
    let ending = take(&["--requires=-rank:0", "--cc", "1-3", "sh", "-c", &stubborn]);
    let on_launcher = take(&["--requires", "rank:0", "--cc", "1-4", "sh", "-c", &long]);
    wait("all to run", || (starts(&started).len() == 32).then_some(()));
    let waiting = take(&["--cc", "1-500", "sh", "-c", &short]);
    let held = take(&["--urgency", "0", "--cc", "1-200", "sh", "-c", &short]);
    let after = format!("afterany:{}", running[0]);
    let depending = take(&["--dependency", &after, "--cc", "1-268", "sh", "-c", &short]);
    let all = [&over, &running, &ending, &on_launcher, &waiting, &held, &depending];
    assert_eq!(all.iter().map(|ids| ids.len()).sum::<usize>(), 1_000);
    for id in &ending {
        assert_eq!(code(&run(&pods, 0, &["cancel", &id.to_string()])), 0);
    }
    let in_states = |fates: &BTreeMap<u64, Fate>, ids: &[u64], state: &str| {
        for id in ids {
            assert_eq!(fates[id].state, state, "job {id}: {:?}", fates[id]);
        }
    };
    let before = fates(&pods).unwrap();
    in_states(&before, &depending, "DEPEND");
    in_states(&before, &held, "PRIORITY");
    in_states(&before, &waiting, "SCHED");
    in_states(&before, &running, "RUN");
    in_states(&before, &on_launcher, "RUN");
    in_states(&before, &ending, "CLEANUP");
    in_states(&before, &over, "INACTIVE");

    let before = pods.broker(0);
    pods.kill_broker(0);
    wait("the next broker", || (pods.broker(0) != before).then_some(()));
    pods.wait_running();
    // What the launcher's broker did not have itself is where it was.
    let after = fates(&pods).unwrap();
    in_states(&after, &depending, "DEPEND");
    in_states(&after, &held, "PRIORITY");
    in_states(&after, &running, "RUN");
    in_states(&after, &over, "INACTIVE");
    let held_ids = format!("{}-{}", held[0], held[held.len() - 1]);
    assert_eq!(code(&run(&pods, 2, &["release", &held_ids])), 0);
    std::fs::write(&gate, "").unwrap();
    // Again and again while they run out.
    for round in 1..=3 {
        wait("some to end", || {
            let fates = fates(&pods)?;
            let over = fates.values().filter(|fate| fate.standing.is_some()).count();
            (over >= 100 + round * 150).then_some(())
        });
        let before = pods.broker(0);
        pods.kill_broker(0);
        wait("the next broker", || (pods.broker(0) != before).then_some(()));
        pods.wait_running();
    }
    assert!(run(&pods, 0, &["wait", "1-1000"]).status.code().is_some());
    let fates = fates(&pods).unwrap();
    assert_eq!(fates.len(), 1_000);
    let starts = starts(&started);
    for (id, fate) in &fates {
        let times = starts.get(&(*id, 0)).copied().unwrap_or(0);
        assert!(times <= 1, "job {id} was started {times} times: {fate:?}");
        let standing = fate.standing.as_deref().unwrap();
        assert!(standing != "completed" || times == 1, "job {id}: {fate:?}");
    }
    let standing = |id: &u64| fates[id].standing.as_deref().unwrap();
    let codes = |ids: &[u64]| -> Vec<i32> {
        ids.iter().map(|id| code(&run(&pods, 0, &["wait", &id.to_string()]))).collect()
    };
    assert!(over.iter().all(|id| standing(id) == "completed"));
    assert_eq!(codes(&running), [4; 5], "they ran on");
    assert!(ending.iter().all(|id| standing(id) == "cancelled"));
    assert_eq!(codes(&on_launcher), [69; 4]);
    // Of the others those failed alone that a kill met on the launcher, or allotted and not yet told to
    // their worker: no more than there are slots, each time.
    let others = waiting.iter().chain(&held).chain(&depending);
    let failed = others.filter(|id| standing(id) == "failed").count();
    assert!(failed <= 3 * 3 * SLOTS as usize, "{failed} failed");
    let output = run(&pods, 0, &["submit", "--wait", "-n12", "true"]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
}
