//! What a benchmark says: a line of JSON on standard output for each figure.

use serde::Serialize;
use std::time::Duration;

/// A measured quantity.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Figure {
    /// What was measured.
    pub what: String,
    /// Of the samples: `s`, `ms`, `MiB`, `MB`, `%`, `x` for a ratio, or empty for a count.
    pub unit: &'static str,
    /// One or more.
    pub samples: Vec<f64>,
    /// The most that the median should be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<f64>,
    /// Whose figure this is, if not ours.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peer: Option<String>,
}

impl Figure {
    /// A quantity that was measured once or more often.
    pub fn new(what: impl Into<String>, unit: &'static str, samples: &[f64]) -> Self {
        Self { what: what.into(), unit, samples: samples.to_vec(), target: None, peer: None }
    }

    /// The same with a target.
    #[must_use]
    pub fn target(mut self, most: f64) -> Self {
        self.target = Some(most);
        self
    }

    /// The same as a peer's.
    #[must_use]
    pub fn peer(mut self, name: impl Into<String>) -> Self {
        self.peer = Some(name.into());
        self
    }

    /// Writes it.
    #[expect(clippy::print_stdout, reason = "figures are the output of the program")]
    pub fn tell(&self) {
        println!("{}", serde_json::to_string(self).expect("a figure is plain data"));
    }
}

/// Says how far the benchmark is.
#[expect(clippy::print_stderr, reason = "people see how far it is")]
pub fn say(text: impl AsRef<str>) {
    eprintln!("{}", text.as_ref());
}

/// The value below which `part` (0..=1) of the samples are, by the nearest rank; 0 without samples.
pub fn quantile(samples: &[f64], part: f64) -> f64 {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rank = (part * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or_default()
}

/// Seconds, for a list of samples.
pub fn seconds(list: impl IntoIterator<Item = Duration>) -> Vec<f64> {
    list.into_iter().map(|span| span.as_secs_f64()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_samples() {
        let samples: Vec<f64> = (1..=200).rev().map(f64::from).collect();
        assert!((quantile(&samples, 0.5) - 100.0).abs() < 1e-9);
        assert!((quantile(&samples, 0.99) - 198.0).abs() < 1e-9);
        assert!((quantile(&samples[..1], 0.5) - 200.0).abs() < 1e-9);
        assert!(quantile(&[], 0.5).abs() < 1e-9);
    }

    #[test]
    fn a_figure_is_a_line_of_json() {
        let figure = Figure::new("x", "s", &[1.0]).target(2.0);
        let line = serde_json::to_string(&figure).unwrap();
        assert_eq!(line, r#"{"what":"x","unit":"s","samples":[1.0],"target":2.0}"#);
    }
}
