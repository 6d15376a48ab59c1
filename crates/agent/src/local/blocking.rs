//! The answering side of the local socket for a process without an async runtime. It takes one
//! call at a time, each with a time limit, so that no client can hold the process up for long.

use super::connection::{End, Hello, LocalError};
use super::frame::{self, Frames};
use super::kind;
use bytes::Bytes;
use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};
use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::time::Duration;

/// A client that is silent, or does not read, for so long is dropped.
const PATIENCE: Duration = Duration::from_secs(1);

/// Makes a socket for its owner alone. What an earlier process left at the path is replaced.
pub fn bind(path: &Path) -> io::Result<UnixListener> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = UnixListener::bind(path)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
    Ok(listener)
}

/// The rest of a call that was taken.
#[derive(Debug)]
pub struct Answer {
    stream: UnixStream,
}

/// Takes a call from a client that has connected; `None` when there is none, or it may not call,
/// or does not say what it wants.
pub fn take(listener: &UnixListener) -> Option<(Hello, Answer)> {
    let (mut stream, _) = listener.accept().ok()?;
    let own = nix::unistd::geteuid().as_raw();
    let peer = getsockopt(&stream, PeerCredentials).ok()?.uid();
    if peer != own && peer != 0 {
        return None;
    }
    stream.set_nonblocking(false).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    stream.set_write_timeout(Some(PATIENCE)).ok()?;
    let (kind::CALL, payload) = first(&mut stream).ok()?? else { return None };
    let hello = serde_json::from_slice(&payload).ok()?;
    Some((hello, Answer { stream }))
}

fn first(stream: &mut UnixStream) -> Result<Option<(u8, Bytes)>, LocalError> {
    let mut frames = Frames::default();
    let mut piece = [0; 1024];
    loop {
        if let Some(frame) = frames.next()? {
            return Ok(Some(frame));
        }
        match stream.read(&mut piece).map_err(LocalError::Broken)? {
            0 => return Ok(None),
            count => frames.room().extend_from_slice(&piece[..count]),
        }
    }
}

impl Answer {
    /// Sends a value of the answer.
    pub fn value(&mut self, value: &impl serde::Serialize) -> Result<(), LocalError> {
        let text = serde_json::to_vec(value).map_err(LocalError::Unreadable)?;
        self.send(1, &text)
    }

    /// Ends the call.
    pub fn end(mut self, code: i32, error: Option<String>) -> Result<(), LocalError> {
        let text = serde_json::to_vec(&End { code, error }).map_err(LocalError::Unreadable)?;
        self.send(kind::END, &text)
    }

    fn send(&mut self, kind: u8, payload: &[u8]) -> Result<(), LocalError> {
        let head = frame::head(kind, payload.len())?;
        let whole = [&head[..], payload].concat();
        self.stream.write_all(&whole).map_err(LocalError::Broken)
    }
}
