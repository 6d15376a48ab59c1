//! Spans and moments as people write them.
//!
//! Owns: the syntax. A span is a number with a unit (`90s`, `1.5h`, `2d`; Flux RFC 23), minutes without one,
//! or clock-like as in Slurm: `MM:SS`, `HH:MM:SS`, `D-HH`, `D-HH:MM`, `D-HH:MM:SS`. So `1:30` is a minute
//! and a half, never an hour and a half. Pure.

use quorate_queue::Time;

/// Seconds of a span, rounded up to a whole one; 0 for none.
pub(crate) fn seconds(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let wrong = || {
        format!(
            "`{text}` is not a time: write 90s, 15m, 1.5h or 2d; a bare number is minutes, and \
             1:30 a minute and 30 seconds"
        )
    };
    if text.contains([':', '-']) {
        return clock(text).ok_or_else(wrong);
    }
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let number: f64 = number.parse().map_err(|_| wrong())?;
    let each = match unit {
        "ms" => 0.001,
        "s" => 1.0,
        "" | "m" => 60.0,
        "h" => 3600.0,
        "d" => 86_400.0,
        _ => return Err(wrong()),
    };
    let all = (number * each).ceil();
    // A century of seconds is exact in both.
    if !(0.0..3.2e9).contains(&all) {
        return Err(format!("`{text}` is longer than anybody waits"));
    }
    #[expect(clippy::cast_sign_loss, reason = "the range was looked at")]
    Ok(all as u64)
}

fn clock(text: &str) -> Option<u64> {
    let (days, rest) = match text.split_once('-') {
        Some((days, rest)) => (Some(days.parse::<u32>().ok()?), rest),
        None => (None, text),
    };
    let parts: Vec<u64> = rest
        .split(':')
        .map(|part| part.parse::<u32>().ok().map(u64::from))
        .collect::<Option<_>>()?;
    let (hours, minutes, seconds) = match (days, parts.as_slice()) {
        (None, [minutes, seconds]) => (0, *minutes, *seconds),
        (_, [hours, minutes, seconds]) => (*hours, *minutes, *seconds),
        (Some(_), [hours]) => (*hours, 0, 0),
        (Some(_), [hours, minutes]) => (*hours, *minutes, 0),
        _ => return None,
    };
    if seconds > 59 || (parts.len() > 2 || days.is_some()) && minutes > 59 {
        return None;
    }
    Some(u64::from(days.unwrap_or(0)) * 86_400 + hours * 3600 + minutes * 60 + seconds)
}

/// A moment: `now+1h` or `+1h`, `@SECONDS` since 1970, or `YYYY-MM-DD[THH:MM[:SS]]` in UTC.
pub(crate) fn moment(text: &str, now: Time) -> Result<Time, String> {
    let after = text.strip_prefix("now").unwrap_or(text);
    if after.is_empty() {
        return Ok(now);
    }
    if let Some(span) = after.strip_prefix('+') {
        return Ok(now.after_seconds(seconds(span)?));
    }
    if let Some(since) = text.strip_prefix('@') {
        let since: u64 = since.parse().map_err(|_| format!("`{text}` is not a moment"))?;
        return Ok(Time(0).after_seconds(since));
    }
    date(text).ok_or_else(|| {
        format!("`{text}` is not a moment: write +1h, @1700000000 or 2030-01-31T12:00 (in UTC)")
    })
}

fn date(text: &str) -> Option<Time> {
    let text = text.strip_suffix('Z').unwrap_or(text);
    let (date, time) = text.split_once(['T', ' ']).unwrap_or((text, "00:00"));
    let date: Vec<u64> = date.split('-').map(|p| p.parse().ok()).collect::<Option<_>>()?;
    let time: Vec<u64> = time.split(':').map(|p| p.parse().ok()).collect::<Option<_>>()?;
    let ([year, month, day], [hour, minute, ..]) = (date.as_slice(), time.as_slice()) else {
        return None;
    };
    let second = time.get(2).copied().unwrap_or(0);
    let fits = (1970..=9999).contains(year)
        && (1..=12).contains(month)
        && (1..=days_of(*year, *month)).contains(day)
        && *hour < 24
        && *minute < 60
        && second < 60
        && time.len() <= 3;
    if !fits {
        return None;
    }
    let days: u64 = (1970..*year).map(|year| if leap(year) { 366 } else { 365 }).sum::<u64>()
        + (1..*month).map(|month| days_of(*year, month)).sum::<u64>()
        + day
        - 1;
    Some(Time(0).after_seconds(days * 86_400 + hour * 3600 + minute * 60 + second))
}

const fn leap(year: u64) -> bool {
    year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
}

const fn days_of(year: u64, month: u64) -> u64 {
    match month {
        2 if leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::table::stamp;

    #[test]
    fn spans_mean_what_flux_and_slurm_mean() {
        for (text, expected) in [
            ("90s", 90),
            ("15", 900),
            ("15m", 900),
            ("1.5h", 5400),
            ("2d", 172_800),
            ("0.5s", 1),
            ("1:30", 90),
            ("90:00", 5400),
            ("1:00:00", 3600),
            ("1-0", 86_400),
            ("1-2:30", 95_400),
            ("1-02:03:04", 93_784),
            ("0", 0),
        ] {
            assert_eq!(seconds(text), Ok(expected), "{text}");
        }
        for text in ["", "h", "1x", "-5", "1:60", "1:2:3:4", "1-2-3", "1:70:00", "inf", "1e9"] {
            assert!(seconds(text).is_err(), "{text}");
        }
    }

    #[test]
    fn moments_are_relative_or_of_the_calendar() {
        let now = Time(1_000_000);
        assert_eq!(moment("+1h", now), Ok(Time(4_600_000)));
        assert_eq!(moment("now+30s", now), Ok(Time(1_030_000)));
        assert_eq!(moment("@7", now), Ok(Time(7000)));
        for text in ["2000-02-29T00:00:00Z", "2024-12-31T23:59:59Z"] {
            assert_eq!(stamp(moment(text, now).unwrap()), text);
        }
        for text in ["2023-02-29", "2030-13-01", "tomorrow", "2030-01-01T24:00", "+x"] {
            assert!(moment(text, now).is_err(), "{text}");
        }
    }
}
