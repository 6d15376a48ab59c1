//! Rank 0's side of a call: answers questions by asking the keeper.
//!
//! Owns: what each question comes to, and waiting; [`attach`] follows a job's streams.

mod attach;
mod dump;
mod files;

use super::facts;
use super::keeper::{Closed, Keeping, OWN};
use super::protocol::{
    Copies, Done, JobFacts, LaneChange, Opening, QUEUE, Question, Selection, Session, Submit,
    Submitted, Taken, Then, kind,
};
use super::slurm;
use super::talk::{Hear, Say, there};
use crate::broker::Services;
use crate::instance::signal::Delivery;
use crate::logs::chain;
use attach::Part;
use quorate_contract::exit;
use quorate_hostlist::IdSet;
use quorate_queue::{JobId, Jobspec, Queue, QueueError, State, Time};

/// Jobs of one answer.
const AT_ONCE: usize = 500;

/// How a conversation ends.
struct Over {
    code: i32,
    error: Option<String>,
}

impl Over {
    const fn ok() -> Self {
        Self { code: exit::OK, error: None }
    }

    fn failed(error: impl Into<String>) -> Self {
        Self { code: exit::FAILED, error: Some(error.into()) }
    }

    /// Nobody listens any more.
    const fn gone() -> Self {
        Self { code: exit::FAILED, error: None }
    }
}

/// Takes the calls of other pods' fronts.
pub(super) fn register(keeping: &Keeping, services: &mut Services) {
    let keeping = keeping.clone();
    services.on_channel(QUEUE, move |channel| {
        let keeping = keeping.clone();
        async move {
            let opening = serde_json::from_slice::<Opening>(channel.first());
            let (hear, say) = there(channel);
            match opening {
                Ok(opening) => serve(&keeping, opening, hear, say).await,
                Err(error) => say.end(exit::USAGE, Some(format!("unreadable: {error}"))).await,
            }
        }
    });
}

/// Serves one call, whose question is the first message.
async fn serve(keeping: &Keeping, opening: Opening, mut hear: Hear, say: Say) {
    let Some((_, question)) = hear.recv().await else { return };
    serve_question(keeping, opening, &question, hear, say).await;
}

/// Serves one call.
pub(super) async fn serve_question(
    keeping: &Keeping,
    opening: Opening,
    question: &[u8],
    mut hear: Hear,
    mut say: Say,
) {
    let Over { code, error } = match serde_json::from_slice::<Question>(question) {
        Ok(question) => answer(keeping, opening, question, &mut hear, &mut say).await,
        Err(error) => Over {
            code: exit::USAGE,
            error: Some(format!("the question is not understood: {error}")),
        },
    };
    say.end(code, error).await;
}

/// Submission after submission; what goes wrong with one is its answer.
async fn session(
    keeping: &Keeping,
    opening: Opening,
    shared: &Session,
    hear: &mut Hear,
    say: &mut Say,
) -> Over {
    while let Some((kind, payload)) = hear.recv().await {
        if kind != kind::ASK {
            continue;
        }
        let taken = match serde_json::from_slice::<Submit>(&payload) {
            Ok(mut submit) => {
                if submit.spec.environment.is_empty() && submit.spec.unset.is_empty() {
                    submit.spec.environment.clone_from(&shared.environment);
                    submit.spec.unset.clone_from(&shared.unset);
                }
                match take(keeping, opening, submit).await {
                    Ok(submitted) => Taken::Submitted(submitted),
                    Err(error) => Taken::Refused(error),
                }
            }
            Err(error) => Taken::Refused(format!("the submission is not understood: {error}")),
        };
        if !say.answer(&taken).await {
            return Over::gone();
        }
    }
    Over::ok()
}

