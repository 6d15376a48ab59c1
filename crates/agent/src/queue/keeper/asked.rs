//! What the rest of the agent asks of the keeper, and how the answer comes back.
//!
//! Owns: the commands and the handle that sends them. What a command does is the keeper's.

use super::restore::Restore;
use crate::queue::runner::Runner;
use quorate_queue::reattach::Answer;
use quorate_queue::{Copies, JobId, Jobspec, Outcome, Queue, Time};
use tokio::sync::{mpsc, oneshot, watch};

/// What the rest of the agent asks of the keeper.
#[derive(Clone, Debug)]
pub(in crate::queue) struct Keeping {
    pub(super) commands: mpsc::Sender<Command>,
    /// Counts batches of changes that are durable.
    pub(super) changes: watch::Receiver<u64>,
    /// Why no jobs are taken.
    pub(super) trouble: watch::Receiver<Option<String>>,
    pub(super) runner: Runner,
}

/// Tells what came of a change, once it is durable; with a reason, why it is not.
pub(super) type Reply = Box<dyn FnOnce(&Queue, Option<&str>) + Send>;
pub(super) type Change = Box<dyn FnOnce(&mut Queue, Time) -> Reply + Send>;
pub(super) type Look = Box<dyn FnOnce(&Queue) + Send>;
pub(super) type Taken = Result<JobId, String>;
/// The exit code of a job that is over; `None` where it is forgotten.
pub(in crate::queue) type Code = Option<u8>;
pub(super) type Waiter = mpsc::UnboundedSender<(JobId, Code)>;

/// Something for the keeper. Small, since many are under way at once.
pub(in crate::queue) enum Command {
    /// Takes jobs.
    Submit(Box<Submit>),
    /// Changes the queue; what comes of it is told once it is durable.
    Change(Change),
    /// Looks at the queue.
    Look(Look),
    /// Tells of each of these jobs once it is over.
    Wait(Box<(Vec<JobId>, Waiter)>),
    /// The tasks of a job run.
    Started(JobId),
    /// The tasks of a job are gone.
    Finished(JobId, Box<Outcome>),
    /// They could not be started.
    NotStarted(JobId, Box<Outcome>),
    /// What a broker has of jobs that outlived their leader.
    Holds(u32, Box<Answer>),
    /// Puts a dump into the empty queue.
    Restore(Box<Restore>),
}

/// Jobs for the queue.
pub(in crate::queue) struct Submit {
    pub(super) user: u32,
    pub(super) spec: Jobspec,
    pub(super) copies: Copies,
    pub(super) reply: oneshot::Sender<Taken>,
}

impl std::fmt::Debug for Command {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Command")
    }
}

/// The queue is not there any more: this broker is leaving.
#[derive(Debug, thiserror::Error)]
#[error("the queue is closed: the launcher's broker is leaving")]
pub(in crate::queue) struct Closed;

impl Keeping {
    /// Takes jobs; gives the number of the first once they are durable.
    pub(in crate::queue) async fn submit(
        &self,
        user: u32,
        spec: Jobspec,
        copies: Copies,
    ) -> Result<JobId, String> {
        let (reply, answer) = oneshot::channel();
        self.tell(Command::Submit(Box::new(Submit { user, spec, copies, reply })))
            .await
            .map_err(|closed| closed.to_string())?;
        answer.await.unwrap_or_else(|_| Err(Closed.to_string()))
    }

    /// Changes the queue; gives what the change answered once it is durable, or why it is not.
    pub(in crate::queue) async fn change<T: Send + 'static>(
        &self,
        change: impl FnOnce(&mut Queue, Time) -> T + Send + 'static,
    ) -> Result<T, String> {
        let (reply, answer) = oneshot::channel();
        let command = Command::Change(Box::new(move |queue, now| {
            let result = change(queue, now);
            Box::new(move |_, failed| {
                let _ = reply.send(match failed {
                    None => Ok(result),
                    Some(why) => Err(why.to_owned()),
                });
            })
        }));
        self.tell(command).await.map_err(|closed| closed.to_string())?;
        answer.await.unwrap_or_else(|_| Err(Closed.to_string()))
    }

    /// Tells what a broker has of jobs that outlived their leader.
    pub(in crate::queue) async fn holds(&self, rank: u32, answer: Answer) {
        // Fails when this broker is leaving; the next one asks again.
        let _ = self.tell(Command::Holds(rank, Box::new(answer))).await;
    }

    /// Looks at the queue.
    pub(in crate::queue) async fn look<T: Send + 'static>(
        &self,
        look: impl FnOnce(&Queue) -> T + Send + 'static,
    ) -> Result<T, Closed> {
        let (reply, answer) = oneshot::channel();
        self.tell(Command::Look(Box::new(move |queue| drop(reply.send(look(queue)))))).await?;
        answer.await.map_err(|_| Closed)
    }

    /// Tells of each of these jobs once it is over, which it may be already and unknown ones are, in
    /// the order of their ends; ends early when this broker leaves.
    pub(in crate::queue) async fn over(
        &self,
        jobs: Vec<JobId>,
    ) -> Result<mpsc::UnboundedReceiver<(JobId, Code)>, Closed> {
        // As many messages as jobs at the most: they need no bound of their own.
        let (waiter, ends) = mpsc::unbounded_channel();
        self.tell(Command::Wait(Box::new((jobs, waiter)))).await?;
        Ok(ends)
    }

    /// Counts changes of the queue, as a value that can be waited on.
    pub(in crate::queue) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.clone()
    }

    /// Why no jobs are taken, as a value that can be waited on.
    pub(in crate::queue) fn trouble(&self) -> watch::Receiver<Option<String>> {
        self.trouble.clone()
    }

    /// Who carries jobs out.
    pub(in crate::queue) fn runner(&self) -> &Runner {
        &self.runner
    }

    pub(super) async fn tell(&self, command: Command) -> Result<(), Closed> {
        self.commands.send(command).await.map_err(|_| Closed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The queue's memory is taken in pieces of 32: larger ones are dear to get for the C library.
    #[test]
    fn a_command_stays_small() {
        assert!(size_of::<Command>() <= 24, "{}", size_of::<Command>());
    }
}
