//! Clusters that are over, or about to be.

use quorate_api::conditions::reason;
use quorate_contract::exit;
use quorate_contract::report::Reason;

use super::{Cause, Found, words};
use crate::failure;
use crate::scene::{Scene, Turn};

pub(super) fn look(scene: &Scene<'_>) -> Option<Found> {
    match scene.turn {
        Turn::Deleting => Some(deleting(scene)),
        Turn::Over => Some(over(scene)),
        Turn::Succeeded => Some(succeeded(scene)),
        Turn::Failed => Some(failed(scene)),
        Turn::Ended => Some(ended(scene)),
        Turn::Suspended | Turn::Quorate | Turn::Waiting => None,
    }
}

fn deleting(scene: &Scene<'_>) -> Found {
    let since = scene.observed.cluster.metadata.deletion_timestamp.as_ref().map(|at| at.0);
    let left = scene.observed.all_pods().count() as u32;
    let message = match left {
        0 => "it is being deleted".to_owned(),
        n => format!("it is being deleted; {n} {} left", words::plural(n, "pod is", "pods are")),
    };
    Found::new(Cause::Deleting, message).since(since)
}

/// What was written when it ended: its pods may be gone by now.
fn over(scene: &Scene<'_>) -> Found {
    let old = &scene.old;
    let cause = of_word(old.reason.as_deref().unwrap_or_default());
    let message = old.message.clone().unwrap_or_else(|| "it is over".to_owned());
    let since = old.completion_time.as_ref().map(|at| at.0);
    Found { cause, message, since, to_do: advice(cause) }
}

fn succeeded(scene: &Scene<'_>) -> Found {
    let report = scene.launcher.and_then(|pod| scene.report(pod));
    let ranks = report
        .and_then(|report| report.placement.as_ref())
        .filter(|placement| placement.tasks > 0)
        .map(|placement| {
            format!(
                "; {} {} on {} {}",
                placement.tasks,
                words::plural(placement.tasks, "rank", "ranks"),
                placement.actual_pods,
                words::plural(placement.actual_pods, "pod", "pods")
            )
        })
        .unwrap_or_default();
    let message = match report {
        // Without a program the report says what ended the cluster.
        Some(report) if !scene.shape.program => report.message.clone(),
        _ if !scene.shape.program => "it ended as it was told to".to_owned(),
        _ => format!("the program ended with code 0{ranks}"),
    };
    Found::new(Cause::Succeeded, message).since(scene.verdict().and_then(|fact| fact.since))
}

fn failed(scene: &Scene<'_>) -> Found {
    let verdict = scene.verdict().cloned().unwrap_or_default();
    let failure = failure::of_this_attempt(scene);
    let word = failure.as_ref().and_then(|one| one.reason.clone()).unwrap_or_default();
    let what = failure
        .and_then(|one| failure::sentence(&one))
        .unwrap_or_else(|| format!("its JobSet failed: {}", words::quote(&verdict.message)));
    let max = scene.shape.max_restarts;
    let cause = if word == reason::DEADLINE_EXCEEDED {
        Cause::DeadlineExceeded
    } else if verdict.reason == "ReachedMaxRestarts" && max > 0 {
        Cause::RestartsExhausted
    } else if word.is_empty() {
        Cause::JobSetFailed
    } else {
        of_word(&word)
    };
    let message = if cause == Cause::RestartsExhausted {
        let used = format!("{max} {}", words::plural(max, "restart is", "restarts are"));
        format!("{what} (in attempt {}, and {used} used up)", scene.attempt)
    } else {
        what
    };
    Found { cause, message, since: verdict.since, to_do: advice(cause) }
}

fn ended(scene: &Scene<'_>) -> Found {
    let end = scene.end();
    let since = end.as_ref().and_then(|end| end.at);
    let failure = failure::of_this_attempt(scene);
    let what = match (failure.and_then(|one| failure::sentence(&one)), end.and_then(|end| end.code))
    {
        (Some(message), _) => message,
        (None, Some(exit::OK)) if !scene.shape.program => "it ended as it was told to".to_owned(),
        (None, Some(code)) => format!("the program ended with code {code}"),
        (None, None) => "the launcher's pod has ended".to_owned(),
    };
    Found::new(Cause::ProgramEnded, format!("{what}; JobSet has yet to draw the conclusion"))
        .since(since)
}

/// Words that are not known are the JobSet's.
fn of_word(word: &str) -> Cause {
    Cause::of_word(word).unwrap_or(Cause::JobSetFailed)
}

fn advice(cause: Cause) -> Option<String> {
    let text = match cause {
        Cause::Reported(Reason::WrongPlacement) => {
            "let mpirun use the host file that is set for it (no --host, no more ranks than slots), \
             or use program.parallel"
        }
        Cause::Reported(Reason::BootstrapTimeout) => {
            "look at the pods that are named, or set a lower minSize or a longer \
             bootstrap.timeoutSeconds"
        }
        Cause::Reported(Reason::CommandNotFound) => {
            "check the command's path in the image; it is an argument list, not a shell line"
        }
        Cause::Reported(Reason::NotExecutable) => {
            "check that the file is executable and built for this machine"
        }
        Cause::Reported(Reason::Infeasible) => "ask for fewer tasks, or for more slots or pods",
        Cause::Reported(Reason::BrokerLost | Reason::Terminated)
        | Cause::NodeLost
        | Cause::PodEvicted => "set failurePolicy.maxRestarts if the program can start again",
        Cause::Reported(_) | Cause::ContainerFailed => {
            "read the last lines in status.failure, or the logs of that pod"
        }
        Cause::InitFailed => "read the logs of that init container",
        Cause::ProbeFailed => "mend what the probe asks, or give it a longer period or threshold",
        Cause::OutOfMemory => "raise resources.limits.memory, or put fewer tasks on a pod",
        Cause::DeadlineExceeded => "raise activeDeadlineSeconds",
        Cause::RestartsExhausted => "mend the cause, or raise failurePolicy.maxRestarts",
        Cause::JobSetFailed => "look at the events of the JobSet and its Jobs",
        _ => return None,
    };
    Some(text.to_owned())
}
