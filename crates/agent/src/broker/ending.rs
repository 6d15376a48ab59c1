//! From the node's last word to the pod's report. Pure.

use super::status;
use crate::settings::Settings;
use quorate_contract::exit;
use quorate_contract::report::{Reason, Report};
use quorate_contract::status::Missing;
use quorate_overlay::ExitReason;

/// Missing pods that a sentence names.
const NAMED: usize = 8;

/// The report of a broker whose node is done. `outcome` is the program's, on rank 0.
pub(super) fn report(
    exit: &ExitReason,
    outcome: Option<Report>,
    settings: &Settings,
    online: u32,
) -> Report {
    match exit {
        ExitReason::Finished { done, reason } => outcome.unwrap_or_else(|| {
            if *done {
                Report::new(exit::OK, Reason::Completed, reason.clone())
            } else {
                let message = format!("the cluster was stopped: {reason}");
                Report::new(exit::TERMINATED, Reason::Terminated, message)
            }
        }),
        ExitReason::BootstrapTimeout { missing } => {
            let missing: Vec<Missing> =
                missing.iter().map(|one| status::missing(settings, one.clone())).collect();
            let message = timeout_message(settings, online, &missing);
            Report::new(exit::BOOTSTRAP_TIMEOUT, Reason::BootstrapTimeout, message)
        }
        ExitReason::Refused { reason } => {
            Report::new(exit::REFUSED, Reason::Refused, format!("refused by the overlay: {reason}"))
        }
        ExitReason::Fenced(reason) => {
            Report::new(exit::ORPHANED, Reason::Orphaned, reason.to_string())
        }
        ExitReason::Left => outcome.unwrap_or_else(|| {
            Report::new(exit::TERMINATED, Reason::Terminated, "the pod was told to stop")
        }),
    }
}

fn timeout_message(settings: &Settings, online: u32, missing: &[Missing]) -> String {
    let config = &settings.config;
    let seconds = config.bootstrap.timeout_seconds;
    if settings.rank != 0 {
        return format!("the cluster was not quorate within {seconds} s");
    }
    let mut names: Vec<String> =
        missing.iter().take(NAMED).map(|one| format!("{} ({})", one.pod, one.why)).collect();
    if missing.len() > NAMED {
        names.push(format!("and {} more", missing.len() - NAMED));
    }
    format!(
        "{online} of {} brokers came within {seconds} s, the quorum is {}; missing: {}",
        config.size,
        config.min_size,
        names.join(", ")
    )
}

/// The lines of the table of who is missing, for stderr.
pub(super) fn table(settings: &Settings, missing: &[quorate_overlay::Missing]) -> Vec<String> {
    let rows: Vec<Missing> =
        missing.iter().map(|one| status::missing(settings, one.clone())).collect();
    let width = rows.iter().map(|row| row.pod.len()).max().unwrap_or(0).max(3);
    let mut lines = vec![format!("{:>6}  {:width$}  {:>8}  WHY", "RANK", "POD", "SILENT")];
    lines.extend(rows.iter().map(|row| {
        let silent = row.silent_seconds.map_or("-".to_owned(), |seconds| format!("{seconds} s"));
        format!("{:>6}  {:width$}  {silent:>8}  {}", row.rank, row.pod, row.why)
    }));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::settings;
    use quorate_overlay::{FenceReason, Millis};

    fn missing(rank: u32) -> quorate_overlay::Missing {
        quorate_overlay::Missing { rank, silent: Some(Millis(8_400)), why: "no contact".into() }
    }

    #[test]
    fn every_last_word_has_its_code() {
        let worker = settings(&[("launcher", 1), ("worker", 3)], 2);
        let code = |exit: ExitReason| {
            let report = report(&exit, None, &worker, 1);
            (report.exit_code, report.reason)
        };
        let finished = |done| ExitReason::Finished { done, reason: "the program ended".into() };
        assert_eq!(code(finished(true)), (0, Reason::Completed));
        assert_eq!(code(finished(false)), (143, Reason::Terminated));
        assert_eq!(code(ExitReason::Left), (143, Reason::Terminated));
        let refused = ExitReason::Refused { reason: "attempt 0, now 1".into() };
        assert_eq!(code(refused), (67, Reason::Refused));
        let orphaned = FenceReason::Orphaned { silent: Millis(15_000) };
        assert_eq!(code(ExitReason::Fenced(orphaned)), (68, Reason::Orphaned));
        let timeout = ExitReason::BootstrapTimeout { missing: vec![] };
        assert_eq!(code(timeout), (66, Reason::BootstrapTimeout));
    }

    #[test]
    fn the_launcher_names_who_is_missing() {
        let launcher = settings(&[("launcher", 1), ("worker", 3)], 0);
        let exit = ExitReason::BootstrapTimeout { missing: vec![missing(2), missing(3)] };
        let report = report(&exit, None, &launcher, 2);
        assert_eq!(
            report.message,
            "2 of 4 brokers came within 60 s, the quorum is 4; \
             missing: worker-0-1 (no contact), worker-0-2 (no contact)"
        );
        assert_eq!(
            table(&launcher, &[missing(2)]),
            ["  RANK  POD           SILENT  WHY", "     2  worker-0-1       8 s  no contact"]
        );
    }

    #[test]
    fn the_programs_report_is_the_launchers() {
        let launcher = settings(&[("launcher", 1)], 0);
        let outcome = Report::new(3, Reason::ProgramFailed, "exit 3");
        let exit = ExitReason::Finished { done: true, reason: "exit 3".into() };
        assert_eq!(report(&exit, Some(outcome.clone()), &launcher, 1), outcome);
    }
}
