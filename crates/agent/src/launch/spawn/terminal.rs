//! A task that has a terminal.
//!
//! Owns: making the pseudo-terminal (pty(7)), its size, and what a task that was started at it is to
//! its broker: one stream each way. Who sees it, and from where, is not its business.

use super::{Exit, Start, TaskEnd, reap, spawn};
use crate::sys;
use nix::fcntl::OFlag;
use nix::pty::{grantpt, posix_openpt, ptsname_r, unlockpt};
use serde::{Deserialize, Serialize};
use std::ffi::CString;
use std::fmt;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::str::FromStr;
use tokio::net::unix::pipe;

/// The size of a terminal, written as `24x80`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Size {
    /// Lines.
    pub rows: u16,
    /// Characters of a line.
    pub columns: u16,
}

impl Default for Size {
    /// That of the terminals that all others are like.
    fn default() -> Self {
        Self { rows: 24, columns: 80 }
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{}", self.rows, self.columns)
    }
}

/// A text that is no size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the size of a terminal is ROWSxCOLUMNS, such as 24x80")]
pub struct NoSize;

impl FromStr for Size {
    type Err = NoSize;

    fn from_str(text: &str) -> Result<Self, NoSize> {
        let (rows, columns) = text.split_once('x').ok_or(NoSize)?;
        let number = |text: &str| text.parse().ok().filter(|number| *number > 0).ok_or(NoSize);
        Ok(Self { rows: number(rows)?, columns: number(columns)? })
    }
}

impl Size {
    /// As a message carries it: two numbers of two bytes, big endian.
    pub fn to_bytes(self) -> [u8; 4] {
        let ([a, b], [c, d]) = (self.rows.to_be_bytes(), self.columns.to_be_bytes());
        [a, b, c, d]
    }

    /// What [`Size::to_bytes`] wrote; `None` for anything else.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let [a, b, c, d] = *<&[u8; 4]>::try_from(bytes).ok()?;
        let (rows, columns) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
        (rows > 0 && columns > 0).then_some(Self { rows, columns })
    }
}

/// The broker's end of a terminal.
#[derive(Debug)]
pub struct Terminal(OwnedFd);

impl Terminal {
    /// Tells it how large it is.
    pub fn resize(&self, size: Size) {
        // A terminal that has no size keeps working without it.
        let _ = sys::set_window_size(self.0.as_fd(), (size.rows, size.columns));
    }
}

/// A started task.
#[derive(Debug)]
pub struct AtTerminal {
    /// Its process, which leads its session.
    pub pid: i32,
    /// What is typed.
    pub input: pipe::Sender,
    /// What is shown.
    pub output: pipe::Receiver,
    /// The terminal itself.
    pub terminal: Terminal,
    /// Its end.
    pub exit: Exit,
}

/// Starts a task in a session of its own at a new terminal.
pub fn start(start: &Start<'_>, size: Size) -> Result<AtTerminal, TaskEnd> {
    let failed = |error: io::Error| TaskEnd::NotStarted(format!("no terminal for it: {error}"));
    let (master, path) = open().map_err(failed)?;
    let terminal = Terminal(master.try_clone().map_err(failed)?);
    terminal.resize(size);
    let at = Start { own_session: true, ..*start };
    let pid = spawn(&at, None, Some(&path))?;
    let exit = Exit::watch(pid)?;
    let adopt = || -> io::Result<_> {
        // They are made for pipes, but want no more of a descriptor than that it does not block.
        let input = pipe::Sender::from_owned_fd_unchecked(master.try_clone()?)?;
        Ok((input, pipe::Receiver::from_owned_fd_unchecked(master)?))
    };
    match adopt() {
        Ok((input, output)) => Ok(AtTerminal { pid, input, output, terminal, exit }),
        Err(error) => {
            sys::signal_group(pid, libc::SIGKILL);
            let _ = reap(pid);
            Err(failed(error))
        }
    }
}

/// The broker's end of a new terminal, and the path of the other.
fn open() -> io::Result<(OwnedFd, CString)> {
    let flags = OFlag::O_RDWR | OFlag::O_NOCTTY | OFlag::O_CLOEXEC | OFlag::O_NONBLOCK;
    let master = posix_openpt(flags)?;
    grantpt(&master)?;
    unlockpt(&master)?;
    let path = CString::new(ptsname_r(&master)?)?;
    Ok((master.into(), path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::launch::environment::Variables;
    use std::ffi::OsString;
    use std::path::Path;
    use tokio::io::AsyncWriteExt;

    /// All that a shell shows that is typed to.
    async fn shown(script: &str, typed: &[u8]) -> (String, TaskEnd) {
        let argv = ["sh", "-c", script].map(OsString::from);
        let env: Variables = [("PATH".into(), "/usr/bin:/bin".into())].into();
        let it = Start {
            argv: &argv,
            env: &env,
            cwd: Path::new("/"),
            cpus: None,
            stdin: true,
            keep: None,
            own_session: false,
        };
        let mut task = start(&it, Size { rows: 33, columns: 111 }).unwrap();
        task.input.write_all(typed).await.unwrap();
        let mut text = Vec::new();
        loop {
            task.output.readable().await.unwrap();
            let mut buffer = [0; 1024];
            match task.output.try_read(&mut buffer) {
                Ok(0) => break,
                Ok(count) => text.extend_from_slice(&buffer[..count]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                // Nobody has the other end any more.
                Err(_) => break,
            }
        }
        (String::from_utf8(text).unwrap(), task.exit.wait(true).await)
    }

    #[tokio::test]
    async fn a_task_has_a_terminal_of_the_size_that_it_is_told() {
        let (text, end) = shown("tty >/dev/null && stty size; exit 3", b"").await;
        assert_eq!((text.as_str(), end), ("33 111\r\n", TaskEnd::Exited(3)));
    }

    #[tokio::test]
    async fn what_is_typed_can_be_a_signal_or_the_end() {
        let (text, end) = shown("stty -echo; cat", b"a line\n\x04").await;
        assert!(text.contains("a line\r\n") && end == TaskEnd::Exited(0), "{text:?} {end:?}");
        let (text, end) = shown("exec sleep 1000", b"\x03").await;
        assert_eq!(end, TaskEnd::Signaled(libc::SIGINT), "{text:?}");
    }

    #[test]
    fn a_size_is_read_as_it_is_written() {
        let size = Size { rows: 50, columns: 300 };
        assert_eq!(size.to_string().parse(), Ok(size));
        assert_eq!(Size::from_bytes(&size.to_bytes()), Some(size));
        for wrong in ["", "24", "0x80", "24x", "24x80x2", "-1x80"] {
            assert_eq!(wrong.parse::<Size>(), Err(NoSize), "{wrong}");
        }
        assert_eq!(Size::from_bytes(&[0, 0, 0, 9]), None);
    }
}
