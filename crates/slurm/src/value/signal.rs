//! Signals by name, and signals before the end of a job.

use super::{ValueError, digits};

const NAMES: &[(&str, i32)] = &[
    ("HUP", 1),
    ("INT", 2),
    ("QUIT", 3),
    ("ABRT", 6),
    ("KILL", 9),
    ("USR1", 10),
    ("SEGV", 11),
    ("USR2", 12),
    ("PIPE", 13),
    ("ALRM", 14),
    ("TERM", 15),
    ("CHLD", 17),
    ("CONT", 18),
    ("STOP", 19),
    ("TSTP", 20),
    ("TTIN", 21),
    ("TTOU", 22),
    ("URG", 23),
    ("XCPU", 24),
    ("WINCH", 28),
];

/// A signal that a job gets some time before its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EarlySignal {
    /// Its number on Linux.
    pub number: i32,
    /// How many seconds before the end.
    pub seconds: u32,
    /// To the batch script alone, and not to the tasks of its steps.
    pub script: bool,
}

/// `USR1`, `SIGUSR1` or `10` as a number.
pub fn signal_number(text: &str) -> Option<i32> {
    if let Some(number) = digits(text) {
        return i32::try_from(number).ok().filter(|number| (1..=64).contains(number));
    }
    let upper = text.to_ascii_uppercase();
    let bare = upper.strip_prefix("SIG").unwrap_or(&upper);
    NAMES.iter().find(|(name, _)| *name == bare).map(|(_, number)| *number)
}

/// The name without `SIG`, or the number.
pub fn signal_name(number: i32) -> String {
    NAMES
        .iter()
        .find(|(_, each)| *each == number)
        .map_or_else(|| number.to_string(), |(name, _)| (*name).to_owned())
}

/// `[B:]signal[@seconds]`; 60 seconds unless said otherwise.
pub fn early_signal(text: &str) -> Result<EarlySignal, ValueError> {
    let wrong =
        || ValueError::form(text, "a signal before the end such as USR1, USR1@120 or B:TERM@30");
    let (flags, rest) = match text.split_once(':') {
        Some((flags, rest)) => (flags, rest),
        None => ("", text),
    };
    let mut script = false;
    for flag in flags.chars() {
        match flag.to_ascii_uppercase() {
            'B' => script = true,
            'R' => {
                return Err(ValueError::Unsupported {
                    text: text.to_owned(),
                    why: "R: is about reservations, which this queue does not have",
                    instead: "leave R out",
                });
            }
            _ => return Err(wrong()),
        }
    }
    if text.contains(':') && flags.is_empty() {
        return Err(wrong());
    }
    let (name, seconds) = match rest.split_once('@') {
        Some((name, seconds)) => (name, digits(seconds).ok_or_else(wrong)?),
        None => (rest, 60),
    };
    let number = signal_number(name).ok_or_else(wrong)?;
    match u32::try_from(seconds) {
        Ok(seconds) if seconds <= 65_535 => Ok(EarlySignal { number, seconds, script }),
        _ => Err(ValueError::Range { text: text.to_owned(), range: "at most 65535 seconds" }),
    }
}

impl std::fmt::Display for EarlySignal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let script = if self.script { "B:" } else { "" };
        write!(f, "{script}{}@{}", signal_name(self.number), self.seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_before_the_end() {
        for (text, printed) in [
            ("USR1", "USR1@60"),
            ("SIGTERM@30", "TERM@30"),
            ("B:10@120", "B:USR1@120"),
            ("b:int@0", "B:INT@0"),
            ("40", "40@60"),
        ] {
            let signal = early_signal(text).unwrap();
            assert_eq!(signal.to_string(), printed);
            assert_eq!(early_signal(printed), Ok(signal));
        }
        for text in
            ["", "NOSUCH", "USR1@", "USR1@x", "USR1@65536", "X:USR1", ":USR1", "R:USR1", "0", "65"]
        {
            assert!(early_signal(text).is_err(), "{text}");
        }
    }
}
