//! A place for one test: an own state directory, a stand-in for the agent, and `quorate` with a
//! deadline.

use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The stand-in runs the shell text of LAUNCHER or WORKER as PID 1 of its pod. Status is that of a
/// cluster that is quorate at once, unless STATUS says something else.
const STAND_IN: &str = r#"#!/bin/sh
case "$1" in
broker)
  if [ "$QUORATE_GROUP" = launcher ]; then eval "$LAUNCHER"; else eval "$WORKER"; fi ;;
overlay)
  # Only a watcher stays for more.
  case "$*" in *--watch*) ;; *) STATUS=${STATUS%; exec sleep*} ;; esac
  eval "$STATUS" ;;
enter)
  shift
  [ "$1" = -- ] && shift
  exec "$@" ;;
esac
"#;

/// A worker that stays until it is told to go.
pub(crate) const STAY: &str = "trap 'exit 143' TERM; while :; do sleep 60 & wait $!; done";

/// A status stream of a cluster that is up.
const UP: &str = r#"echo '{"cluster":"c","attempt":0,"state":"run","size":2,"minSize":2,"online":2,"onlineRanks":"0-1","torpidRanks":"","missing":[]}'; exec sleep 600"#;

pub(crate) const DEADLINE: Duration = Duration::from_mins(1);

pub(crate) struct Stage {
    pub(crate) dir: tempfile::TempDir,
    ordinary: bool,
}

/// What a run left behind.
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Stage {
    pub(crate) fn new() -> Self {
        let dir = tempfile::Builder::new().prefix("quorate-test-").tempdir().unwrap();
        let open = |path: &Path, mode| {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
        };
        open(dir.path(), 0o777);
        let stage = Self { dir, ordinary: false };
        stage.agent(STAND_IN);
        stage
    }

    /// Everything runs as a user without rights (if this is root; else it does so anyway).
    pub(crate) fn ordinary() -> Self {
        let stage = Self { ordinary: true, ..Self::new() };
        // Another user may not reach into the build directory.
        stage.install(Path::new(env!("CARGO_BIN_EXE_quorate")), "quorate");
        stage
    }

    /// Makes the stand-in another one.
    pub(crate) fn agent(&self, script: &str) {
        let draft = self.file("agent.draft", script);
        self.install(&draft, "agent");
    }

    /// Copies a program. Another process does it: a descriptor that this one has open for writing
    /// could be in the hands of a child that is just starting, and the program "busy".
    fn install(&self, from: &Path, name: &str) {
        let status =
            Command::new("install").args(["-m", "755"]).arg(from).arg(self.path(name)).status();
        assert!(status.unwrap().success());
    }

    /// The program to test.
    pub(crate) fn program(&self) -> PathBuf {
        if self.ordinary { self.path("quorate") } else { env!("CARGO_BIN_EXE_quorate").into() }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn state(&self) -> PathBuf {
        self.path("state/quorate")
    }

    pub(crate) fn is_root() -> bool {
        nix::unistd::geteuid().is_root()
    }

    /// `quorate` with the stand-in; pods do what the texts say.
    pub(crate) fn quorate(&self, args: &[&str], launcher: &str, worker: &str) -> Command {
        let mut command = if self.ordinary && Self::is_root() {
            let mut command = Command::new("setpriv");
            command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]);
            command.arg(self.program());
            command
        } else {
            Command::new(self.program())
        };
        command
            .args(args)
            .current_dir(self.dir.path())
            .env("XDG_STATE_HOME", self.path("state"))
            .env("QUORATE_AGENT", self.path("agent"))
            .env("LAUNCHER", launcher)
            .env("WORKER", worker)
            .env("STATUS", UP)
            .env("LC_ALL", "C.UTF-8")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    pub(crate) fn run(&self, args: &[&str], launcher: &str, worker: &str) -> Ran {
        finish(self.quorate(args, launcher, worker).spawn().unwrap())
    }

    pub(crate) fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    /// Processes, of any pod, that this test started: its directory is in their environment.
    pub(crate) fn processes(&self) -> Vec<u32> {
        let mark = format!("XDG_STATE_HOME={}", self.path("state").display());
        let ours = |pid: u32| {
            let env = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            env.split(|b| *b == 0).any(|entry| entry == mark.as_bytes())
        };
        std::fs::read_dir("/proc")
            .unwrap()
            .flatten()
            .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
            .filter(|pid| ours(*pid))
            .collect()
    }

    /// Waits until nothing of this test is left: no process, no file, no mount.
    pub(crate) fn expect_nothing_left(&self) {
        until("nothing is left of the cluster", || {
            let files: Vec<_> = std::fs::read_dir(self.state())
                .into_iter()
                .flatten()
                .flatten()
                .map(|entry| entry.file_name())
                .filter(|name| name != ".guard")
                .collect();
            self.processes().is_empty() && files.is_empty()
        });
        let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
        let here = self.dir.path().display().to_string();
        assert!(!mounts.contains(&here), "a mount was left behind");
    }
}

/// Waits for the end of a command and takes what it wrote.
pub(crate) fn finish(mut child: Child) -> Ran {
    let (mut out, mut err) = (child.stdout.take(), child.stderr.take());
    let read = |pipe: Option<&mut (dyn std::io::Read + Send)>| {
        let mut bytes = Vec::new();
        if let Some(pipe) = pipe {
            pipe.read_to_end(&mut bytes).unwrap();
        }
        String::from_utf8_lossy(&bytes).into_owned()
    };
    std::thread::scope(|scope| {
        let out = scope.spawn(|| read(out.as_mut().map(|p| p as _)));
        let err = scope.spawn(|| read(err.as_mut().map(|p| p as _)));
        let code = wait(&mut child);
        Ran { code, out: out.join().unwrap(), err: err.join().unwrap() }
    })
}

/// The code of a command, with 128 + n for a signal; kills it when the deadline is over.
pub(crate) fn wait(child: &mut Child) -> i32 {
    let begin = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status.code().unwrap_or_else(|| 128 + status.signal().unwrap());
        }
        if begin.elapsed() > DEADLINE {
            child.kill().unwrap();
            child.wait().unwrap();
            panic!("the command did not end within {DEADLINE:?}");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Waits for a condition.
pub(crate) fn until(what: &str, condition: impl Fn() -> bool) {
    let begin = Instant::now();
    while !condition() {
        assert!(begin.elapsed() < DEADLINE, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
