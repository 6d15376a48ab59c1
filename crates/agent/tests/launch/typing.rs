//! Commands typed in the pods of a test.

use crate::pods::{AGENT, PATIENCE, Plan, Pods};
use quorate_contract::config::Slots;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// A running cluster in which every broker takes two tasks.
pub(crate) fn cluster(size: u32) -> Pods {
    let pods = Plan { slots: Slots::Fixed(2), ..Plan::new(size) }.start();
    pods.wait_running();
    pods
}

/// The agent, as typed in a pod.
pub(crate) fn typed(pods: &Pods, rank: u32, words: &[&str]) -> Command {
    let mut command = Command::new(AGENT);
    command
        .args(words)
        .env("QUORATE_SOCKET", pods.dir(rank).join("agent.sock"))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// Runs the agent in a pod to its end.
pub(crate) fn run(pods: &Pods, rank: u32, words: &[&str]) -> Output {
    typed(pods, rank, words).output().unwrap()
}

/// The code of an output; a failing assertion then shows the rest.
pub(crate) fn code(output: &Output) -> i32 {
    let code = output.status.code();
    code.unwrap_or_else(|| panic!("ended by a signal: {}", stderr(output)))
}

pub(crate) fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Lines in alphabetical order.
pub(crate) fn sorted(output: &Output) -> Vec<String> {
    let mut lines: Vec<String> = stdout(output).lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

/// Waits until `look` gives something.
pub(crate) fn wait<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < deadline, "waited for {what}");
        sleep(Duration::from_millis(5));
    }
}

/// A directory in which tasks leave their process numbers.
pub(crate) struct Marks(tempfile::TempDir);

impl Marks {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Shell words that leave the number of the shell under a name.
    pub(crate) fn leave(&self, name: &str) -> String {
        let path = self.path(name).display().to_string();
        format!("echo $$ > {path}.new; mv {path}.new {path};")
    }

    /// Waits for a number.
    pub(crate) fn pid(&self, name: &str) -> i32 {
        wait(name, || number(&self.path(name)))
    }
}

fn number(path: &Path) -> Option<i32> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// Waits until a process is gone.
pub(crate) fn wait_gone(pid: i32) {
    wait("the end of a process", || (!crate::pods::alive(pid)).then_some(()));
}