async fn answer(
    keeping: &Keeping,
    opening: Opening,
    question: Question,
    hear: &mut Hear,
    say: &mut Say,
) -> Over {
    match question {
        Question::Submit(submit) => self::submit(keeping, opening, *submit, hear, say).await,
        Question::Jobs(selection) => list(keeping, selection, say).await,
        Question::Events(job) => events(keeping, job, say).await,
        Question::Cancel { jobs, note } => {
            each(keeping, jobs, say, move |queue, now, id| queue.cancel(now, id, &note)).await
        }
        Question::Signal { jobs, signal } => send_signal(keeping, jobs, signal, say).await,
        Question::Hold(jobs) => each(keeping, jobs, say, Queue::hold).await,
        Question::Release(jobs) => each(keeping, jobs, say, Queue::release).await,
        Question::Requeue(jobs) => {
            each(keeping, jobs, say, |queue, now, id| {
                queue.requeue(now, id, "somebody asked for it")
            })
            .await
        }
        Question::Update { jobs, urgency, time_limit } => {
            each(keeping, jobs, say, move |queue, now, id| {
                if let Some(urgency) = urgency {
                    queue.set_urgency(now, id, urgency)?;
                }
                if let Some(seconds) = time_limit {
                    queue.set_time_limit(now, id, (seconds > 0).then_some(seconds))?;
                }
                Ok(())
            })
            .await
        }
        Question::Wait { jobs, tell } => match chosen(keeping, jobs).await {
            Ok(jobs) => wait(keeping, jobs, tell, hear, say).await,
            Err(error) => Over::failed(error),
        },
        Question::Attach { job, stdin, terminal } => {
            attach::follow(keeping, job, Part { stdin, own: false, terminal }, hear, say).await
        }
        Question::Lanes => match keeping.look(facts::lanes).await {
            Ok(lanes) if say.answer(&lanes).await => Over::ok(),
            Ok(_) => Over::gone(),
            Err(closed) => Over::failed(closed.to_string()),
        },
        Question::SetLane(change) => set_lane(keeping, change, say).await,
        Question::Nodes => {
            let config = keeping.runner().overlay().config().clone();
            match keeping.look(move |queue| facts::nodes(queue, &config)).await {
                Ok(nodes) if say.answer(&nodes).await => Over::ok(),
                Ok(_) => Over::gone(),
                Err(closed) => Over::failed(closed.to_string()),
            }
        }
        Question::Drain { ranks, reason } => {
            nodes(keeping, ranks, move |queue, now, rank| queue.drain(now, rank, &reason)).await
        }
        Question::Undrain { ranks } => nodes(keeping, ranks, Queue::undrain).await,
        Question::Purge { older_than, keep } => purge(keeping, older_than, keep, say).await,
        Question::Slurm(line) => match slurm::answer(keeping, *line).await {
            Ok(printed) if say.answer(&printed).await => Over::ok(),
            Ok(_) => Over::gone(),
            Err(error) => Over::failed(error),
        },
        Question::SlurmVariables(job) => {
            let config = keeping.runner().overlay().config().clone();
            let look = move |queue: &Queue| match queue.job(job) {
                Some(job) => Ok(slurm::of_an_allocation(job, &config, queue.first_lane())),
                None => Err(facts::unknown(queue, job)),
            };
            match keeping.look(look).await {
                Ok(Ok(variables)) if say.answer(&variables).await => Over::ok(),
                Ok(Ok(_)) => Over::gone(),
                Ok(Err(error)) => Over::failed(error),
                Err(closed) => Over::failed(closed.to_string()),
            }
        }
        Question::Dump => dump::dump(keeping, say).await,
        Question::Restore => dump::restore(keeping, hear, say).await,
        Question::Files(wanted) => files::give(keeping, wanted, say).await,
        Question::Keep => files::keep(keeping, hear, say).await,
        Question::Session(shared) => session(keeping, opening, &shared, hear, say).await,
    }
}

/// Takes jobs.
async fn take(keeping: &Keeping, opening: Opening, submit: Submit) -> Result<Submitted, String> {
    let set = |text: &str| -> Result<IdSet, String> {
        text.parse().map_err(|error| format!("`{text}` is not a set of numbers: {error}"))
    };
    let copies = match submit.copies {
        Copies::One => quorate_queue::Copies::One,
        Copies::Many(count) => quorate_queue::Copies::Many(count),
        Copies::Each(numbers) => quorate_queue::Copies::Each { numbers: set(&numbers)? },
        Copies::Array { indices, limit } => {
            quorate_queue::Copies::Array { indices: set(&indices)?, limit }
        }
    };
    if submit.test {
        let spec = submit.spec;
        let admitted = keeping.change(move |queue, _| queue.admit(&spec).map(drop)).await?;
        admitted.map_err(|error| chain(&error))?;
        return Ok(Submitted { first: JobId(0), count: 0 });
    }
    let count = match &copies {
        quorate_queue::Copies::One => 1,
        quorate_queue::Copies::Many(count) => u64::from(*count),
        quorate_queue::Copies::Each { numbers } => numbers.len() as u64,
        quorate_queue::Copies::Array { indices, .. } => indices.len() as u64,
    };
    let first = keeping.submit(opening.user, submit.spec, copies).await?;
    Ok(Submitted { first, count })
}

