//! The metrics that every process has by convention
//! (<https://prometheus.io/docs/instrumenting/writing_clientlibs/#process-metrics>), from `/proc/self`
//! (proc(5)).

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Unit;
use std::fmt;
use std::fs;

/// `/proc` counts CPU time in hundredths of a second on every Linux that Kubernetes runs on
/// (USER_HZ is part of the kernel's interface).
const TICKS_PER_SECOND: f64 = 100.0;

/// Reads `/proc/self` at each scrape.
#[derive(Debug)]
pub(super) struct Process {
    _private: (),
}

/// What is read.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Reading {
    cpu_seconds: f64,
    resident_bytes: i64,
}

impl Process {
    pub(super) fn of_this() -> Self {
        Self { _private: () }
    }
}

/// From the texts of `stat` and `status`.
fn parse(stat: &str, status: &str) -> Option<Reading> {
    // The command's name may hold blanks and brackets; the last bracket ends it.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    // utime and stime are fields 14 and 15; the list begins with field 3.
    let ticks = fields.get(11)?.parse::<f64>().ok()? + fields.get(12)?.parse::<f64>().ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes = line.trim().strip_suffix("kB")?.trim().parse::<i64>().ok()?;
    Some(Reading { cpu_seconds: ticks / TICKS_PER_SECOND, resident_bytes: kibibytes * 1024 })
}

impl Collector for Process {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let read = |name| fs::read_to_string(format!("/proc/self/{name}")).unwrap_or_default();
        // Without /proc there are no such metrics, which a scraper sees.
        let Some(reading) = parse(&read("stat"), &read("status")) else { return Ok(()) };
        let cpu = encoder.encode_descriptor(
            "process_cpu",
            "CPU time in user and system mode",
            Some(&Unit::Seconds),
            MetricType::Counter,
        )?;
        ConstCounter::new(reading.cpu_seconds).encode(cpu)?;
        let resident = encoder.encode_descriptor(
            "process_resident_memory",
            "Resident memory",
            Some(&Unit::Bytes),
            MetricType::Gauge,
        )?;
        ConstGauge::new(reading.resident_bytes).encode(resident)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_brackets_does_not_shift_the_fields() {
        let stat = "7 (a) b) S 1 7 7 0 -1 4194560 9 0 0 0 150 50 0 0 20 0 1 0 42 9 9";
        let status = "Name:\tx\nVmRSS:\t    2048 kB\n";
        let reading = parse(stat, status).unwrap();
        assert_eq!(reading, Reading { cpu_seconds: 2.0, resident_bytes: 2 << 20 });
    }

    #[test]
    fn this_process_has_a_size() {
        let read = |name| fs::read_to_string(format!("/proc/self/{name}")).unwrap();
        assert!(parse(&read("stat"), &read("status")).unwrap().resident_bytes > 0);
    }
}
