//! Memory of the processes of a test cluster, as the kernel accounts for it.

use super::figure::Figure;
use crate::dist::Dist;
use crate::exec;
use anyhow::{Result, ensure};
use std::collections::BTreeMap;
use std::process::Command;
use std::time::Duration;

/// For the whole cluster.
const LIMIT: Duration = Duration::from_mins(1);

/// Prints the pid, the parent and `smaps_rollup` of every process of this program, one a line.
const SCRIPT: &str = r#"for p in /proc/[0-9]*; do
    [ "$(readlink "$p/exe")" = "$0" ] || continue
    echo ${p#/proc/} $(sed -n 's/^PPid://p' "$p/status") $(cat "$p/smaps_rollup")
done; true"#;

/// One process, in KiB.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Process {
    parent: u32,
    /// All resident pages, those included that it shares with others.
    resident: f64,
    /// Its share of them: a page of n processes counts as 1/n to each.
    proportional: f64,
    /// Those that nobody else has.
    private: f64,
}

/// Memory of each of 64 brokers, once they are quorate, and of their supervisors.
pub(super) fn figures(dist: &Dist) -> Result<Vec<Figure>> {
    let mut command = Command::new(&dist.agent);
    command.args(["start", "--test-size", "64", "--", "sh", "-c", SCRIPT]).arg(&dist.agent);
    let done = exec::capture(&mut command, "bench-resident", LIMIT)?;
    ensure!(done.success(), "measuring memory: {}\n{}", done.how(), done.output.trim_end());
    let processes: BTreeMap<u32, Process> = done.output.lines().filter_map(read).collect();
    let (brokers, supervisors) = apart(&processes);
    ensure!(
        brokers.len() == 64 && supervisors.len() >= 64,
        "{} brokers and {} supervisors were found, not 64",
        brokers.len(),
        supervisors.len()
    );
    let figure = |what: &str, list: &[Process], of: fn(&Process) -> f64| {
        let samples: Vec<f64> = list.iter().map(|process| of(process) / 1024.0).collect();
        Figure::of("bringup", what, "MiB", &samples)
    };
    Ok(vec![
        figure("memory of a broker, 64 of them", &brokers, |p| p.resident).target(4.0),
        figure("memory of a broker: its own pages alone", &brokers, |p| p.private),
        figure("memory of a broker: proportional share (PSS)", &brokers, |p| p.proportional),
        figure("memory of a supervisor", &supervisors, |p| p.resident),
        figure("memory of a supervisor: its own pages alone", &supervisors, |p| p.private),
    ])
}

/// Reads a line of the script; none if the process was gone.
fn read(line: &str) -> Option<(u32, Process)> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let value = |name: &str| {
        let at = words.iter().position(|word| *word == name)?;
        words.get(at + 1)?.parse::<f64>().ok()
    };
    let process = Process {
        parent: words.get(1)?.parse().ok()?,
        resident: value("Rss:")?,
        proportional: value("Pss:")?,
        private: value("Private_Clean:")? + value("Private_Dirty:")?,
    };
    Some((words.first()?.parse().ok()?, process))
}

/// Brokers, and the processes that they are children of. Brokers are in the third generation: their
/// supervisors are children of what started the cluster, as is its janitor.
fn apart(processes: &BTreeMap<u32, Process>) -> (Vec<Process>, Vec<Process>) {
    let parent = |process: &Process| processes.get(&process.parent);
    let brokers: Vec<&Process> =
        processes.values().filter(|process| parent(process).and_then(parent).is_some()).collect();
    let supervisors = brokers.iter().filter_map(|process| parent(process).copied()).collect();
    (brokers.into_iter().copied().collect(), supervisors)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(pid: u32, parent: u32, resident: u32) -> String {
        format!(
            "{pid} {parent} 00400000-7ffe ---p 00000000 00:00 0 [rollup] Rss: {resident} kB Pss: 100 kB \
             Pss_Dirty: 90 kB Shared_Clean: 900 kB Private_Clean: 4 kB Private_Dirty: 60 kB"
        )
    }

    #[test]
    fn a_process_is_read_from_its_line() {
        let expected = Process { parent: 7, resident: 3000.0, proportional: 100.0, private: 64.0 };
        assert_eq!(read(&line(12, 7, 3000)), Some((12, expected)));
        assert_eq!(read("12 7"), None);
        assert_eq!(read(""), None);
    }

    #[test]
    fn brokers_are_told_from_supervisors_by_descent_even_when_they_are_smaller() {
        // The starter, its janitor, two supervisors with a broker each.
        let lines = [(1, 0, 10), (2, 1, 11), (3, 1, 40), (4, 1, 41), (5, 3, 30), (6, 4, 31)];
        let processes: BTreeMap<u32, Process> = lines
            .iter()
            .filter_map(|&(pid, parent, size)| read(&line(pid, parent, size)))
            .collect();
        let (brokers, supervisors) = apart(&processes);
        let sizes = |list: Vec<Process>| list.iter().map(|p| p.resident).collect::<Vec<_>>();
        assert_eq!(sizes(brokers), [30.0, 31.0]);
        assert_eq!(sizes(supervisors), [40.0, 41.0]);
    }
}
