//! Moments at which jobs may begin (sbatch(1), `--begin`).

use super::{ValueError, digits};
use crate::calendar::{Clock, Moment, days_in};
use quorate_queue::Time;

const EXPECTED: &str = "a time such as now+1hour, 16:00, 4:00PM, tomorrow, 2027-01-20, \
                        2027-01-20T12:34:00, 01/20/27 or 0120";

/// The moment that a text names. A time of day that has passed is tomorrow's; a date without a time is
/// its midnight; a date that has passed gives that moment, so the job may begin at once.
pub fn begin(text: &str, clock: Clock) -> Result<Time, ValueError> {
    let wrong = || ValueError::form(text, EXPECTED);
    let seconds = parse(text.trim(), clock).ok_or_else(wrong)?;
    let seconds = u64::try_from(seconds).map_err(|_| wrong())?;
    seconds.checked_mul(1000).map(Time).ok_or_else(wrong)
}

fn parse(text: &str, clock: Clock) -> Option<i64> {
    let lower = text.to_ascii_lowercase();
    if let Some(rest) = lower.strip_prefix("now") {
        return relative(rest.trim(), clock.now);
    }
    if let Some(seconds) = lower.strip_prefix("uts") {
        return i64::try_from(digits(seconds)?).ok();
    }
    let today = clock.local(clock.now);
    let (mut date, mut of_day) = (None, None);
    // `T` between digits parts a date from a time, as a space does.
    let spaced = part_at_t(&lower);
    let mut words = spaced.split_whitespace().peekable();
    while let Some(word) = words.next() {
        let half = words.peek().copied().filter(|next| matches!(*next, "am" | "pm"));
        if let Some(time) = time_of_day(word, half) {
            if half.is_some() {
                words.next();
            }
            if of_day.replace(time).is_some() {
                return None;
            }
        } else {
            let day = day(word, &today, clock)?;
            if date.replace(day).is_some() {
                return None;
            }
        }
    }
    let at = |date: (i64, u32, u32), (hour, minute, second): (u32, u32, u32)| {
        clock.seconds(&Moment { year: date.0, month: date.1, day: date.2, hour, minute, second })
    };
    match (date, of_day) {
        (None, None) => None,
        (Some(date), time) => Some(at(date, time.unwrap_or((0, 0, 0)))),
        (None, Some(time)) => {
            let moment = at((today.year, today.month, today.day), time);
            Some(if moment < clock.now { moment + 86_400 } else { moment })
        }
    }
}

fn part_at_t(text: &str) -> String {
    let bytes = text.as_bytes();
    let digit = |at: Option<usize>| at.and_then(|at| bytes.get(at)).is_some_and(u8::is_ascii_digit);
    text.char_indices()
        .map(
            |(at, c)| {
                if c == 't' && digit(at.checked_sub(1)) && digit(Some(at + 1)) { ' ' } else { c }
            },
        )
        .collect()
}

/// What follows `now`: nothing, or `+count[unit]` or `-count[unit]`.
fn relative(rest: &str, now: i64) -> Option<i64> {
    if rest.is_empty() {
        return Some(now);
    }
    let (sign, amount) = match rest.strip_prefix('+') {
        Some(amount) => (1, amount),
        None => (-1, rest.strip_prefix('-')?),
    };
    let amount = amount.trim();
    let end = amount.find(|c: char| !c.is_ascii_digit()).unwrap_or(amount.len());
    let number = i64::try_from(digits(&amount[..end])?).ok()?;
    let unit = match amount[end..].trim() {
        "" => 1,
        unit if whole_or_more(unit, "seconds") => 1,
        unit if whole_or_more(unit, "minutes") => 60,
        unit if whole_or_more(unit, "hours") => 3600,
        unit if whole_or_more(unit, "days") => 86_400,
        unit if whole_or_more(unit, "weeks") => 604_800,
        _ => return None,
    };
    now.checked_add(number.checked_mul(unit)?.checked_mul(sign)?)
}

/// Units may be shortened to their first letters.
fn whole_or_more(text: &str, unit: &str) -> bool {
    !text.is_empty() && unit.starts_with(text)
}

/// `16:00`, `16:00:30`, `4:00pm`, `noon`; `half` is the word behind it if that is am or pm.
fn time_of_day(word: &str, half: Option<&str>) -> Option<(u32, u32, u32)> {
    let hour = match word {
        "midnight" => 0,
        "noon" => 12,
        "fika" => 15,
        "teatime" => 16,
        _ => 24,
    };
    if hour < 24 {
        return half.is_none().then_some((hour, 0, 0));
    }
    let (clock, half) = match (word.strip_suffix("am"), word.strip_suffix("pm")) {
        (Some(clock), _) => (clock, Some("am")),
        (_, Some(clock)) => (clock, Some("pm")),
        _ => (word, half),
    };
    let mut parts = clock.split(':').map(|part| digits(part).and_then(|n| u32::try_from(n).ok()));
    let (hour, minute) = (parts.next()??, parts.next()??);
    let second = parts.next().unwrap_or(Some(0))?;
    if parts.next().is_some() || minute > 59 || second > 59 {
        return None;
    }
    let hour = match half {
        None => hour,
        Some(_) if hour == 0 || hour > 12 => return None,
        Some(half) => hour % 12 + if half == "pm" { 12 } else { 0 },
    };
    (hour < 24).then_some((hour, minute, second))
}