async fn submit(
    keeping: &Keeping,
    opening: Opening,
    mut submit: Submit,
    hear: &mut Hear,
    say: &mut Say,
) -> Over {
    let then = submit.then;
    if let Then::Attach { own: true, .. } = then {
        submit.spec.options.insert(OWN.to_owned(), String::new());
    }
    let submitted = match take(keeping, opening, submit).await {
        Ok(submitted) => submitted,
        Err(error) => return Over::failed(error),
    };
    if !say.answer(&submitted).await {
        return Over::gone();
    }
    let jobs = submitted.first.0..submitted.first.0 + submitted.count;
    match then {
        Then::Nothing => Over::ok(),
        Then::Wait { tell } => wait(keeping, jobs.map(JobId).collect(), tell, hear, say).await,
        Then::Attach { stdin, own } => {
            attach::follow(
                keeping,
                submitted.first,
                Part { stdin, own, terminal: false },
                hear,
                say,
            )
            .await
        }
    }
}

async fn chosen(keeping: &Keeping, selection: Selection) -> Result<Vec<JobId>, String> {
    let chosen = keeping.look(move |queue| facts::choose(queue, &selection)).await;
    chosen.map_err(|closed| closed.to_string())?
}

async fn facts_of(keeping: &Keeping, jobs: Vec<JobId>) -> Result<Vec<JobFacts>, String> {
    let config = keeping.runner().overlay().config().clone();
    let look = move |queue: &Queue| {
        let known = jobs.iter().filter_map(|id| queue.job(*id));
        known.map(|job| facts::job(queue, job, &config)).collect()
    };
    keeping.look(look).await.map_err(|closed| closed.to_string())
}

async fn list(keeping: &Keeping, selection: Selection, say: &mut Say) -> Over {
    let jobs = match chosen(keeping, selection).await {
        Ok(jobs) => jobs,
        Err(error) => return Over::failed(error),
    };
    for some in jobs.chunks(AT_ONCE) {
        match facts_of(keeping, some.to_vec()).await {
            Ok(facts) if say.answer(&facts).await => {}
            Ok(_) => return Over::gone(),
            Err(error) => return Over::failed(error),
        }
    }
    Over::ok()
}

async fn events(keeping: &Keeping, job: JobId, say: &mut Say) -> Over {
    let look = move |queue: &Queue| match queue.job(job) {
        Some(known) => {
            let spec: Jobspec = known.spec().clone();
            Ok((spec, known.history.clone()))
        }
        None => Err(facts::unknown(queue, job)),
    };
    let (spec, history) = match keeping.look(look).await {
        Ok(Ok(found)) => found,
        Ok(Err(error)) => return Over::failed(error),
        Err(closed) => return Over::failed(closed.to_string()),
    };
    if !say.answer(&spec).await {
        return Over::gone();
    }
    for (time, event) in history {
        let entry = quorate_queue::Entry { time, job: Some(job), event };
        if !say.answer(&entry).await {
            return Over::gone();
        }
    }
    Over::ok()
}

/// Changes each of the chosen jobs; what is refused is told with the job.
async fn each(
    keeping: &Keeping,
    selection: Selection,
    say: &mut Say,
    change: impl Fn(&mut Queue, Time, JobId) -> Result<(), QueueError> + Send + 'static,
) -> Over {
    let all = move |queue: &mut Queue, now: Time| -> Result<Vec<Done>, String> {
        let over =
            |queue: &Queue, id: JobId| queue.job(id).is_none_or(|job| job.state == State::Inactive);
        let jobs: Vec<(JobId, bool)> =
            facts::choose(queue, &selection)?.into_iter().map(|id| (id, over(queue, id))).collect();
        let mut done = Vec::with_capacity(jobs.len());
        // Who depends on a job comes after it: cancelled with it, it must not fail for it.
        for (job, was_over) in jobs.into_iter().rev() {
            // One that ended by what was done to another of them is no failure.
            let ended = over(queue, job) && !was_over;
            let refused = if ended { None } else { change(queue, now, job).err() };
            done.push(Done { job, refused: refused.map(|error| chain(&error)) });
        }
        done.reverse();
        Ok(done)
    };
    match keeping.change(all).await.and_then(|done| done) {
        Ok(done) => tell_done(&done, say).await,
        Err(error) => Over::failed(error),
    }
}

async fn tell_done(done: &[Done], say: &mut Say) -> Over {
    if !say.answer(&done).await {
        return Over::gone();
    }
    if done.iter().any(|done| done.refused.is_some()) {
        return Over { code: exit::FAILED, error: None };
    }
    Over::ok()
}

