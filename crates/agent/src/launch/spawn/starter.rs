//! A thread that starts tasks.
//!
//! The kernel keeps who starts a process waiting until that executes its program: half of the time that a
//! short task takes. Owns: the thread that waits in the broker's stead, and what it must be given for
//! that. What starting is, [`super`] knows.

use super::{Begun, Start, Task, TaskEnd, begin};
use crate::launch::environment::Variables;
use std::ffi::OsString;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::{Arc, OnceLock, mpsc};
use tokio::sync::oneshot;

/// Bytes of the thread's stack: paths and lists of words lie elsewhere.
const STACK: usize = 128 * 1024;

/// What to start, as [`Start`], for another thread.
#[derive(Debug)]
pub struct Order {
    /// The program and its arguments.
    pub argv: Arc<[OsString]>,
    /// All of its environment.
    pub env: Variables,
    /// Its directory.
    pub cwd: Arc<Path>,
    /// CPUs to bind it to.
    pub cpus: Option<Vec<u32>>,
    /// Gives it a pipe as stdin, otherwise /dev/null.
    pub stdin: bool,
    /// A descriptor that it inherits under the same number, closed here then.
    pub keep: Option<OwnedFd>,
}

impl Order {
    /// As it is started: in a session of its own.
    pub fn as_start(&self) -> Start<'_> {
        Start {
            argv: &self.argv,
            env: &self.env,
            cwd: &self.cwd,
            cpus: self.cpus.as_deref(),
            stdin: self.stdin,
            keep: self.keep.as_ref().map(AsFd::as_fd),
            own_session: true,
        }
    }
}

/// What the thread takes: an order and who waits for it. As many wait as there are tasks to be started.
type Wanted = (Order, oneshot::Sender<Result<Begun, TaskEnd>>);

/// The thread, which begins with the first order.
#[derive(Debug, Default)]
pub struct Starter {
    orders: OnceLock<Option<mpsc::Sender<Wanted>>>,
}

/// A task that is about to be started.
#[derive(Debug)]
pub struct Starting(State);

#[derive(Debug)]
enum State {
    /// By the thread.
    There(oneshot::Receiver<Result<Begun, TaskEnd>>),
    /// It was started at once.
    Here(Result<Begun, TaskEnd>),
}

impl Starter {
    /// Has a task started after all that were asked for before.
    pub fn start(&self, order: Order) -> Starting {
        let (reply, answer) = oneshot::channel();
        let wanted = match self.orders.get_or_init(thread) {
            Some(orders) => match orders.send((order, reply)) {
                Ok(()) => return Starting(State::There(answer)),
                Err(mpsc::SendError((order, _))) => order,
            },
            None => order,
        };
        Starting(State::Here(begin(&wanted.as_start())))
    }
}

impl Starting {
    /// Waits until it is started, or is not.
    pub async fn begun(self) -> Result<Task, TaskEnd> {
        let begun = match self.0 {
            State::There(answer) => answer.await.unwrap_or_else(|_| {
                Err(TaskEnd::NotStarted("the thread that starts tasks has ended".to_owned()))
            }),
            State::Here(begun) => begun,
        };
        begun?.adopt()
    }
}

/// Begins the thread; `None` where there is none to be had.
fn thread() -> Option<mpsc::Sender<Wanted>> {
    let (orders, wanted) = mpsc::channel::<Wanted>();
    let work = move || {
        while let Ok((order, reply)) = wanted.recv() {
            let begun = begin(&order.as_start());
            // The task alone holds its end of the kept descriptor, before anybody knows of the task.
            drop(order);
            if let Err(Ok(begun)) = reply.send(begun) {
                // Whoever wanted it is gone.
                begun.end();
            }
        }
    };
    let thread = std::thread::Builder::new().name("starter".to_owned()).stack_size(STACK);
    match thread.spawn(work) {
        Ok(_) => Some(orders),
        Err(error) => {
            tracing::warn!(%error, "tasks are started one at a time: there is no thread for it");
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncReadExt;

    fn order(words: &[&str]) -> Order {
        Order {
            argv: words.iter().map(OsString::from).collect(),
            env: [("PATH".into(), "/usr/bin:/bin".into())].into(),
            cwd: Path::new("/").into(),
            cpus: None,
            stdin: false,
            keep: None,
        }
    }

    #[tokio::test]
    async fn tasks_begin_in_the_order_in_which_they_were_asked_for_and_say_why_not() {
        let starter = Starter::default();
        let all = ["one", "two", "three"].map(|word| starter.start(order(&["echo", word])));
        let missing = starter.start(order(&["no-such-command"]));
        let mut last = 0;
        for (starting, want) in all.into_iter().zip(["one\n", "two\n", "three\n"]) {
            let mut task = starting.begun().await.unwrap();
            assert_ne!(task.pid, last);
            last = task.pid;
            let mut text = String::new();
            task.stdout.read_to_string(&mut text).await.unwrap();
            assert_eq!((text.as_str(), task.exit.wait(true).await), (want, TaskEnd::Exited(0)));
        }
        let end = missing.begun().await.unwrap_err();
        assert_eq!(end, TaskEnd::NotFound("no-such-command".into()));
    }

    #[tokio::test]
    async fn a_kept_descriptor_is_closed_here_once_the_task_has_it() {
        let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        let starter = Starter::default();
        let starting = starter.start(Order { keep: Some(theirs.into()), ..order(&["true"]) });
        let task = starting.begun().await.unwrap();
        assert_eq!(task.exit.wait(true).await, TaskEnd::Exited(0));
        ours.set_read_timeout(Some(std::time::Duration::from_secs(10))).unwrap();
        assert_eq!(std::io::Read::read(&mut &ours, &mut [0]).unwrap(), 0);
    }

    #[tokio::test]
    async fn a_task_that_nobody_waits_for_any_more_does_not_run_on() {
        let dir = tempfile::tempdir().unwrap();
        let pid_file = dir.path().join("pid");
        let starter = Starter::default();
        // The thread is busy until this one was given up.
        let first = starter.start(order(&["sleep", "1000"]));
        let script = format!("echo $$ > {}; exec sleep 1000", pid_file.display());
        drop(starter.start(order(&["sh", "-c", &script])));
        let first = first.begun().await.unwrap();
        crate::sys::signal_group(first.pid, libc::SIGKILL);
        first.exit.wait(true).await;
        // What was asked for after it is started after it was ended.
        let task = starter.start(order(&["true"])).begun().await.unwrap();
        task.exit.wait(true).await;
        let left = std::fs::read_to_string(&pid_file).unwrap_or_default();
        assert!(left.is_empty() || !Path::new("/proc").join(left.trim()).exists(), "{left}");
    }
}
