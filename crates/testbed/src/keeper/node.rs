//! A node as the keeper holds it: its outer process, what that says, and whether its link is up.

use super::KeeperError;
use crate::cgroups;
use crate::layout::{Folder, Node};
use crate::network;
use crate::node::Word;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// What a node has to do takes seconds; images may be large.
const LIMIT: Duration = Duration::from_mins(2);

pub(super) struct NodeHandle {
    node: Node,
    state: Mutex<NodeState>,
    changed: Condvar,
}

struct NodeState {
    outer: Option<Child>,
    stdin: Option<ChildStdin>,
    init: Option<u32>,
    runtime: bool,
    started: bool,
    failed: Option<String>,
    linked: bool,
}

impl NodeHandle {
    pub(super) fn new(node: Node) -> Self {
        let state = NodeState {
            outer: None,
            stdin: None,
            init: None,
            runtime: false,
            started: false,
            failed: None,
            linked: true,
        };
        Self { node, state: Mutex::new(state), changed: Condvar::new() }
    }

    pub(super) fn node(&self) -> Node {
        self.node
    }

    /// Its first process, unless it has ended.
    pub(super) fn init(&self) -> Option<u32> {
        self.lock().init
    }

    /// The process between the keeper and it.
    pub(super) fn outer(&self) -> Option<u32> {
        self.lock().outer.as_ref().map(Child::id)
    }

    pub(super) fn linked(&self) -> bool {
        self.lock().linked
    }

    /// Starts its processes up to a container runtime with all images.
    pub(super) fn boot(&'static self, folder: &Folder) -> Result<(), KeeperError> {
        let mut state = self.lock();
        if state.outer.is_some() {
            return Err(self.error("it is running already"));
        }
        let mut outer = Command::new("/proc/self/exe")
            .args(["node-run", folder.name(), &self.node.name()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| self.error(format!("cannot start it: {error}")))?;
        let words = BufReader::new(outer.stdout.take().expect("its output is a pipe"));
        state.stdin = outer.stdin.take();
        state.outer = Some(outer);
        (state.runtime, state.started, state.failed) = (false, false, None);
        drop(state);
        thread::spawn(move || {
            for line in words.lines().map_while(Result::ok) {
                if let Ok(word) = serde_json::from_str(&line) {
                    self.hear(word);
                }
            }
            self.ended();
        });
        self.wait(|state| state.runtime)
    }

    /// Tells it that the API is there, and waits until it has started what needs it.
    pub(super) fn join(&self) -> Result<(), KeeperError> {
        if let Some(mut stdin) = self.lock().stdin.take() {
            // A node that has ended is noticed below.
            let _ = stdin.write_all(b"go\n");
        }
        self.wait(|state| state.started)
    }

    /// Kills it with everything on it.
    pub(super) fn kill(&self, folder: &Folder) -> Result<(), KeeperError> {
        let Some(init) = self.lock().init else { return Err(self.error("it is not running")) };
        let _ = kill(Pid::from_raw(init.cast_signed()), Signal::SIGKILL);
        drop(self.wait_for(|state| state.outer.is_none())?);
        let deadline = Instant::now() + LIMIT;
        while !cgroups::is_empty(&folder.control_group(self.node)) {
            if Instant::now() > deadline {
                return Err(self.error("processes are left in its control groups"));
            }
            thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    /// Takes its link down or up.
    pub(super) fn link(&self, up: bool) -> Result<(), KeeperError> {
        network::set_link(self.node, up)?;
        self.lock().linked = up;
        Ok(())
    }

    #[expect(clippy::print_stderr, reason = "the keeper's standard error is its log")]
    fn hear(&self, word: Word) {
        let mut state = self.lock();
        match word {
            Word::Pid(pid) => state.init = Some(pid),
            Word::Runtime => state.runtime = true,
            Word::Started => state.started = true,
            Word::Ended(what) => eprintln!("{}: {what}", self.node.name()),
            Word::Failed(reason) => state.failed = Some(reason),
        }
        self.changed.notify_all();
    }

    fn ended(&self) {
        let mut state = self.lock();
        if let Some(mut outer) = state.outer.take() {
            let _ = outer.wait();
        }
        (state.stdin, state.init) = (None, None);
        state.failed.get_or_insert_with(|| "it has ended".into());
        self.changed.notify_all();
    }

    /// Waits for something that only a live node reaches.
    fn wait(&self, reached: impl Fn(&NodeState) -> bool) -> Result<(), KeeperError> {
        let state = self.wait_for(|state| reached(state) || state.failed.is_some())?;
        match &state.failed {
            Some(reason) if !reached(&state) => Err(self.error(reason)),
            _ => Ok(()),
        }
    }

    fn wait_for(
        &self,
        reached: impl Fn(&NodeState) -> bool,
    ) -> Result<MutexGuard<'_, NodeState>, KeeperError> {
        let (state, outcome) = self
            .changed
            .wait_timeout_while(self.lock(), LIMIT, |state| !reached(state))
            .unwrap_or_else(PoisonError::into_inner);
        if outcome.timed_out() {
            return Err(self.error(format!("no progress in {} s", LIMIT.as_secs())));
        }
        Ok(state)
    }

    fn error(&self, reason: impl Into<String>) -> KeeperError {
        KeeperError::Node { name: self.node.name(), reason: reason.into() }
    }

    fn lock(&self) -> MutexGuard<'_, NodeState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
