//! The report that a pod leaves behind as its termination message (`docs/spec/report.md`): one
//! JSON object of at most [`crate::paths::TERMINATION_LIMIT`] bytes.

use crate::paths::TERMINATION_LIMIT;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// How the pod's part of the cluster ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// The format's version: 1.
    pub version: u32,
    /// The code that the pod exits with.
    pub exit_code: i32,
    /// The machine's word for it.
    pub reason: Reason,
    /// One sentence for people.
    pub message: String,
    /// The first thing that went wrong, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
    /// Where tasks ran; from the launcher only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placement: Option<Placement>,
    /// When things happened.
    #[serde(default)]
    pub phases: Phases,
}

/// Why a cluster or a pod ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reason {
    /// The program ended with code 0, or the overlay said that the cluster is done.
    Completed,
    /// The program or a rank ended with a code other than 0.
    ProgramFailed,
    /// A rank was ended by a signal.
    Signaled,
    /// The kernel killed a rank because its pod's memory was used up.
    OutOfMemory,
    /// A rank called MPI_Abort.
    Aborted,
    /// A rank ended with code 0 without finalizing MPI.
    NotFinalized,
    /// A rank ended with code 0 while other ranks waited for it in a barrier or fence.
    Deserted,
    /// The command does not exist on the pod.
    CommandNotFound,
    /// The command exists but cannot be executed.
    NotExecutable,
    /// The parallel program ran on fewer pods than planned.
    WrongPlacement,
    /// More tasks than slots, or another request that cannot be met.
    Infeasible,
    /// Not enough brokers came in time.
    BootstrapTimeout,
    /// A broker that the program needed was lost.
    BrokerLost,
    /// This broker was refused by the overlay.
    Refused,
    /// This broker was cut off from rank 0 for too long.
    Orphaned,
    /// Told to stop from outside (SIGTERM, deletion, eviction).
    Terminated,
    /// The user cancelled the program.
    Canceled,
    /// A time limit ended the program.
    TimeLimit,
    /// A port, file or directory that the agent needs is not to be had.
    Environment,
    /// An error inside Quorate.
    Internal,
}

impl Reason {
    /// The word as it stands in JSON, conditions, events and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Completed => "Completed",
            Self::ProgramFailed => "ProgramFailed",
            Self::Signaled => "Signaled",
            Self::OutOfMemory => "OutOfMemory",
            Self::Aborted => "Aborted",
            Self::NotFinalized => "NotFinalized",
            Self::Deserted => "Deserted",
            Self::CommandNotFound => "CommandNotFound",
            Self::NotExecutable => "NotExecutable",
            Self::WrongPlacement => "WrongPlacement",
            Self::Infeasible => "Infeasible",
            Self::BootstrapTimeout => "BootstrapTimeout",
            Self::BrokerLost => "BrokerLost",
            Self::Refused => "Refused",
            Self::Orphaned => "Orphaned",
            Self::Terminated => "Terminated",
            Self::Canceled => "Canceled",
            Self::TimeLimit => "TimeLimit",
            Self::Environment => "Environment",
            Self::Internal => "Internal",
        }
    }
}

/// The first failure.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Failure {
    /// The failing task's rank in its program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rank: Option<u32>,
    /// The broker's rank.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub broker: Option<u32>,
    /// The pod's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod: Option<String>,
    /// The node's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// The code of the task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// The signal that ended the task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
    /// Its last lines of output, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub log_tail: Vec<String>,
}

/// Where the tasks of the program ran.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Placement {
    /// Pods that should have got tasks.
    pub planned_pods: u32,
    /// Pods that did.
    pub actual_pods: u32,
    /// Tasks of all pods.
    pub tasks: u32,
    /// Tasks by pod, as a task map of `N x tasks` runs in rank order, such as `4x2` or `1x0,3x2`.
    pub tasks_by_pod: String,
    /// The ways by which ranks met: `PMI-1`, `PMI-2`, `PMIx`, `none`, with the number of ranks.
    #[serde(default)]
    pub wire: BTreeMap<String, u32>,
}

/// Milliseconds since the Unix epoch of each turn that was reached.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Phases {
    /// The agent started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_started: Option<u64>,
    /// The broker was connected (launcher: had its first member).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connected: Option<u64>,
    /// Quorum was reached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quorate: Option<u64>,
    /// The program was started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program_started: Option<u64>,
    /// The program ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program_ended: Option<u64>,
}

impl Report {
    /// A report with nothing but code, reason and message.
    pub fn new(exit_code: i32, reason: Reason, message: impl Into<String>) -> Self {
        Self {
            version: 1,
            exit_code,
            reason,
            message: message.into(),
            failure: None,
            placement: None,
            phases: Phases::default(),
        }
    }

    /// JSON of at most [`TERMINATION_LIMIT`] bytes: log lines are dropped from the oldest, then the
    /// message is cut, so that what is left is always a whole object.
    pub fn render(&self) -> String {
        let mut report = self.clone();
        loop {
            let text = serde_json::to_string(&report).expect("plain data always serializes");
            if text.len() <= TERMINATION_LIMIT {
                return text;
            }
            match &mut report.failure {
                Some(failure) if !failure.log_tail.is_empty() => {
                    failure.log_tail.remove(0);
                }
                _ => {
                    let keep = report.message.chars().count() / 2;
                    report.message = report.message.chars().take(keep).collect();
                    if keep == 0 {
                        report.failure = None;
                        report.placement = None;
                    }
                }
            }
        }
    }

    /// Reads a termination message.
    pub fn parse(text: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_report_is_cut_to_a_whole_object() {
        let mut report = Report::new(139, Reason::Signaled, "rank 5 was ended by signal 11");
        report.failure = Some(Failure {
            rank: Some(5),
            log_tail: (0..200).map(|n| format!("line {n} {}", "x".repeat(100))).collect(),
            ..Failure::default()
        });
        let text = report.render();
        assert!(text.len() <= TERMINATION_LIMIT);
        let back = Report::parse(&text).unwrap();
        assert_eq!(back.exit_code, 139);
        assert!(back.failure.unwrap().log_tail.last().unwrap().starts_with("line 199"));
    }

    #[test]
    fn a_report_without_end_in_its_message_is_still_whole() {
        let report = Report::new(1, Reason::Internal, "é".repeat(10_000));
        assert!(Report::parse(&report.render()).is_ok());
    }

    #[test]
    fn every_reason_is_its_json_word() {
        for reason in [Reason::Completed, Reason::WrongPlacement, Reason::Environment] {
            assert_eq!(serde_json::to_value(reason).unwrap(), reason.as_str());
        }
    }
}
