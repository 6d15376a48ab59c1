//! Lengths of time: limits as people write them, elapsed times as Slurm prints them.

use super::{ValueError, digits};

const EXPECTED: &str = "a time: minutes, minutes:seconds, hours:minutes:seconds, days-hours, \
                        days-hours:minutes, days-hours:minutes:seconds or UNLIMITED";
/// More is no limit: Slurm's own is 2^32 minutes.
const MOST: u64 = u32::MAX as u64 * 60;

/// A time limit in seconds, rounded up to whole minutes as Slurm keeps it; `None` is no limit.
///
/// `1:30` is one minute and thirty seconds, so it becomes two minutes.
pub fn time_limit(text: &str) -> Result<Option<u64>, ValueError> {
    let word = text.to_ascii_uppercase();
    if matches!(word.as_str(), "UNLIMITED" | "INFINITE" | "-1") {
        return Ok(None);
    }
    let seconds = seconds(text).ok_or_else(|| ValueError::form(text, EXPECTED))?;
    if seconds > MOST {
        return Err(ValueError::Range { text: text.to_owned(), range: "at most 2^32 minutes" });
    }
    Ok((seconds > 0).then(|| seconds.div_ceil(60) * 60))
}

/// The seconds that a text stands for.
fn seconds(text: &str) -> Option<u64> {
    let (days, clock) = match text.split_once('-') {
        Some((days, clock)) => (Some(digits(days)?), clock),
        None => (None, text),
    };
    let parts: Vec<u64> = clock.split(':').map(digits).collect::<Option<_>>()?;
    let (hours, minutes, seconds) = match (days, parts.as_slice()) {
        (Some(_), [hours]) => (*hours, 0, 0),
        (Some(_), [hours, minutes]) => (*hours, *minutes, 0),
        (None, [minutes]) => (0, *minutes, 0),
        (None, [minutes, seconds]) => (0, *minutes, *seconds),
        (_, [hours, minutes, seconds]) => (*hours, *minutes, *seconds),
        _ => return None,
    };
    let hours = days.unwrap_or(0).checked_mul(24)?.checked_add(hours)?;
    let minutes = hours.checked_mul(60)?.checked_add(minutes)?;
    minutes.checked_mul(60)?.checked_add(seconds)
}

/// A time that has passed, as squeue's TIME has it: `M:SS`, `H:MM:SS`, `D-HH:MM:SS`.
pub fn elapsed(seconds: u64) -> String {
    let (minutes, second) = (seconds / 60, seconds % 60);
    let (hours, minute) = (minutes / 60, minutes % 60);
    let (days, hour) = (hours / 24, hours % 24);
    if days > 0 {
        format!("{days}-{hour:02}:{minute:02}:{second:02}")
    } else if hours > 0 {
        format!("{hour}:{minute:02}:{second:02}")
    } else {
        format!("{minute}:{second:02}")
    }
}

/// A time in three parts, as scontrol, sacct and sinfo have it: `[D-]HH:MM:SS`.
pub fn limit_text(seconds: u64) -> String {
    let (minutes, second) = (seconds / 60, seconds % 60);
    let (hours, minute) = (minutes / 60, minutes % 60);
    let (days, hour) = (hours / 24, hours % 24);
    let clock = format!("{hour:02}:{minute:02}:{second:02}");
    if days > 0 { format!("{days}-{clock}") } else { clock }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_of_a_time_limit_is_read() {
        for (text, seconds) in [
            ("5", Some(300)),
            ("1:30", Some(120)),
            ("0:30", Some(60)),
            ("10:00", Some(600)),
            ("1:00:00", Some(3600)),
            ("01:02:03", Some(3780)),
            ("2-0", Some(172_800)),
            ("1-12:30", Some(131_400)),
            ("1-00:00:01", Some(86_460)),
            ("90:00:00", Some(324_000)),
            ("0", None),
            ("-1", None),
            ("UNLIMITED", None),
            ("infinite", None),
        ] {
            assert_eq!(time_limit(text), Ok(seconds), "{text}");
        }
        for text in ["", "x", "1:2:3:4", "-5", "1-", "1-2:3:4:5", ":", "1:", "5m", "1.5", "+5"] {
            assert!(matches!(time_limit(text), Err(ValueError::Form { .. })), "{text}");
        }
        assert!(matches!(time_limit("99999999999"), Err(ValueError::Range { .. })));
        assert!(time_limit("99999999999999999999").is_err());
        assert!(time_limit("9999999999999999-0").is_err());
    }

    #[test]
    fn times_are_printed_as_slurm_prints_them() {
        for (seconds, short, long) in [
            (0, "0:00", "00:00:00"),
            (59, "0:59", "00:00:59"),
            (3599, "59:59", "00:59:59"),
            (3600, "1:00:00", "01:00:00"),
            (90_061, "1-01:01:01", "1-01:01:01"),
        ] {
            assert_eq!(elapsed(seconds), short);
            assert_eq!(limit_text(seconds), long);
        }
    }
}
