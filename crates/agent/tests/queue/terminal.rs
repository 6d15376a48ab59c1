//! Jobs at a terminal. The tests make the terminals that verbs are typed at.

use crate::asking::{submit, wait_for, wait_started};
use crate::pods::{AGENT, PATIENCE, Pods, signal};
use crate::typing::{cluster, code, run, stderr, stdout, wait};
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::pty::openpty;
use nix::sys::termios::{LocalFlags, tcgetattr};
use quorate_agent::sys::set_window_size;
use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::symlink;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

/// A terminal with a verb typed at it.
struct Desk {
    /// Where keys are hit and the screen is seen.
    master: File,
    /// Kept open, so that its mode can be asked for after the verb's end.
    slave: OwnedFd,
    child: Child,
    before: LocalFlags,
    screen: String,
}

impl Desk {
    fn type_verb(pods: &Pods, rank: u32, program: &str, words: &[&str]) -> Self {
        let pair = openpty(None, None).unwrap();
        set_window_size(pair.master.as_fd(), (30, 100)).unwrap();
        let flags = fcntl(&pair.master, FcntlArg::F_GETFL).unwrap();
        let flags = OFlag::from_bits_retain(flags) | OFlag::O_NONBLOCK;
        fcntl(&pair.master, FcntlArg::F_SETFL(flags)).unwrap();
        let before = tcgetattr(&pair.slave).unwrap().local_flags;
        let stream = || pair.slave.try_clone().unwrap();
        // Changes of size are told to the processes that the terminal controls.
        let child = Command::new("setsid")
            .arg("--ctty")
            .arg(program)
            .args(words)
            .env("QUORATE_SOCKET", pods.dir(rank).join("agent.sock"))
            .env("SHELL", "/bin/sh")
            .env("TERM", "xterm-test")
            .env("PS1", "$ ")
            .stdin(stream())
            .stdout(stream())
            .stderr(stream())
            .spawn()
            .unwrap();
        let (master, slave) = (File::from(pair.master), pair.slave);
        Self { master, slave, child, before, screen: String::new() }
    }

    fn hit(&mut self, keys: &str) {
        self.master.write_all(keys.as_bytes()).unwrap();
    }

    /// Waits until a text stands on the screen.
    fn see(&mut self, text: &str) {
        let start = Instant::now();
        while !self.screen.contains(text) {
            assert!(start.elapsed() < PATIENCE, "no {text:?} in {:?}", self.screen);
            self.look();
        }
    }

    fn look(&mut self) {
        let mut buffer = [0; 4096];
        match self.master.read(&mut buffer) {
            Ok(count) => self.screen.push_str(&String::from_utf8_lossy(&buffer[..count])),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                std::thread::sleep(Duration::from_millis(2));
            }
            Err(error) => panic!("{error}: {:?}", self.screen),
        }
    }

    fn is_raw(&self) -> bool {
        !tcgetattr(&self.slave).unwrap().local_flags.contains(LocalFlags::ICANON)
    }

    /// Waits for the verb's end; the terminal must be as it was before it.
    fn end(mut self) -> (i32, String) {
        let start = Instant::now();
        let status = loop {
            self.look();
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(start.elapsed() < PATIENCE, "it goes on: {:?}", self.screen);
        };
        self.look();
        assert_eq!(tcgetattr(&self.slave).unwrap().local_flags, self.before, "{:?}", self.screen);
        (status.code().unwrap_or(-1), self.screen)
    }
}

#[test]
fn a_program_is_typed_to_and_knows_the_size_of_its_terminal() {
    let pods = cluster(2);
    for direct in [false, true] {
        let script = "stty size; echo $TERM; \
                      until [ \"$(stty size)\" = '40 120' ]; do sleep 0.02; done; \
                      echo resized; read line; echo \"heard $line\"; exit 7";
        let mut words = vec!["run", "--pty", "--", "sh", "-c", script];
        if direct {
            words.insert(1, "--direct");
        }
        let mut desk = Desk::type_verb(&pods, 1, AGENT, &words);
        desk.see("30 100\r\n");
        desk.see("xterm-test\r\n");
        assert!(desk.is_raw());
        set_window_size(desk.master.as_fd(), (40, 120)).unwrap();
        desk.see("resized");
        desk.hit("some words\r");
        let (code, screen) = desk.end();
        assert_eq!(code, 7, "{screen:?}");
        assert!(screen.contains("heard some words\r\n"), "{screen:?}");
    }
}

#[test]
fn keys_are_the_programs_and_signals_reach_it() {
    let pods = cluster(1);
    let script = "trap 'echo interrupted; exit 9' INT; echo up; while :; do sleep 0.02; done";
    let mut desk = Desk::type_verb(&pods, 0, AGENT, &["run", "--pty", "sh", "-c", script]);
    desk.see("up\r\n");
    desk.hit("\u{3}");
    let (code, screen) = desk.end();
    assert!(code == 9 && screen.contains("interrupted"), "{code}: {screen:?}");
    // The end of what is typed is told, and a program without words at its terminal ends.
    let mut desk = Desk::type_verb(&pods, 0, AGENT, &["run", "--pty", "cat"]);
    desk.hit("line\r");
    desk.see("line\r\nline\r\n");
    desk.hit("\u{4}");
    assert_eq!(desk.end().0, 0);
    // Whoever closes the window ends a shell in it.
    let mut desk = Desk::type_verb(&pods, 0, AGENT, &["run", "--pty", "sh", "-i"]);
    desk.see("$ ");
    signal(desk.child.id().cast_signed(), 1);
    assert_eq!(desk.end().0, 128 + 1);
    // One that cannot be started says so at a terminal that is whole.
    let desk = Desk::type_verb(&pods, 0, AGENT, &["run", "--pty", "/nonexistent/program"]);
    let (code, screen) = desk.end();
    assert!(code == 127 && screen.contains("/nonexistent/program"), "{code}: {screen:?}");
}

