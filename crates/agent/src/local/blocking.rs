//! The local socket for a process without an async runtime. The answering side takes one call at a time,
//! each with a time limit, so that no client can hold the process up for long; the asking side is for a
//! client whose call is to last as long as its process, whatever that becomes.

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

/// A call of this process.
#[derive(Debug)]
pub struct Caller {
    stream: UnixStream,
    frames: Frames,
}

impl Caller {
    /// Opens a call.
    pub fn connect(path: &Path, hello: &Hello) -> Result<Self, LocalError> {
        let stream = UnixStream::connect(path)
            .map_err(|source| LocalError::Connect { path: path.to_owned(), source })?;
        let mut caller = Self { stream, frames: Frames::default() };
        let text = serde_json::to_vec(hello).map_err(LocalError::Unreadable)?;
        caller.send(kind::CALL, &text)?;
        Ok(caller)
    }

    /// Sends a frame.
    pub fn send(&mut self, kind: u8, payload: &[u8]) -> Result<(), LocalError> {
        let head = frame::head(kind, payload.len())?;
        self.stream.write_all(&head).map_err(LocalError::Broken)?;
        self.stream.write_all(payload).map_err(LocalError::Broken)
    }

    /// The next frame; `None` when the broker has closed.
    pub fn recv(&mut self) -> Result<Option<(u8, Bytes)>, LocalError> {
        let mut piece = [0; 4096];
        loop {
            if let Some(frame) = self.frames.next()? {
                return Ok(Some(frame));
            }
            match self.stream.read(&mut piece).map_err(LocalError::Broken)? {
                0 => return Ok(None),
                count => self.frames.room().extend_from_slice(&piece[..count]),
            }
        }
    }

    /// The call goes on in the program that this process becomes.
    pub fn outlives_exec(self) -> io::Result<()> {
        nix::fcntl::fcntl(&self.stream, nix::fcntl::F_SETFD(nix::fcntl::FdFlag::empty()))?;
        // Closed by the kernel at the end of the process.
        let _ = std::os::fd::IntoRawFd::into_raw_fd(self.stream);
        Ok(())
    }
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
