//! Crashes leave nothing behind: no process, no namespace, no mount, no file.

use super::stage::{STAY, Stage, finish, until};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Child;

fn start(stage: &Stage, extra: &[&str]) -> Child {
    let mut args = vec!["run", "-N", "3", "--name", "crash"];
    args.extend_from_slice(extra);
    args.extend(["--", "x"]);
    // A grandchild in a session of its own is the hardest to get rid of.
    let launcher = format!("setsid sleep 600 & {STAY}");
    let child = stage.quorate(&args, &launcher, &launcher).spawn().unwrap();
    until("all pods run", || {
        let logs = stage.run(&["ls", "-o", "json"], "", "");
        logs.out.contains("\"running\": 3")
    });
    child
}

/// Namespaces of the cluster's processes.
fn namespaces(stage: &Stage) -> BTreeSet<PathBuf> {
    let own: BTreeSet<PathBuf> = links("self");
    stage
        .processes()
        .iter()
        .flat_map(|pid| links(&pid.to_string()))
        .filter(|ns| !own.contains(ns))
        .collect()
}

fn links(process: &str) -> BTreeSet<PathBuf> {
    let dir = std::fs::read_dir(format!("/proc/{process}/ns")).into_iter().flatten().flatten();
    dir.filter_map(|entry| std::fs::read_link(entry.path()).ok()).collect()
}

/// Namespaces that any process is still in.
fn living() -> BTreeSet<PathBuf> {
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    all.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok())
        .flat_map(|pid| links(&pid.to_string()))
        .collect()
}

fn front_killed(stage: &Stage, extra: &[&str]) {
    let mut child = start(stage, extra);
    let before = namespaces(stage);
    child.kill().unwrap();
    child.wait().unwrap();
    stage.expect_nothing_left();
    // The kernel gives numbers of namespaces out again: those of other tests may have one for a
    // while.
    until("no namespace is left", || {
        let living = living();
        before.iter().all(|ns| !living.contains(ns))
    });
}

#[test]
fn a_killed_front_takes_everything_with_it() {
    front_killed(&Stage::new(), &[]);
}

#[test]
fn a_killed_front_of_an_ordinary_user_takes_everything_with_it() {
    front_killed(&Stage::ordinary(), &[]);
}

#[test]
fn a_killed_front_without_a_sandbox_takes_everything_with_it() {
    front_killed(&Stage::new(), &["--sandbox", "none"]);
}

#[test]
fn a_killed_keeper_takes_everything_with_it_and_the_front_says_so() {
    keeper_killed(&[]);
}

#[test]
fn a_killed_keeper_without_a_sandbox_takes_everything_with_it_too() {
    keeper_killed(&["--sandbox", "none"]);
}

fn keeper_killed(extra: &[&str]) {
    let stage = Stage::new();
    let child = start(&stage, extra);
    let front = child.id();
    let children = std::fs::read_to_string(format!("/proc/{front}/task/{front}/children")).unwrap();
    let keeper: i32 = children.trim().parse().unwrap();
    kill(Pid::from_raw(keeper), Signal::SIGKILL).unwrap();
    let ran = finish(child);
    assert_eq!(ran.code, 70, "{}", ran.err);
    assert!(ran.err.contains("the process that held the cluster died"), "{}", ran.err);
    until("all processes are gone", || stage.processes().is_empty());
}

#[test]
fn what_a_crash_of_both_leaves_in_the_registry_is_swept_by_the_next_call() {
    let stage = Stage::new();
    let mut child = start(&stage, &[]);
    let front = child.id();
    let children = std::fs::read_to_string(format!("/proc/{front}/task/{front}/children")).unwrap();
    let keeper: i32 = children.trim().parse().unwrap();
    // Stopped, the keeper cannot see that the front has died.
    kill(Pid::from_raw(keeper), Signal::SIGSTOP).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    kill(Pid::from_raw(keeper), Signal::SIGKILL).unwrap();
    until("all processes are gone", || stage.processes().is_empty());
    assert!(stage.state().join("crash").exists());
    assert_eq!(stage.run(&["ls"], "", "").code, 0);
    stage.expect_nothing_left();
}