#[test]
fn a_cancelled_shell_ends_and_its_terminal_is_restored() {
    let pods = cluster(1);
    let mut desk = Desk::type_verb(&pods, 0, AGENT, &["run", "--pty", "sh", "-i"]);
    desk.see("$ ");
    desk.hit("trap '' TERM\r");
    desk.see("TERM\r\n");
    assert_eq!(code(&run(&pods, 0, &["cancel", "1"])), 0);
    assert_eq!(desk.end().0, 143);
}

#[test]
fn task_zero_alone_has_the_terminal() {
    let pods = cluster(2);
    let dir = tempfile::tempdir().unwrap();
    let srun = dir.path().join("srun");
    symlink(AGENT, &srun).unwrap();
    let script = "tty >/dev/null && echo task $SLURM_PROCID is at a terminal; echo $SLURM_PROCID";
    let words = ["--pty", "-N2", "-n2", "sh", "-c", script];
    let desk = Desk::type_verb(&pods, 1, srun.to_str().unwrap(), &words);
    let (code, screen) = desk.end();
    assert_eq!((code, screen.as_str()), (0, "task 0 is at a terminal\r\n0\r\n"));
    // As srun of Slurm 22.05 says it.
    let desk = Desk::type_verb(&pods, 1, srun.to_str().unwrap(), &["--pty", "-o", "x", "true"]);
    let (code, screen) = desk.end();
    let said = "srun: error: --error/--input/--output are incompatible with --pty\r\n";
    assert_eq!((code, screen.as_str()), (1, said));
}

#[test]
fn who_attaches_has_the_terminal_of_a_job_that_takes_one() {
    let pods = cluster(2);
    let id =
        submit(&pods, 0, &["--pty", "sh", "-c", "echo up; read line; echo heard $line; exit 5"]);
    wait_started(&pods, id);
    let mut desk = Desk::type_verb(&pods, 1, AGENT, &["attach", "--pty", &id.to_string()]);
    desk.see("up\r\n");
    wait("raw mode", || desk.is_raw().then_some(()));
    desk.hit("me\r");
    let (code, screen) = desk.end();
    assert!(code == 5 && screen.contains("heard me\r\n"), "{code}: {screen:?}");
    let plain = submit(&pods, 0, &["--wait", "true"]).to_string();
    let output = run(&pods, 0, &["attach", "--pty", &plain]);
    assert_eq!(crate::typing::code(&output), 1);
    assert!(stderr(&output).contains("submitted without --pty"), "{}", stderr(&output));
}

#[test]
fn input_that_is_no_terminal_is_typed_and_its_end_too() {
    let pods = cluster(1);
    let mut command =
        crate::typing::typed(&pods, 0, &["run", "--pty", "sh", "-c", "stty -echo; cat"]);
    let mut child = command.stdin(std::process::Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"no end of line").unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert!(stdout(&output).contains("no end of line"), "{}", stdout(&output));
}

#[test]
fn a_shell_in_an_allocation_has_the_terminal_it_was_typed_at() {
    let pods = cluster(2);
    let mut desk = Desk::type_verb(&pods, 0, AGENT, &["alloc", "-N2"]);
    desk.see("$ ");
    desk.hit(&format!("{AGENT} run -N2 -n2 -i none echo one\r"));
    desk.see("one\r\none\r\n$ ");
    desk.hit("stty size; exit 4\r");
    let (code, screen) = desk.end();
    assert!(code == 4 && screen.contains("30 100\r\n"), "{code}: {screen:?}");
    wait_for(&pods, 1, "completed");
}

#[test]
fn the_full_screen_shows_jobs_changes_them_and_leaves_the_terminal_whole() {
    let pods = cluster(1);
    submit(&pods, 0, &["--name", "relax", "sleep", "1000"]);
    submit(&pods, 0, &["--name", "waits", "--urgency", "0", "true"]);
    wait_started(&pods, 1);
    let mut desk = Desk::type_verb(&pods, 0, AGENT, &["top", "--delay", "0.2"]);
    desk.see("queue default: 1 running, 1 waiting");
    desk.see("relax");
    assert!(desk.is_raw());
    desk.hit("c");
    desk.see("cancel job 1 (relax)? y or n");
    desk.hit("y");
    desk.see("job 1 is cancelled");
    desk.see("queue default: 0 running, 1 waiting");
    desk.hit("q");
    let (code, screen) = desk.end();
    assert_eq!(code, 0);
    // From the other screen back to the first, with a cursor.
    assert!(
        screen.starts_with("\u{1b}[?1049h") && screen.ends_with("\u{1b}[?25h\u{1b}[?1049l"),
        "{screen:?}"
    );
    wait_for(&pods, 1, "INACTIVE");
    let desk = Desk::type_verb(&pods, 0, AGENT, &["top"]);
    wait("raw mode", || desk.is_raw().then_some(()));
    signal(desk.child.id().cast_signed(), 15);
    assert_eq!(desk.end().0, 128 + 15);
    let output = run(&pods, 0, &["top"]);
    assert_eq!(crate::typing::code(&output), 0);
    assert!(
        stdout(&output).contains("waits") && !stdout(&output).contains('\u{1b}'),
        "{}",
        stdout(&output)
    );
}
