//! One line of the table of benchmarks.

use serde::Serialize;
use std::fmt::Write as _;

/// A measured quantity, in a unit.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Figure {
    /// The benchmark it belongs to.
    pub bench: &'static str,
    /// What was measured.
    pub what: String,
    /// `ms`, `s`, `MiB` and the like; `x` for a ratio, empty for a count.
    pub unit: String,
    pub median: f64,
    pub min: f64,
    pub max: f64,
    pub runs: usize,
    /// The most that it should be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<f64>,
    /// Whose figure this is, if not ours.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peer: Option<String>,
}

impl Figure {
    /// The median and extremes of `samples`; there must be one at least.
    pub(super) fn of(
        bench: &'static str,
        what: impl Into<String>,
        unit: impl Into<String>,
        samples: &[f64],
    ) -> Self {
        let mut sorted = samples.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (middle, last) = (sorted.len() / 2, sorted.len() - 1);
        let median = if sorted.len().is_multiple_of(2) {
            f64::midpoint(sorted[middle - 1], sorted[middle])
        } else {
            sorted[middle]
        };
        Self {
            bench,
            what: what.into(),
            unit: unit.into(),
            median,
            min: sorted[0],
            max: sorted[last],
            runs: sorted.len(),
            target: None,
            peer: None,
        }
    }

    /// The same with a target.
    pub(super) fn target(mut self, most: f64) -> Self {
        self.target = Some(most);
        self
    }

    /// The same as a peer's.
    pub(super) fn peer(mut self, name: impl Into<String>) -> Self {
        self.peer = Some(name.into());
        self
    }

    /// Whether the target is met; `None` without one.
    pub(super) fn met(&self) -> Option<bool> {
        self.target.map(|most| self.median <= most)
    }
}

/// All figures as a table; a peer's stands below ours.
pub(super) fn table(figures: &[Figure]) -> String {
    let mut text = format!(
        "{:<10} {:<50} {:>10} {:>19} {:>5} {:>12}\n",
        "bench", "figure", "median", "min – max", "runs", "target"
    );
    for figure in figures {
        let what = match &figure.peer {
            Some(peer) => format!("  {peer}: {}", figure.what),
            None => figure.what.clone(),
        };
        let target = match (figure.target, figure.met()) {
            (Some(most), Some(met)) => {
                format!("{} {}", number(most), if met { "ok" } else { "MISSED" })
            }
            _ => "–".into(),
        };
        let range = format!("{} – {}", number(figure.min), number(figure.max));
        let median = format!("{} {}", number(figure.median), figure.unit);
        let _ = writeln!(
            text,
            "{:<10} {what:<50} {median:>10} {range:>19} {:>5} {target:>12}",
            figure.bench, figure.runs
        );
    }
    text
}

/// Three digits that say something: 0.35, 3.5, 35.0, 351.
fn number(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_even_and_odd_samples() {
        assert!((Figure::of("b", "w", "ms", &[3.0, 1.0, 2.0]).median - 2.0).abs() < 1e-9);
        let even = Figure::of("b", "w", "ms", &[4.0, 1.0, 2.0, 3.0]);
        assert!((even.median - 2.5).abs() < 1e-9);
        assert!((even.max - 4.0).abs() < 1e-9);
    }

    #[test]
    fn a_missed_target_shows() {
        let figure = Figure::of("launch", "run -n1 true", "ms", &[6.0]).target(5.0);
        assert_eq!(figure.met(), Some(false));
        assert!(table(&[figure]).contains("5.00 MISSED"));
    }

    #[test]
    fn small_targets_are_not_rounded_away() {
        let figure = Figure::of("controller", "ratio", "x", &[1.04]).target(1.1);
        assert!(table(&[figure]).contains("1.10 ok"));
        assert_eq!([0.354, 35.04, 351.4].map(number), ["0.35", "35.0", "351"]);
    }
}
