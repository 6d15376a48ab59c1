//! Copies of the launcher's output: to the front's own, untouched, and to the log.

use crate::terminal::Terminal;
use std::fs::{File, OpenOptions};
use std::io::{self, PipeReader, PipeWriter, Read as _, Write as _};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

/// The threads that copy.
pub(super) struct Pumps {
    log: PathBuf,
    terminal: Arc<Mutex<Terminal>>,
    threads: Vec<JoinHandle<()>>,
    /// Readable once standard output has no reader any more.
    closed: Option<PipeReader>,
    tell: Arc<PipeWriter>,
}

impl Pumps {
    pub(super) fn new(log: PathBuf, terminal: Arc<Mutex<Terminal>>) -> io::Result<Self> {
        let (closed, tell) = io::pipe()?;
        Ok(Self { log, terminal, threads: Vec::new(), closed: Some(closed), tell: Arc::new(tell) })
    }

    pub(super) fn closed(&self) -> Option<BorrowedFd<'_>> {
        self.closed.as_ref().map(AsFd::as_fd)
    }

    /// True once, when standard output has lost its reader.
    pub(super) fn take_closed(&mut self) -> bool {
        self.closed.take().is_some()
    }

    /// Copies from the two ends that came with a notice: standard output and standard error.
    pub(super) fn add(&mut self, ends: Vec<OwnedFd>) {
        let Ok(log) = OpenOptions::new().create(true).append(true).open(&self.log) else { return };
        for (n, end) in ends.into_iter().enumerate() {
            let Ok(log) = log.try_clone() else { return };
            let terminal = Arc::clone(&self.terminal);
            let tell = Arc::clone(&self.tell);
            self.threads.push(std::thread::spawn(move || {
                let end = File::from(end);
                if n == 0 {
                    copy(end, &mut io::stdout(), log, &terminal, Some(&tell));
                } else {
                    copy(end, &mut io::stderr(), log, &terminal, None);
                }
            }));
        }
    }

    /// Waits until everything has been copied.
    pub(super) fn finish(self) {
        for thread in self.threads {
            let _ = thread.join();
        }
    }
}

fn copy(
    mut from: File,
    to: &mut impl io::Write,
    mut log: File,
    terminal: &Mutex<Terminal>,
    tell: Option<&PipeWriter>,
) {
    let mut buffer = vec![0; 64 * 1024];
    let mut first = true;
    let mut open = true;
    loop {
        let count = match from.read(&mut buffer) {
            Ok(0) => return,
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(_) => return,
        };
        let bytes = &buffer[..count];
        if std::mem::take(&mut first)
            && let Ok(mut terminal) = terminal.lock()
        {
            terminal.output_begins();
        }
        // The log is a copy: a full disk must not stop the program.
        let _ = log.write_all(bytes);
        if open && to.write_all(bytes).and_then(|()| to.flush()).is_err() {
            open = false;
            if let Some(mut tell) = tell {
                let _ = tell.write_all(b"x");
            }
        }
    }
}

/// Copies what the user types to the launcher. The thread ends with the process: it may be waiting
/// for a key that is never pressed.
pub(super) fn pump_input(to: OwnedFd) {
    std::thread::spawn(move || {
        let mut to = File::from(to);
        let mut buffer = [0; 4096];
        let mut input = io::stdin();
        while let Ok(count) = input.read(&mut buffer) {
            if count == 0 || to.write_all(&buffer[..count]).is_err() {
                return;
            }
        }
    });
}
