//! What the kernel knows of a process (proc(5)), and which process is which.

use anyhow::{Context as _, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// `sysconf(_SC_CLK_TCK)`, which is 100 on every Linux that Kubernetes runs on.
const TICKS_PER_SECOND: f64 = 100.0;

/// Processor time that a process has taken, its own and the kernel's for it.
pub fn processor_time(pid: u32) -> Result<Duration> {
    let stat = read(pid, "stat")?;
    // The name in parentheses may hold anything.
    let (_, rest) = stat.rsplit_once(')').context("stat has a name")?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    let ticks = |at: usize| fields.get(at).and_then(|word| word.parse::<f64>().ok());
    let (user, system) = ticks(11).zip(ticks(12)).context("stat has times")?;
    Ok(Duration::from_secs_f64((user + system) / TICKS_PER_SECOND))
}

/// The most memory that it ever had resident, in MiB.
pub fn peak_memory(pid: u32) -> Result<f64> {
    let status = read(pid, "status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes = line.and_then(|rest| rest.split_whitespace().next()?.parse::<f64>().ok());
    Ok(kilobytes.context("status has VmHWM")? / 1024.0)
}

/// The process of the PID namespace of `member` that runs the program of this name.
pub fn program_beside(member: u32, name: &str) -> Option<u32> {
    let namespace = |pid: u32| fs::read_link(format!("/proc/{pid}/ns/pid")).ok();
    let home = namespace(member)?;
    all().find(|pid| {
        program(*pid).as_deref() == Some(name) && namespace(*pid).as_ref() == Some(&home)
    })
}

/// Processes in the control group of a container, by its ID.
pub fn of_container(id: &str) -> Vec<u32> {
    let inside = |pid: &u32| read(*pid, "cgroup").is_ok_and(|groups| groups.contains(id));
    all().filter(inside).collect()
}

/// A process's parent.
pub fn parent(pid: u32) -> Option<u32> {
    let status = read(pid, "status").ok()?;
    status.lines().find_map(|line| line.strip_prefix("PPid:"))?.trim().parse().ok()
}

/// The file name of what a process was started as.
fn program(pid: u32) -> Option<String> {
    let words = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let first = words.split(|byte| *byte == 0).next()?;
    let first = PathBuf::from(String::from_utf8_lossy(first).into_owned());
    Some(first.file_name()?.to_string_lossy().into_owned())
}

fn all() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

fn read(pid: u32, name: &str) -> Result<String> {
    let path = Path::new("/proc").join(pid.to_string()).join(name);
    fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_found_and_has_used_memory() {
        let own = std::process::id();
        assert!(peak_memory(own).unwrap() > 0.5);
        assert!(processor_time(own).unwrap() < Duration::from_mins(10));
        let name = program(own).unwrap();
        assert!(program_beside(own, &name).is_some());
        assert_eq!(program_beside(own, "no such program"), None);
        assert_eq!(parent(own), Some(std::os::unix::process::parent_id()));
    }
}
