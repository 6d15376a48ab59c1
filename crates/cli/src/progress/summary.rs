//! The closing summary as data: what `quorate run -o json` prints.

use super::ranks_by_pod;
use crate::control::Finish;
use quorate_contract::report::Report;
use serde_json::{Value, json};
use std::time::Duration;

/// How a run went. Times are in seconds; `bringUpSeconds` is from the start to the quorum,
/// `runSeconds` is the program's own. What is not known is left out.
pub fn summary(
    name: &str,
    size: u32,
    finish: &Finish,
    report: Option<&Report>,
    epoch: u64,
    wall: Duration,
) -> Value {
    let seconds = |from: u64, to: u64| to.saturating_sub(from) as f64 / 1000.0;
    let mut summary = json!({
        "name": name,
        "pods": size,
        "succeeded": finish.completed && finish.code == 0,
        "exitCode": finish.code,
        "reason": report.map_or(finish.reason.as_str(), |report| report.reason.as_str()),
        "wallSeconds": wall.as_millis() as f64 / 1000.0,
    });
    let mut add = |key: &str, value: Value| {
        if !value.is_null() && value != "" {
            summary[key] = value;
        }
    };
    let message = report.map_or(&finish.message, |report| &report.message);
    add("message", json!(message));
    let Some(report) = report else { return summary };
    let phases = &report.phases;
    add("bringUpSeconds", json!(phases.quorate.map(|quorate| seconds(epoch, quorate))));
    let ran = phases.program_started.zip(phases.program_ended);
    add("runSeconds", json!(ran.map(|(start, end)| seconds(start, end))));
    if let Some(placement) = &report.placement {
        add("ranks", json!(placement.tasks));
        add("ranksByPod", json!(ranks_by_pod(&placement.tasks_by_pod)));
        add("wire", json!(placement.wire));
    }
    add("failure", json!(report.failure));
    summary
}
