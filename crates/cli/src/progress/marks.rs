//! Symbols in front of lines, with an ASCII form and colours where they are wanted.

use crate::terminal::Style;

/// The symbols of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Marks {
    /// Done.
    pub done: &'static str,
    /// Runs.
    pub runs: &'static str,
    /// Failed.
    pub failed: &'static str,
    /// Starts again.
    pub again: &'static str,
    /// Waits, where nothing can turn.
    pub waits: &'static str,
    /// Between two parts of a line.
    pub dot: &'static str,
    /// Turns while something is waited for.
    pub spinner: &'static [&'static str],
    color: bool,
}

impl Marks {
    /// The symbols that a terminal can show.
    pub fn of(style: &Style) -> Self {
        if style.unicode {
            Self {
                done: "✔",
                runs: "▸",
                failed: "✘",
                again: "↻",
                waits: "…",
                dot: "·",
                spinner: &["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"],
                color: style.color,
            }
        } else {
            Self {
                done: "+",
                runs: ">",
                failed: "x",
                again: "@",
                waits: ".",
                dot: "-",
                spinner: &["-", "\\", "|", "/"],
                color: style.color,
            }
        }
    }

    /// A symbol in its colour: green, red, or the terminal's bright blue.
    pub fn paint(&self, mark: &str) -> String {
        if !self.color {
            return mark.to_owned();
        }
        let code = if mark == self.done {
            32
        } else if mark == self.failed {
            31
        } else {
            94
        };
        format!("\x1b[{code}m{mark}\x1b[0m")
    }
}
