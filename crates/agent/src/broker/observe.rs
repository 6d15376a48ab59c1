//! The status channel's end in the broker (`docs/spec/observe.md`): tells observers what the
//! cluster looks like, at once and with each change, and takes the size they want.
//!
//! Every observer has a task of its own. There is a bound for their number; the newest takes the
//! place of the oldest, so that connections whose other end has vanished shut nobody out. It must
//! not hold up the node: a reader who is too slow is dropped.

mod figures;

pub(super) use figures::Counters;

use super::handle::{Overlay, OverlayError, ToNode};
use crate::logs::chain;
use crate::net::tls::Stream;
use figures::Prober;
use quorate_contract::observe::{self, Ask, LineError, Lines, MOST_ASKED, Tell};
use quorate_contract::status::{BrokerState, ClusterStatus};
use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, split};
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep_until, timeout};

/// Observers at once: two controllers and some people.
const OBSERVERS: usize = 16;
/// A reader that has not taken a line by then is dropped.
const WRITE_WAIT: Duration = Duration::from_secs(5);
/// Bytes that are read at once.
const READ_ROOM: usize = 256;

/// Why an observer's connection ended.
#[derive(Debug, thiserror::Error)]
enum ObserveError {
    /// It reads too slowly.
    #[error("it does not read")]
    Slow,
    /// The connection broke.
    #[error("the connection broke")]
    Broken(#[source] io::Error),
    /// It sent something that is no request.
    #[error("it asked for what does not exist")]
    Line(#[source] LineError),
    /// It wants a size that the cluster cannot have.
    #[error("the size {size} is not from 1 to {most}")]
    Size {
        /// What it wants.
        size: u32,
        /// The largest size.
        most: u32,
    },
    /// This broker leaves.
    #[error("this broker leaves")]
    Leaving(#[from] OverlayError),
}

/// Serves observers.
#[derive(Clone, Debug)]
pub(super) struct Observers {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    overlay: Overlay,
    prober: Prober,
    tasks: Mutex<VecDeque<AbortHandle>>,
}

impl Observers {
    pub(super) fn new(overlay: Overlay, counters: Arc<Counters>) -> Self {
        let prober = Prober::new(overlay.clone(), counters);
        Self { shared: Arc::new(Shared { overlay, prober, tasks: Mutex::default() }) }
    }

    /// Serves one observer, in the background.
    pub(super) fn serve(&self, stream: Stream) {
        let shared = self.shared.clone();
        let task = tokio::spawn(async move {
            let (input, output) = split(stream);
            if let Err(error) = shared.serve(input, output).await {
                tracing::debug!(error = chain(&error), "an observer has gone");
            }
        });
        let mut tasks =
            self.shared.tasks.lock().expect("the lock holds because nothing panics under it");
        tasks.retain(|task| !task.is_finished());
        if tasks.len() >= OBSERVERS
            && let Some(oldest) = tasks.pop_front()
        {
            oldest.abort();
        }
        tasks.push_back(task.abort_handle());
    }
}

impl Shared {
    async fn serve(
        &self,
        input: impl AsyncRead + Unpin,
        output: impl AsyncWrite + Unpin,
    ) -> Result<(), ObserveError> {
        let mut wire = Wire { input, output, lines: Lines::new(MOST_ASKED) };
        let rank = self.overlay.rank();
        if rank != 0 {
            let config = self.overlay.config();
            let (own, launcher) = (config.display_name(rank), config.display_name(0));
            let reason =
                format!("this is {own}, rank {rank}; ask {launcher}, which knows all brokers");
            wire.tell(&Tell::Refused(reason)).await?;
            return wire.end().await;
        }
        let mut changes = self.overlay.changes();
        let mut told: Option<ClusterStatus> = None;
        let mut refresh_at = Instant::now();
        loop {
            changes.mark_unchanged();
            let now = Instant::now();
            let refresh = now >= refresh_at;
            if refresh {
                self.prober.measure().await;
            }
            let status = self.overlay.status().await?;
            if refresh || told.as_ref() != Some(&status) {
                refresh_at = now + observe::REFRESH;
                told = Some(status.clone());
                let figures = Some(self.prober.figures());
                let status = ClusterStatus { figures, ..status };
                wire.tell(&Tell::Status(Box::new(status))).await?;
            }
            let settled_at = now + observe::SETTLE;
            loop {
                tokio::select! {
                    changed = async {
                        let changed = changes.changed().await;
                        self.settle(settled_at).await;
                        changed
                    } => {
                        changed.map_err(|_| OverlayError::Leaving)?;
                        break;
                    }
                    () = sleep_until(refresh_at) => break,
                    ask = wire.ask() => match ask? {
                        Some(Ask::Size(size)) => self.resize(&mut wire, size).await?,
                        None => return Ok(()),
                    },
                }
            }
        }
    }

    /// Waits for changes that come closely after one, but not for those of a broker that leaves:
    /// it may be gone by then.
    async fn settle(&self, until: Instant) {
        let mut members = self.overlay.membership();
        while members.borrow_and_update().state < BrokerState::Cleanup {
            tokio::select! {
                () = sleep_until(until) => return,
                changed = members.changed() => if changed.is_err() { return },
            }
        }
    }

    async fn resize<R, W>(&self, wire: &mut Wire<R, W>, size: u32) -> Result<(), ObserveError>
    where
        R: AsyncRead + Unpin,
        W: AsyncWrite + Unpin,
    {
        let most = self.overlay.config().max_size;
        if !(1..=most).contains(&size) {
            let error = ObserveError::Size { size, most };
            wire.tell(&Tell::Refused(error.to_string())).await?;
            wire.end().await?;
            return Err(error);
        }
        self.overlay.tell(ToNode::Size { size }).await?;
        Ok(())
    }
}

/// The two directions of a connection.
struct Wire<R, W> {
    input: R,
    output: W,
    lines: Lines,
}

impl<R: AsyncRead + Unpin, W: AsyncWrite + Unpin> Wire<R, W> {
    async fn tell(&mut self, tell: &Tell) -> Result<(), ObserveError> {
        let line = observe::line(tell);
        let write = async {
            self.output.write_all(&line).await?;
            self.output.flush().await
        };
        let written = timeout(WRITE_WAIT, write).await.map_err(|_| ObserveError::Slow)?;
        written.map_err(ObserveError::Broken)
    }

    async fn end(&mut self) -> Result<(), ObserveError> {
        let ended = timeout(WRITE_WAIT, self.output.shutdown()).await;
        ended.map_err(|_| ObserveError::Slow)?.map_err(ObserveError::Broken)
    }

    /// The next request; `None` at the end. Can be dropped and called again.
    async fn ask(&mut self) -> Result<Option<Ask>, ObserveError> {
        loop {
            if let Some(ask) = self.lines.next_line().map_err(ObserveError::Line)? {
                return Ok(Some(ask));
            }
            let mut bytes = [0; READ_ROOM];
            let room = self.lines.room().min(READ_ROOM);
            match self.input.read(&mut bytes[..room]).await {
                Ok(0) => return Ok(None),
                Ok(count) => self.lines.push(&bytes[..count]),
                Err(error) => return Err(ObserveError::Broken(error)),
            }
        }
    }
}
