//! A stream socket of a rank, of either family, that can be read and written with and without
//! waiting.

use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockType, recv, send, socketpair};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use tokio::io::unix::AsyncFd;

/// A connected stream socket.
#[derive(Debug)]
pub(super) struct Socket {
    fd: AsyncFd<OwnedFd>,
}

/// A pair of connected sockets, both closed by exec.
pub(super) fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let flags = SockFlag::SOCK_CLOEXEC;
    Ok(socketpair(AddressFamily::Unix, SockType::Stream, None, flags)?)
}

impl Socket {
    /// Takes a socket over. Must be called within the runtime.
    pub(super) fn new(fd: OwnedFd) -> io::Result<Self> {
        let both = tokio::io::Interest::READABLE | tokio::io::Interest::WRITABLE;
        Ok(Self { fd: crate::sys::watch(fd, both)? })
    }

    /// Waits for bytes; 0 is the end.
    pub(super) async fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let mut ready = self.fd.readable().await?;
            if let Ok(read) = ready.try_io(|fd| receive(fd.as_raw_fd(), buffer)) {
                return read;
            }
        }
    }

    /// Takes what is there.
    pub(super) fn read_now(&self, buffer: &mut [u8]) -> io::Result<usize> {
        receive(self.fd.as_raw_fd(), buffer)
    }

    /// Writes what the socket takes.
    pub(super) fn write_now(&self, bytes: &[u8]) -> io::Result<usize> {
        transmit(self.fd.as_raw_fd(), bytes)
    }

    /// Waits until the socket takes more.
    pub(super) async fn writable(&self) -> io::Result<()> {
        self.fd.writable().await.map(|mut ready| ready.retain_ready())
    }

    /// As [`Self::write_now`] after [`Self::writable`]: if nothing is taken the next wait is a new
    /// one.
    pub(super) fn write_ready(&self, bytes: &[u8]) -> io::Result<usize> {
        self.fd.try_io(tokio::io::Interest::WRITABLE, |fd| transmit(fd.as_raw_fd(), bytes))
    }
}

fn receive(fd: i32, buffer: &mut [u8]) -> io::Result<usize> {
    Ok(recv(fd, buffer, MsgFlags::MSG_DONTWAIT)?)
}

fn transmit(fd: i32, bytes: &[u8]) -> io::Result<usize> {
    Ok(send(fd, bytes, MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL)?)
}
