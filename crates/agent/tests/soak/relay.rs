//! A way between two brokers that can be cut, as a cable can.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

/// Passes connections on from one address to another until it is cut.
pub(crate) struct Relay {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    cut: AtomicBool,
    open: Mutex<Vec<TcpStream>>,
}

impl Relay {
    /// Listens on `from`; what connects there reaches `to`.
    pub(crate) fn open(from: &str, to: String) -> io::Result<Self> {
        let listener = TcpListener::bind(from)?;
        let shared = Arc::new(Shared::default());
        let passing = shared.clone();
        thread::spawn(move || {
            for near in listener.incoming().flatten() {
                if passing.cut.load(Ordering::SeqCst) {
                    continue;
                }
                let Ok(far) = TcpStream::connect(&to) else { continue };
                pass(&passing, &near, &far);
            }
        });
        Ok(Self { shared })
    }

    /// Breaks all connections and takes no other.
    pub(crate) fn cut(&self) {
        self.shared.cut.store(true, Ordering::SeqCst);
        for stream in self.shared.open.lock().unwrap().drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// Takes connections again.
    pub(crate) fn mend(&self) {
        self.shared.cut.store(false, Ordering::SeqCst);
    }
}

/// Copies both ways, by a thread each.
fn pass(shared: &Arc<Shared>, near: &TcpStream, far: &TcpStream) {
    for stream in [near, far] {
        let _ = stream.set_nodelay(true);
        shared.open.lock().unwrap().push(stream.try_clone().unwrap());
    }
    for (from, to) in [(near, far), (far, near)] {
        let (mut from, mut to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
        thread::spawn(move || {
            let mut block = vec![0; 64 * 1024];
            while let Ok(count @ 1..) = from.read(&mut block) {
                if to.write_all(&block[..count]).is_err() {
                    break;
                }
            }
            let _ = to.shutdown(Shutdown::Both);
            let _ = from.shutdown(Shutdown::Both);
        });
    }
}
