//! Counting cases and printing what came of them.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

/// Cases by outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub passed: u64,
    pub failed: u64,
    pub skipped: u64,
}

impl Tally {
    pub(crate) fn add(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }

    /// One more case.
    pub(crate) fn case(&mut self, good: bool) {
        if good {
            self.passed += 1;
        } else {
            self.failed += 1;
        }
    }
}

/// What a tier came to.
pub(crate) struct Row {
    pub tier: String,
    pub tally: Tally,
    pub took: Duration,
}

/// The closing table, and under it the plain line `N passed, N failed, N skipped`.
pub(crate) fn closing(rows: &[Row]) -> String {
    let mut text = format!(
        "{:<10} {:>8} {:>8} {:>8} {:>9}\n",
        "tier", "passed", "failed", "skipped", "seconds"
    );
    let mut total = Tally::default();
    for row in rows {
        let Tally { passed, failed, skipped } = row.tally;
        let _ = writeln!(
            text,
            "{:<10} {passed:>8} {failed:>8} {skipped:>8} {:>9.1}",
            row.tier,
            row.took.as_secs_f64()
        );
        total.add(row.tally);
    }
    let Tally { passed, failed, skipped } = total;
    let _ = write!(text, "\n{passed} passed, {failed} failed, {skipped} skipped");
    text
}

/// Prints lines with the seconds since it was made.
#[derive(Clone, Copy)]
pub(crate) struct Clock(Instant);

impl Clock {
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    pub(crate) fn elapsed(self) -> Duration {
        self.0.elapsed()
    }

    /// One timed line on standard output.
    pub(crate) fn say(self, line: impl AsRef<str>) {
        println!("[{:7.1} s] {}", self.0.elapsed().as_secs_f64(), line.as_ref());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_adds_up_all_tiers() {
        let row = |tier: &str, passed, failed, skipped| Row {
            tier: tier.into(),
            tally: Tally { passed, failed, skipped },
            took: Duration::from_millis(1500),
        };
        let text = closing(&[row("unit", 10, 0, 1), row("sim", 5, 2, 0)]);
        assert_eq!(text.lines().last().unwrap(), "15 passed, 2 failed, 1 skipped");
        assert!(text.contains("sim"), "{text}");
    }
}
