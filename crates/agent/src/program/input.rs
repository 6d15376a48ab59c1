//! What a parallel program reads: this pod's standard input, which is empty on Kubernetes and the
//! caller's on one machine.
//!
//! A thread reads, since standard input may be a file or a terminal; it never has more under way
//! than [`STDIN_WINDOW`], so that a task that does not read holds up nobody but its writer.

use crate::job::leader::Handle;
use crate::job::protocol::STDIN_WINDOW;
use bytes::Bytes;
use std::io::{self, Read as _};
use std::sync::{Arc, Condvar, Mutex};

/// Bytes read at a time.
const BLOCK: usize = 16 * 1024;

/// Bytes that are under way to the tasks.
#[derive(Clone, Debug, Default)]
pub(super) struct Window(Arc<(Mutex<usize>, Condvar)>);

impl Window {
    /// Waits until there is room, and takes it.
    fn take(&self, bytes: usize) {
        let (under_way, room) = &*self.0;
        let under_way = under_way.lock().expect("the lock holds because nothing panics under it");
        let mut under_way = room
            .wait_while(under_way, |under_way| *under_way >= STDIN_WINDOW)
            .expect("the lock holds because nothing panics under it");
        *under_way += bytes;
    }

    /// The tasks have read so much.
    pub(super) fn taken(&self, bytes: usize) {
        let (under_way, room) = &*self.0;
        let mut under_way =
            under_way.lock().expect("the lock holds because nothing panics under it");
        *under_way = under_way.saturating_sub(bytes);
        room.notify_one();
    }
}

/// Starts to pass standard input on. The thread ends with standard input or with the process.
pub(super) fn feed(handle: Handle, window: Window) {
    std::thread::spawn(move || {
        let mut block = vec![0; BLOCK];
        loop {
            match io::stdin().read(&mut block) {
                Ok(count) if count > 0 => {
                    window.take(count);
                    handle.input(Some(Bytes::copy_from_slice(&block[..count])));
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // An input that cannot be read has ended as far as the program is concerned.
                Ok(_) | Err(_) => break,
            }
        }
        handle.input(None);
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_full_window_waits_until_something_was_taken() {
        let window = Window::default();
        window.take(STDIN_WINDOW);
        let (tell, told) = std::sync::mpsc::channel();
        let waiting = window.clone();
        let thread = std::thread::spawn(move || {
            waiting.take(1);
            tell.send(()).unwrap();
        });
        assert!(told.recv_timeout(Duration::from_millis(20)).is_err());
        window.taken(1);
        told.recv_timeout(Duration::from_secs(10)).unwrap();
        thread.join().unwrap();
    }
}
