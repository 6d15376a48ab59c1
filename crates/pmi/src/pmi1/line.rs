//! Lines of PMI-1: `cmd=NAME key=value ...`, ended by a line feed. Lenient in what it reads, since
//! real clients put free text behind `message=` and blanks into values; strict in what it writes.

use std::fmt::Write;

/// A line taken apart, without its line feed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Line<'a> {
    /// The word behind `cmd=` or `mcmd=`.
    pub(crate) command: &'a [u8],
    /// The line begins a command of several lines (`mcmd=`).
    pub(crate) multiple: bool,
    rest: &'a [u8],
}

impl<'a> Line<'a> {
    /// Takes a line apart; `None` when it has no command.
    pub(crate) fn parse(line: &'a [u8]) -> Option<Self> {
        let line = line.trim_ascii_start();
        let (rest, multiple) = match line.strip_prefix(b"mcmd=") {
            Some(rest) => (rest, true),
            None => (line.strip_prefix(b"cmd=")?, false),
        };
        let end = rest.iter().position(u8::is_ascii_whitespace).unwrap_or(rest.len());
        let (command, rest) = rest.split_at(end);
        (!command.is_empty()).then_some(Self { command, multiple, rest })
    }

    /// The value of a key up to the next blank.
    pub(crate) fn word(&self, key: &str) -> Option<&'a [u8]> {
        let value = self.tail(key)?;
        let end = value.iter().position(u8::is_ascii_whitespace).unwrap_or(value.len());
        Some(&value[..end])
    }

    /// A key's value as a number.
    pub(crate) fn number<N: std::str::FromStr>(&self, key: &str) -> Option<N> {
        std::str::from_utf8(self.word(key)?).ok()?.parse().ok()
    }

    /// Everything behind the first ` key=`, blanks included.
    pub(crate) fn tail(&self, key: &str) -> Option<&'a [u8]> {
        let key = key.as_bytes();
        let mut from = 0;
        while from < self.rest.len() {
            let blank = from + self.rest[from..].iter().position(u8::is_ascii_whitespace)?;
            let field = &self.rest[blank + 1..];
            if let Some(value) = field.strip_prefix(key).and_then(|f| f.strip_prefix(b"=")) {
                return Some(value);
            }
            from = blank + 1;
        }
        None
    }
}

/// Writes a line: the command, then fields in order, each `key=value`. A value must not be empty
/// and must not hold blanks, since clients of some ages read neither.
pub(crate) fn write(command: &str, fields: &[(&str, &str)]) -> Vec<u8> {
    let mut line = format!("cmd={command}");
    for (key, value) in fields {
        debug_assert!(!value.is_empty() && !value.contains([' ', '\n']), "{key}={value:?}");
        write!(line, " {key}={value}").expect("writing holds because strings do not fail");
    }
    line.push('\n');
    line.into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_in_any_order_and_with_more_blanks() {
        let line = Line::parse(b"cmd=get  key=k-1 kvsname=x extra").unwrap();
        assert_eq!(line.command, b"get");
        assert_eq!(line.word("kvsname"), Some(&b"x"[..]));
        assert_eq!(line.word("key"), Some(&b"k-1"[..]));
        assert_eq!(line.word("value"), None);
        assert_eq!(line.number::<u32>("key"), None);
    }

    #[test]
    fn values_with_blanks_and_equal_signs_are_kept_whole() {
        let line = Line::parse(b"cmd=put kvsname=x key=a value=QUJD=  value=2 ").unwrap();
        assert_eq!(line.tail("value"), Some(&b"QUJD=  value=2 "[..]));
        assert_eq!(line.word("key"), Some(&b"a"[..]));
    }

    #[test]
    fn abort_lines_with_words_are_read() {
        let text = b"cmd=abort exitcode=77 message=application called MPI_Abort(x, 77) - process 1";
        let line = Line::parse(text).unwrap();
        assert_eq!(line.number("exitcode"), Some(77));
        assert!(line.tail("message").unwrap().ends_with(b"- process 1"));
    }

    #[test]
    fn lines_without_a_command_are_refused() {
        for line in [&b""[..], b"hello", b"cmd=", b"cmd= key=x", b"key=cmd=x"] {
            assert_eq!(Line::parse(line), None);
        }
        assert!(Line::parse(b"mcmd=spawn").unwrap().multiple);
    }

    #[test]
    fn lines_are_written_as_clients_expect() {
        assert_eq!(write("appnum", &[("rc", "0"), ("appnum", "3")]), b"cmd=appnum rc=0 appnum=3\n");
    }
}