async fn send_signal(keeping: &Keeping, selection: Selection, signal: i32, say: &mut Say) -> Over {
    let Ok(signal) = u8::try_from(signal) else {
        return Over::failed(format!("{signal} is no signal"));
    };
    let jobs = match chosen(keeping, selection).await {
        Ok(jobs) => jobs,
        Err(error) => return Over::failed(error),
    };
    let mut done = Vec::with_capacity(jobs.len());
    for job in jobs {
        let runner = keeping.runner().clone();
        let to = Delivery { signal, script: true, steps: true };
        let send = move |queue: &Queue| queue.job(job).is_some_and(|job| runner.signal(job, to));
        let refused = match keeping.look(send).await {
            Ok(true) => None,
            Ok(false) => Some(format!("job {job} has no tasks")),
            Err(closed) => return Over::failed(closed.to_string()),
        };
        done.push(Done { job, refused });
    }
    tell_done(&done, say).await
}

/// Waits until jobs are over, with a word of each if that is wanted; the code is the highest of theirs.
async fn wait(
    keeping: &Keeping,
    jobs: Vec<JobId>,
    tell: bool,
    hear: &mut Hear,
    say: &mut Say,
) -> Over {
    let mut left = jobs.len();
    let mut code = exit::OK;
    let mut ends = match keeping.over(jobs).await {
        Ok(ends) => ends,
        Err(closed) => return Over::failed(closed.to_string()),
    };
    let mut some = Vec::new();
    while left > 0 {
        let count = tokio::select! {
            count = ends.recv_many(&mut some, AT_ONCE) => count,
            heard = hear.recv() => if heard.is_none() { return Over::gone() } else { continue },
        };
        if count == 0 {
            return Over::failed(Closed.to_string());
        }
        left -= count;
        let codes = some.iter().map(|(_, code)| code.map_or(exit::OK, i32::from));
        code = codes.fold(code, i32::max);
        if tell {
            let ids = some.iter().map(|(id, _)| *id).collect();
            match facts_of(keeping, ids).await {
                Ok(facts) if say.answer(&facts).await => {}
                Ok(_) => return Over::gone(),
                Err(error) => return Over::failed(error),
            }
        }
        some.clear();
    }
    Over { code, error: None }
}

async fn set_lane(keeping: &Keeping, change: LaneChange, say: &mut Say) -> Over {
    let all = move |queue: &mut Queue, now: Time| {
        let name = change.name.clone().unwrap_or_else(|| queue.first_lane().to_owned());
        let Some(mut lane) = queue.lanes().find(|lane| lane.name == name).cloned() else {
            let known: Vec<&str> = queue.lanes().map(|lane| lane.name.as_str()).collect();
            return Err(format!("there is no queue `{name}`; there are {}", known.join(", ")));
        };
        lane.enabled = change.enabled.unwrap_or(lane.enabled);
        lane.started = change.started.unwrap_or(lane.started);
        lane.reason = if lane.enabled && lane.started { String::new() } else { change.reason };
        queue.set_lane(now, lane).map_err(|error| chain(&error))
    };
    if let Err(error) = keeping.change(all).await.and_then(|done| done) {
        return Over::failed(error);
    }
    match keeping.look(facts::lanes).await {
        Ok(lanes) if say.answer(&lanes).await => Over::ok(),
        Ok(_) => Over::gone(),
        Err(closed) => Over::failed(closed.to_string()),
    }
}

async fn nodes(
    keeping: &Keeping,
    ranks: String,
    change: impl Fn(&mut Queue, Time, u32) -> Result<(), QueueError> + Send + 'static,
) -> Over {
    let all = move |queue: &mut Queue, now: Time| -> Result<(), String> {
        let set: IdSet = match ranks.as_str() {
            "all" => queue.pool().nodes().map(|(offer, _)| offer.rank).collect(),
            text => {
                text.parse().map_err(|error| format!("`{text}` is no set of ranks: {error}"))?
            }
        };
        if let Some(rank) = set.iter().find(|rank| queue.pool().state(*rank).is_none()) {
            return Err(format!("there is no broker {rank}"));
        }
        for rank in set.iter() {
            change(queue, now, rank).map_err(|error| chain(&error))?;
        }
        Ok(())
    };
    match keeping.change(all).await.and_then(|done| done) {
        Ok(()) => Over::ok(),
        Err(error) => Over::failed(error),
    }
}

async fn purge(
    keeping: &Keeping,
    older_than: Option<u64>,
    keep: Option<u64>,
    say: &mut Say,
) -> Over {
    let keep = keep.map_or(usize::MAX, |keep| usize::try_from(keep).unwrap_or(usize::MAX));
    let all = move |queue: &mut Queue, now: Time| {
        let before = older_than.map_or(0, |seconds| now.0.saturating_sub(seconds * 1000));
        queue.purge(now, Time(before), keep)
    };
    match keeping.change(all).await {
        Ok(count) if say.answer(&count).await => Over::ok(),
        Ok(_) => Over::gone(),
        Err(error) => Over::failed(error),
    }
}
