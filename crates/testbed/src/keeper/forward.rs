//! The API on the machine's loopback: accepts in the machine's network namespace, connects in the
//! control plane's.

use crate::layout::{API_PORT, CONTROL_PLANE};
use std::io;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::thread;

/// Serves for ever. The listener was made in the machine's namespace; this thread, and all that it
/// starts, are in the control plane's.
pub(super) fn run(outside: &TcpListener) {
    for connection in outside.incoming() {
        // A client that has gone again needs nothing.
        let Ok(client) = connection else { continue };
        thread::spawn(move || join(&client));
    }
}

/// Copies both ways until both ends have finished. If the API cannot be reached, the client sees
/// its connection close.
fn join(client: &TcpStream) {
    let Ok(server) = TcpStream::connect((CONTROL_PLANE, API_PORT)) else { return };
    for stream in [client, &server] {
        let _ = stream.set_nodelay(true);
    }
    thread::scope(|scope| {
        scope.spawn(|| copy(client, &server));
        copy(&server, client);
    });
}

/// An error on one side ends both ways: half a connection is of no use after it.
fn copy(mut from: &TcpStream, mut to: &TcpStream) {
    let ends = if io::copy(&mut from, &mut to).is_ok() { Shutdown::Write } else { Shutdown::Both };
    let _ = to.shutdown(ends);
    if ends == Shutdown::Both {
        let _ = from.shutdown(ends);
    }
}
