//! On a terminal: lines that are redrawn, colours, and what the user types.

use super::stage::{STAY, Stage, wait};
use nix::pty::openpty;
use std::fs::File;
use std::io::{Read as _, Write as _};

/// A cluster that waits for a broker first and is quorate a moment later.
const LATE: &str = r#"
echo '{"cluster":"c","attempt":0,"state":"quorum","size":2,"minSize":2,"online":1,"onlineRanks":"0","torpidRanks":"","missing":[{"rank":1,"pod":"worker-0-0","why":"no contact"}],"givesUpInSeconds":600}'
while [ ! -e go ]; do sleep 0.01; done
echo '{"cluster":"c","attempt":0,"state":"run","size":2,"minSize":2,"online":2,"onlineRanks":"0-1","torpidRanks":"","missing":[],"program":{"tasks":4,"pods":2,"tasksByPod":"2x2"}}'
exec sleep 600"#;

/// What a run on a terminal shows, when `hello` is typed.
fn shown(variables: &[(&str, &str)]) -> String {
    let stage = Stage::new();
    let pty = openpty(None, None).unwrap();
    let launcher = "read line; echo \"typed: $line\"; touch go; read line; exit 0";
    let mut command =
        stage.quorate(&["run", "-N", "2", "--name", "show", "--", "x"], launcher, STAY);
    command
        .env("STATUS", LATE)
        .env("TERM", "xterm")
        .env_remove("NO_COLOR")
        .stdin(pty.slave.try_clone().unwrap())
        .stdout(pty.slave.try_clone().unwrap())
        .stderr(pty.slave);
    for (name, value) in variables {
        command.env(name, value);
    }
    let mut child = command.spawn().unwrap();
    // The command holds the other end too, and must not keep it open.
    drop(command);
    let mut terminal = File::from(pty.master);
    let mut text = String::new();
    let mut buffer = [0; 4096];
    let mut typed = 0;
    // Reading ends with an error when the other end is closed.
    while let Ok(count) = terminal.read(&mut buffer) {
        if count == 0 {
            break;
        }
        text += &String::from_utf8_lossy(&buffer[..count]);
        let cue = ["waiting for worker-0-0", "4 ranks on 2 pods"].get(typed);
        if cue.is_some_and(|cue| text.contains(cue)) {
            terminal.write_all(b"hello\n").unwrap();
            typed += 1;
        }
    }
    assert_eq!(wait(&mut child), 0, "{text}");
    text
}

#[test]
fn waiting_is_redrawn_and_typing_reaches_the_program() {
    let text = shown(&[]);
    let redrawn = text.matches("\r\x1b[2K  \x1b[94m").count();
    assert!(redrawn > 0 && text.contains("waiting for worker-0-0 (no contact)"), "{text:?}");
    assert!(text.contains("typed: hello"), "{text:?}");
    assert!(text.contains("  \x1b[32m✔\x1b[0m brokers   2/2 "), "{text:?}");
    assert!(text.contains("\x1b[94m▸\x1b[0m program   4 ranks on 2 pods"), "{text:?}");
}

#[test]
fn no_color_and_a_plain_locale_are_respected() {
    let text = shown(&[("NO_COLOR", "1"), ("LC_ALL", "C")]);
    assert!(
        text.contains("  + brokers   2/2 ") && text.contains("  > program   4 ranks"),
        "{text:?}"
    );
    assert!(!text.contains("\x1b[3") && !text.contains("\x1b[9"), "{text:?}");
}
