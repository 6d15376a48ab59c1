//! Dates and times of day, as Slurm reads and prints them, from a clock and a zone that are passed in.
//!
//! Owns the reckoning between seconds since the Unix epoch and the proleptic Gregorian calendar. It
//! knows one offset from UTC, not the rules of a zone: who calls it says which offset is in force.

use quorate_queue::Time;

const DAY: i64 = 86_400;

/// What time it is, and where.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Clock {
    /// Seconds since the Unix epoch.
    pub now: i64,
    /// Seconds that local time is ahead of UTC.
    pub offset: i32,
}

/// A date and a time of day.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment {
    /// The year, such as 2026.
    pub year: i64,
    /// 1 to 12.
    pub month: u32,
    /// 1 to 31.
    pub day: u32,
    /// 0 to 23.
    pub hour: u32,
    /// 0 to 59.
    pub minute: u32,
    /// 0 to 59.
    pub second: u32,
}

impl Clock {
    /// The local date and time of some seconds since the epoch.
    pub fn local(&self, seconds: i64) -> Moment {
        let seconds = seconds.saturating_add(self.offset.into());
        let (days, rest) = (seconds.div_euclid(DAY), seconds.rem_euclid(DAY));
        let (year, month, day) = date_of(days);
        let rest = u32::try_from(rest).expect("a day has fewer than 2^32 seconds");
        Moment { year, month, day, hour: rest / 3600, minute: rest / 60 % 60, second: rest % 60 }
    }

    /// Seconds since the epoch of a local date and time.
    pub fn seconds(&self, moment: &Moment) -> i64 {
        let days = days_to(moment.year, moment.month, moment.day);
        let rest = moment.hour * 3600 + moment.minute * 60 + moment.second;
        days * DAY + i64::from(rest) - i64::from(self.offset)
    }

    /// A time of the queue as Slurm prints dates: `2026-11-28T17:04:05`.
    pub fn stamp(&self, time: Time) -> String {
        let seconds = i64::try_from(time.0 / 1000).unwrap_or(i64::MAX);
        self.local(seconds).to_string()
    }
}

impl std::fmt::Display for Moment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { year, month, day, hour, minute, second } = self;
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}")
    }
}

impl Moment {
    /// The day of the week, 0 for Sunday.
    pub fn weekday(&self) -> u32 {
        let days = days_to(self.year, self.month, self.day) + 4;
        u32::try_from(days.rem_euclid(7)).expect("a week has seven days")
    }
}

/// The days of a month.
pub(crate) fn days_in(year: i64, month: u32) -> u32 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        _ => 31,
    }
}

/// Days from the epoch to a date. Years are reckoned from March, so that a leap day is the last day.
fn days_to(year: i64, month: u32, day: u32) -> i64 {
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let of_months = (153 * i64::from(month) + 2) / 5;
    let leap = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    year * 365 + leap + of_months + i64::from(day) - 1 - 719_468
}

/// The date that many days from the epoch.
fn date_of(days: i64) -> (i64, u32, u32) {
    let days = days.clamp(-3_652_059, 3_652_059_000);
    // A first guess that is never too late.
    let mut year = 1970 + days.div_euclid(if days < 0 { 365 } else { 366 });
    while days_to(year + 1, 1, 1) <= days {
        year += ((days - days_to(year + 1, 1, 1)) / 366).max(1);
    }
    let mut rest = u32::try_from(days - days_to(year, 1, 1)).unwrap_or(0);
    let mut month = 1;
    while rest >= days_in(year, month) {
        rest -= days_in(year, month);
        month += 1;
    }
    (year, month, rest + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_moments_are_reckoned_right() {
        for (seconds, offset, text, weekday) in [
            (0, 0, "1970-01-01T00:00:00", 4),
            (951_782_399, 0, "2000-02-28T23:59:59", 1),
            (951_782_400, 0, "2000-02-29T00:00:00", 2),
            (1_795_885_445, 0, "2026-11-28T17:04:05", 6),
            (1_795_885_445, 3600, "2026-11-28T18:04:05", 6),
            (1_795_885_445, -18_000, "2026-11-28T12:04:05", 6),
            (4_107_542_399, 0, "2100-02-28T23:59:59", 0),
            (4_107_542_400, 0, "2100-03-01T00:00:00", 1),
            (-1, 0, "1969-12-31T23:59:59", 3),
        ] {
            let clock = Clock { now: 0, offset };
            let moment = clock.local(seconds);
            assert_eq!(moment.to_string(), text);
            assert_eq!(moment.weekday(), weekday, "{text}");
            assert_eq!(clock.seconds(&moment), seconds, "{text}");
        }
    }

    #[test]
    fn every_day_of_eight_centuries_has_one_date() {
        let clock = Clock::default();
        let mut last = clock.local(-100_000 * DAY);
        for day in -99_999..200_000 {
            let moment = clock.local(day * DAY);
            assert!(moment > last);
            assert_eq!(clock.seconds(&moment), day * DAY);
            last = moment;
        }
        assert!(!clock.stamp(Time::NEVER).is_empty());
    }
}
