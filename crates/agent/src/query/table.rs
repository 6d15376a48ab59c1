//! Answers as text for people. Pure.

use crate::broker::verbs::{Found, Hop};
use quorate_contract::status::{BrokerState, ClusterStatus};
use std::fmt::Write;

/// A cluster's status, ended by a newline.
pub(super) fn status(status: &ClusterStatus) -> String {
    let mut text = format!(
        "{}  {}  {}/{} brokers, quorum {}",
        status.cluster,
        state(status.state),
        status.online,
        status.size,
        status.min_size
    );
    if status.attempt > 0 {
        let _ = write!(text, ", attempt {}", status.attempt);
    }
    if let Some(seconds) = status.gives_up_in_seconds {
        let _ = write!(text, ", gives up in {seconds} s");
    }
    text.push('\n');
    let _ = writeln!(text, "  online   {}", or_none(&status.online_ranks));
    if !status.torpid_ranks.is_empty() {
        let _ = writeln!(text, "  torpid   {}", status.torpid_ranks);
    }
    if let Some(leaving) = &status.leaving {
        let (pods, jobs) = (&leaving.pods, leaving.jobs);
        let plural = if jobs == 1 { "" } else { "s" };
        let _ = writeln!(text, "  leaving  {pods}, once {jobs} job{plural} there ended");
    }
    if let Some(program) = &status.program {
        let (tasks, pods) = (program.tasks, program.pods);
        let _ =
            writeln!(text, "  program  {tasks} tasks on {pods} pods ({})", program.tasks_by_pod);
    }
    let width = status.missing.iter().map(|row| row.pod.len()).max().unwrap_or(0);
    for (index, row) in status.missing.iter().enumerate() {
        let head = if index == 0 { "missing" } else { "" };
        let _ = write!(text, "  {head:7}  {:>5}  {:width$}  {}", row.rank, row.pod, row.why);
        if let Some(seconds) = row.silent_seconds {
            let _ = write!(text, " (last heard of {seconds} s ago)");
        }
        text.push('\n');
    }
    let listed = status.missing.len() as u32 + status.online;
    if listed < status.size && status.missing.len() >= 32 {
        let _ = writeln!(text, "           and {} more", status.size - listed);
    }
    text
}

/// The answer of a look-up.
pub(super) fn found(found: &Found) -> String {
    let mut text = format!("rank {}  {}", found.rank, found.name);
    text.push_str(if found.online { "  online\n" } else { "  offline\n" });
    let _ = writeln!(text, "  host     {}", found.host);
    let _ = writeln!(text, "  name     {}", found.full_name);
    if !found.addresses.is_empty() {
        let _ = writeln!(text, "  address  {}", found.addresses.join(" "));
    }
    if let Some(node) = &found.node {
        let _ = writeln!(text, "  node     {node}");
    }
    if !found.gpus.is_empty() {
        let _ = writeln!(text, "  gpus     {}", found.gpus.join(" "));
    }
    text
}

/// One line of a trace.
pub(super) fn hop(hop: &Hop) -> String {
    let micros = hop.round_trip_micros;
    let (whole, part) = (micros / 1000, micros % 1000);
    format!("{:>6}  {:20}  {whole}.{part:03} ms\n", hop.rank, hop.name)
}

fn or_none(set: &str) -> &str {
    if set.is_empty() { "none" } else { set }
}

fn state(state: BrokerState) -> &'static str {
    match state {
        BrokerState::Join => "JOIN",
        BrokerState::Init => "INIT",
        BrokerState::Quorum => "QUORUM",
        BrokerState::Run => "RUN",
        BrokerState::Cleanup => "CLEANUP",
        BrokerState::Shutdown => "SHUTDOWN",
        BrokerState::Exit => "EXIT",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_contract::status::Missing;

    #[test]
    fn a_cluster_that_waits_names_whom_it_waits_for() {
        let status = ClusterStatus {
            cluster: "solver".into(),
            attempt: 1,
            state: BrokerState::Quorum,
            size: 4,
            free_from: None,
            leaving: None,
            min_size: 4,
            online: 2,
            online_ranks: "0-1".into(),
            torpid_ranks: String::new(),
            missing: vec![
                Missing {
                    rank: 2,
                    pod: "worker-0-1".into(),
                    silent_seconds: Some(8),
                    why: "no contact".into(),
                },
                Missing {
                    rank: 3,
                    pod: "worker-0-2".into(),
                    silent_seconds: None,
                    why: "refused: attempt 0, now 1".into(),
                },
            ],
            gives_up_in_seconds: Some(592),
            program: None,
            ..ClusterStatus::default()
        };
        assert_eq!(
            super::status(&status),
            "solver  QUORUM  2/4 brokers, quorum 4, attempt 1, gives up in 592 s\n\
             \x20 online   0-1\n\
             \x20 missing      2  worker-0-1  no contact (last heard of 8 s ago)\n\
             \x20              3  worker-0-2  refused: attempt 0, now 1\n"
        );
    }

    #[test]
    fn a_hop_shows_milliseconds() {
        let hop = Hop { rank: 3, name: "worker-0-2".into(), round_trip_micros: 1_042 };
        assert_eq!(super::hop(&hop), "     3  worker-0-2            1.042 ms\n");
    }
}
