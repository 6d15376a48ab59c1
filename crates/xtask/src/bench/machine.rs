//! Facts of the machine that figures are worth nothing without.

use serde::Serialize;
use std::fmt;
use std::fs;
use std::process::Command;
use std::thread;

/// What the figures were measured on.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Machine {
    pub processor: String,
    pub cores: usize,
    pub memory_gib: f64,
    pub kernel: String,
    pub compiler: String,
    /// Runnable processes on average over the last minute, before the run.
    pub load: String,
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}, {} cores, {:.0} GiB, Linux {}, {}; load before the run {}",
            self.processor, self.cores, self.memory_gib, self.kernel, self.compiler, self.load
        )
    }
}

/// Reads them from `/proc` (proc(5)).
pub(super) fn facts() -> Machine {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let field = |text: &str, name: &str| {
        let line = text.lines().find(|line| line.starts_with(name)).unwrap_or_default();
        line.split_once(':').map(|(_, value)| value.trim().to_owned()).unwrap_or_default()
    };
    let memory = field(&read("/proc/meminfo"), "MemTotal");
    let kilobytes: f64 =
        memory.split_whitespace().next().and_then(|word| word.parse().ok()).unwrap_or_default();
    let compiler = Command::new("rustc").arg("--version").output().map(|output| output.stdout);
    Machine {
        processor: field(&read("/proc/cpuinfo"), "model name"),
        cores: thread::available_parallelism().map_or(0, usize::from),
        memory_gib: kilobytes / f64::from(1 << 20),
        kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
        compiler: String::from_utf8_lossy(&compiler.unwrap_or_default()).trim().to_owned(),
        load: read("/proc/loadavg").split(' ').next().unwrap_or_default().to_owned(),
    }
}
