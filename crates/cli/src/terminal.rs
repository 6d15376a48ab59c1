//! Where words to people go: standard error, with colours and redrawing on a terminal only.
//! Data goes to standard output through [`print()`], where a reader that has left is no error.

use std::io::{self, IsTerminal as _, Write as _};

/// How status may look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    /// A line may be drawn again and again.
    pub redraw: bool,
    /// Colours are wanted.
    pub color: bool,
    /// The terminal shows more than ASCII.
    pub unicode: bool,
    /// Columns; lines that are redrawn must not wrap.
    pub width: usize,
}

impl Style {
    /// What standard error and the environment allow (<https://no-color.org>, locale(7)).
    pub fn detect(variable: impl Fn(&str) -> Option<String>) -> Self {
        let terminal = io::stderr().is_terminal();
        let set = |name: &str| variable(name).filter(|value| !value.is_empty());
        let dumb = set("TERM").is_none_or(|term| term == "dumb");
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"].iter().find_map(|name| set(name));
        let unicode = locale.is_some_and(|locale| {
            let locale = locale.to_ascii_lowercase();
            locale.contains("utf-8") || locale.contains("utf8")
        });
        let width = terminal_size::terminal_size_of(io::stderr())
            .map_or(80, |(terminal_size::Width(width), _)| usize::from(width));
        Self {
            redraw: terminal && !dumb,
            color: terminal && !dumb && set("NO_COLOR").is_none(),
            unicode,
            width: width.max(20),
        }
    }
}

/// Standard error with one line at its end that may be replaced.
#[derive(Debug)]
pub struct Terminal {
    live: bool,
    /// The program's output has begun: from now on a line that comes and goes would tear it.
    output: bool,
    /// Columns; a line that wraps could not be replaced.
    width: usize,
}

impl Terminal {
    /// A terminal of so many columns without a live line.
    pub fn new(width: usize) -> Self {
        Self { live: false, output: false, width }
    }

    /// Prints a line that stays.
    pub fn line(&mut self, text: &str) {
        self.clear();
        write_stderr(&format!("{text}\n"));
    }

    /// Draws a line that the next one replaces.
    pub fn live(&mut self, text: &str) {
        if self.output {
            return;
        }
        write_stderr(&format!("\r\x1b[2K{}", cut(text, self.width - 1)));
        self.live = true;
    }

    /// Makes way for the program's output.
    pub fn output_begins(&mut self) {
        self.clear();
        self.output = true;
    }

    fn clear(&mut self) {
        if std::mem::take(&mut self.live) {
            write_stderr("\r\x1b[2K");
        }
    }
}

/// The first `width` visible characters of a text; colours take no room.
fn cut(text: &str, width: usize) -> String {
    let (mut room, mut escape) = (width, false);
    text.chars()
        .filter(|c| {
            escape |= *c == '\x1b';
            let visible = !escape;
            escape &= *c != 'm';
            let fits = !visible || room > 0;
            room -= usize::from(visible && room > 0);
            fits
        })
        .collect()
}

/// Prints words to people. Nobody can be told that this failed.
pub fn write_stderr(text: &str) {
    let _ = io::stderr().write_all(text.as_bytes());
}

/// Prints data. A reader that has seen enough (`quorate ls | head -1`) is no failure.
pub fn print(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other,
    }
}

/// A duration rounded to what matters: `0.09 s`, `12.4 s`, `3m10s`, `2h05m`, `5d`.
pub fn duration(time: std::time::Duration) -> String {
    let seconds = time.as_secs_f64();
    let whole = time.as_secs();
    if seconds < 9.995 {
        format!("{seconds:.2} s")
    } else if seconds < 59.95 {
        format!("{seconds:.1} s")
    } else if whole < 3600 {
        format!("{}m{:02}s", whole / 60, whole % 60)
    } else if whole < 48 * 3600 {
        format!("{}h{:02}m", whole / 3600, whole % 3600 / 60)
    } else {
        format!("{}d", whole / 86_400)
    }
}

/// An age as kubectl prints it: `45s`, `3m10s`, `5d`.
pub fn age(seconds: u64) -> String {
    if seconds < 60 {
        format!("{seconds}s")
    } else {
        duration(std::time::Duration::from_secs(seconds))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_line_is_cut_where_the_terminal_ends_and_keeps_its_colours() {
        assert_eq!(cut("\x1b[32m✔\x1b[0m pods", 3), "\x1b[32m✔\x1b[0m p");
        assert_eq!(cut("pods", 9), "pods");
    }

    #[test]
    fn durations_are_rounded_to_what_matters() {
        for (millis, text) in [
            (94, "0.09 s"),
            (9_994, "9.99 s"),
            (12_440, "12.4 s"),
            (59_940, "59.9 s"),
            (60_000, "1m00s"),
            (190_000, "3m10s"),
            (7_500_000, "2h05m"),
            (432_000_000, "5d"),
        ] {
            assert_eq!(duration(Duration::from_millis(millis)), text);
        }
    }
}
