//! How things are called in sentences.

use k8s_openapi::jiff::Timestamp;
use quorate_contract::status::Missing;

/// The longest sentence, in bytes: what an event's note may have (events.k8s.io/v1).
const LONGEST: usize = 1024;
/// The longest piece of someone else's words in a sentence of ours, in characters.
const LONGEST_QUOTE: usize = 300;

/// One line of bounded length.
pub(crate) fn sentence(text: &str) -> String {
    let line = one_line(text);
    if line.len() <= LONGEST {
        return line;
    }
    let mut end = LONGEST - '…'.len_utf8();
    while !line.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}…", &line[..end])
}

/// Someone else's words: one line, cut at a bound, without a final period.
pub(crate) fn quote(text: &str) -> String {
    let line = one_line(text);
    let line = line.trim_end_matches(['.', ' ']);
    if line.chars().count() <= LONGEST_QUOTE {
        return line.to_owned();
    }
    let cut: String = line.chars().take(LONGEST_QUOTE - 1).collect();
    format!("{}…", cut.trim_end())
}

/// The runtime's words without the frames of its layers.
pub(crate) fn runtime(message: &str) -> String {
    let mut words = message;
    for frame in ["unable to start container process: ", "error during container init: "] {
        if let Some((_, rest)) = words.split_once(frame) {
            words = rest;
        }
    }
    quote(words)
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// `2 of 9 pods`, or a single pod by its name.
pub(crate) fn pods(names: &[String], size: u32) -> String {
    match names {
        [only] => format!("pod {only}"),
        all if all.len() as u32 == size => format!("all {size} pods"),
        some => format!("{} of {size} pods", some.len()),
    }
}

/// `a`, `a and b`, `a, b and c`, `a, b, c and 4 more`.
pub(crate) fn list(items: &[String], most: usize) -> String {
    let (shown, more) = items.split_at(items.len().min(most));
    match (shown.split_last(), more.len()) {
        (None, _) => String::new(),
        (Some((only, [])), 0) => only.clone(),
        (Some((last, rest)), 0) => format!("{} and {last}", rest.join(", ")),
        (Some(_), more) => format!("{} and {more} more", shown.join(", ")),
    }
}

/// A missing broker with its silence, for lists that are read once.
pub(crate) fn missing(one: &Missing) -> String {
    match one.silent_seconds {
        Some(seconds) => format!("{}: {} (silent for {seconds} s)", one.pod, one.why),
        None => format!("{}: {}", one.pod, one.why),
    }
}

/// The time that has passed, rounded to what matters: `8s`, `3m10s`, `2h05m`, `3d4h`.
pub(crate) fn span(since: Timestamp, now: Timestamp) -> String {
    let seconds = now.as_second().saturating_sub(since.as_second()).max(0);
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    if days > 0 {
        format!("{days}d{}h", hours % 24)
    } else if hours > 0 {
        format!("{hours}h{:02}m", minutes % 60)
    } else if minutes > 0 {
        format!("{minutes}m{:02}s", seconds % 60)
    } else {
        format!("{seconds}s")
    }
}

/// A word for many or one.
pub(crate) fn plural<'a>(count: u32, one: &'a str, many: &'a str) -> &'a str {
    if count == 1 { one } else { many }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_rounded_to_what_matters() {
        let now: Timestamp = "2026-11-28T10:00:00Z".parse().unwrap();
        for (seconds, text) in
            [(0, "0s"), (8, "8s"), (190, "3m10s"), (7_500, "2h05m"), (273_600, "3d4h"), (-5, "0s")]
        {
            let since = Timestamp::from_second(now.as_second() - seconds).unwrap();
            assert_eq!(span(since, now), text);
        }
    }

    #[test]
    fn lists_end_with_what_is_left() {
        let items: Vec<String> = ["a", "b", "c", "d"].map(str::to_owned).into();
        assert_eq!(list(&items[..0], 3), "");
        assert_eq!(list(&items[..1], 3), "a");
        assert_eq!(list(&items[..3], 3), "a, b and c");
        assert_eq!(list(&items, 3), "a, b, c and 1 more");
    }

    #[test]
    fn long_words_are_cut_between_characters() {
        let long = "é ".repeat(2_000);
        assert!(sentence(&long).len() <= LONGEST);
        assert!(sentence(&long).ends_with('…'));
        assert!(quote(&long).chars().count() <= LONGEST_QUOTE);
        assert_eq!(quote("  so\n it is. "), "so it is");
    }
}
