//! `--units` and `--noconvert`: how sacct writes amounts of memory.

use crate::value::memory_text;

/// How amounts of memory are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Units {
    /// In the largest unit that divides them.
    #[default]
    Fit,
    /// As they are kept: in megabytes.
    Kept,
    /// In kilobytes (0) and so on up to petabytes (4), with two digits where that is not whole.
    Fixed(u8),
}

const LETTERS: [char; 5] = ['K', 'M', 'G', 'T', 'P'];

impl Units {
    /// The unit of a letter, of any case.
    pub(super) fn read(text: &str) -> Option<Self> {
        let mut letters = text.chars();
        let letter = letters.next()?.to_ascii_uppercase();
        let place = LETTERS.iter().position(|known| *known == letter)?;
        letters.next().is_none().then_some(Self::Fixed(u8::try_from(place).ok()?))
    }

    /// That many megabytes.
    pub(super) fn text(self, megabytes: u64) -> String {
        match self {
            Self::Fit => memory_text(megabytes << 20),
            Self::Kept => format!("{megabytes}M"),
            Self::Fixed(0) => format!("{}K", megabytes << 10),
            Self::Fixed(place) => {
                let letter = LETTERS[usize::from(place)];
                let shift = 10 * u32::from(place - 1);
                let whole = megabytes >> shift;
                if whole << shift == megabytes {
                    return format!("{whole}{letter}");
                }
                // Megabytes of a cluster are far from where a float is inexact.
                #[expect(clippy::cast_precision_loss, reason = "only two digits are shown")]
                let number = megabytes as f64 / (1_u64 << shift) as f64;
                format!("{number:.2}{letter}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_written_in_the_unit_that_is_asked_for() {
        let say = |units: &str, megabytes| Units::read(units).unwrap().text(megabytes);
        assert_eq!(say("K", 10), "10240K");
        assert_eq!(say("g", 10), "0.01G");
        assert_eq!(say("G", 1536), "1.50G");
        assert_eq!(say("G", 2048), "2G");
        assert_eq!(say("T", 1 << 20), "1T");
        assert_eq!(Units::Fit.text(2048), "2G");
        assert_eq!(Units::Kept.text(2048), "2048M");
        assert_eq!(Units::read("X"), None);
        assert_eq!(Units::read("GB"), None);
    }
}
