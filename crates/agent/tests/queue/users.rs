//! Who may call a broker: its own user and root, whatever the modes of files allow.

use crate::pods::AGENT;
use crate::typing::{cluster, code, run, stderr};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

/// Somebody who is neither the broker's user nor root.
const STRANGER: u32 = 54_321;

fn open_to_all(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

/// As another user than root nobody can become a second one: then the socket's mode is all there is to see.
#[test]
fn another_users_calls_are_refused_by_name() {
    let pods = cluster(1);
    let socket = pods.dir(0).join("agent.sock");
    let mode = fs::metadata(&socket).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode, 0o600, "the socket is for its owner alone");
    if !nix::unistd::geteuid().is_root() {
        return;
    }
    // A program and a socket that this user can reach.
    let dir = tempfile::tempdir().unwrap();
    open_to_all(dir.path(), 0o755);
    let agent = dir.path().join("quorate-agent");
    fs::copy(AGENT, &agent).unwrap();
    open_to_all(&agent, 0o755);
    open_to_all(&socket, 0o666);
    for parent in socket.ancestors().skip(1).take_while(|path| *path != std::env::temp_dir()) {
        open_to_all(parent, 0o755);
    }
    let ask = |words: &[&str]| {
        let mut command = Command::new(&agent);
        command
            .args(words)
            .arg("--socket")
            .arg(&socket)
            .current_dir("/")
            .uid(STRANGER)
            .gid(STRANGER);
        command.output().unwrap()
    };
    for words in [&["jobs"][..], &["cancel", "--all"], &["queue", "list"]] {
        let output = ask(words);
        assert_ne!(code(&output), 0, "{words:?}");
        let text = stderr(&output);
        assert!(
            text.contains(&format!("this broker belongs to uid 0, not to uid {STRANGER}")),
            "{words:?}: {text}"
        );
    }
    assert_eq!(code(&run(&pods, 0, &["submit", "--wait", "true"])), 0, "its own user is served");
}