/// `today`, `tomorrow`, `YYYY-MM-DD`, `MM/DD[/YY]`, `MM.DD[.YY]`, `MMDD[YY]`.
fn day(word: &str, today: &Moment, clock: Clock) -> Option<(i64, u32, u32)> {
    if word == "today" {
        return Some((today.year, today.month, today.day));
    }
    if word == "tomorrow" {
        let next = clock.local(clock.now.checked_add(86_400)?);
        return Some((next.year, next.month, next.day));
    }
    let parts: Vec<&str> = if word.contains('-') {
        word.split('-').collect()
    } else if word.contains('/') {
        word.split('/').collect()
    } else if word.contains('.') {
        word.split('.').collect()
    } else if word.is_ascii() && (word.len() == 4 || word.len() == 6) {
        let mut parts = vec![&word[..2], &word[2..4]];
        parts.extend((word.len() == 6).then(|| &word[4..]));
        parts
    } else {
        return None;
    };
    let numbers: Vec<u64> = parts.iter().map(|part| digits(part)).collect::<Option<_>>()?;
    let (year, month, day) = match numbers.as_slice() {
        [year, month, day] if word.contains('-') => (*year, *month, *day),
        [month, day] if !word.contains('-') => (u64::try_from(today.year).ok()?, *month, *day),
        [month, day, year] if !word.contains('-') => {
            (if *year < 100 { year + 2000 } else { *year }, *month, *day)
        }
        _ => return None,
    };
    let (year, month) = (i64::try_from(year).ok()?, u32::try_from(month).ok()?);
    let day = u32::try_from(day).ok()?;
    let legal = (1..=12).contains(&month) && (1970..10_000).contains(&year);
    (legal && (1..=days_in(year, month)).contains(&day)).then_some((year, month, day))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-11-28 17:04:05 in UTC.
    const NOW: Clock = Clock { now: 1_795_885_445, offset: 0 };

    #[test]
    fn every_form_of_the_manual_is_read() {
        for (text, moment) in [
            ("now", "2026-11-28T17:04:05"),
            ("now+60", "2026-11-28T17:05:05"),
            ("now+1hour", "2026-11-28T18:04:05"),
            ("now + 2 days", "2026-11-30T17:04:05"),
            ("now+1week", "2026-12-05T17:04:05"),
            ("now-5minutes", "2026-11-28T16:59:05"),
            ("16:00", "2026-11-29T16:00:00"),
            ("17:30", "2026-11-28T17:30:00"),
            ("5:30PM", "2026-11-28T17:30:00"),
            ("5:30 pm", "2026-11-28T17:30:00"),
            ("12:00 am", "2026-11-29T00:00:00"),
            ("midnight", "2026-11-29T00:00:00"),
            ("teatime", "2026-11-29T16:00:00"),
            ("today", "2026-11-28T00:00:00"),
            ("tomorrow", "2026-11-29T00:00:00"),
            ("noon tomorrow", "2026-11-29T12:00:00"),
            ("2027-01-20", "2027-01-20T00:00:00"),
            ("2027-01-20T12:34:00", "2027-01-20T12:34:00"),
            ("01/20", "2026-01-20T00:00:00"),
            ("01/20/27", "2027-01-20T00:00:00"),
            ("01/20/27-", ""),
            ("012027", "2027-01-20T00:00:00"),
            ("0120", "2026-01-20T00:00:00"),
            ("20.01.27", ""),
            ("uts1795885445", "2026-11-28T17:04:05"),
        ] {
            let read = begin(text, NOW);
            if moment.is_empty() {
                assert!(read.is_err(), "{text}: {read:?}");
            } else {
                assert_eq!(NOW.stamp(read.unwrap()), moment, "{text}");
            }
        }
    }

    #[test]
    fn local_time_is_what_people_mean() {
        let berlin = Clock { offset: 3600, ..NOW };
        assert_eq!(NOW.stamp(begin("18:30", berlin).unwrap()), "2026-11-28T17:30:00");
    }

    #[test]
    fn nonsense_is_refused() {
        for text in [
            "",
            "later",
            "now+",
            "now+1fortnight",
            "25:00",
            "13:00pm",
            "0:30am",
            "12:60",
            "02/30",
            "2027-13-01",
            "16:00 17:00",
            "today tomorrow",
            "now+99999999999999999999",
        ] {
            assert!(begin(text, NOW).is_err(), "{text}");
        }
    }
}
