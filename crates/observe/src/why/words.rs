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

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// `2 of 9 pods`, or a single pod by its name.
pub(crate) fn pods(names: &[String], size: u32) -> String {
    match names {
        [only] => format!("pod {only}"),
        [_, _] if size == 2 => "both pods".to_owned(),
        all if all.len() as u32 == size => format!("all {size} pods"),
        some => format!("{} of {size} pods", some.len()),
    }
}

/// A quantity as people write it: the API server gives back `1k` for 1000 CPUs and `1500m` for one
/// and a half, and 8589934592 as it stands. What has a unit of its own is left as it is.
pub(crate) fn quantity(resource: &str, text: &str) -> String {
    let as_it_is = || text.to_owned();
    let bytes = matches!(resource, "memory" | "ephemeral-storage" | "storage")
        || resource.starts_with("hugepages-");
    if bytes {
        let Ok(count) = text.parse::<u64>() else { return as_it_is() };
        let units = [("Ti", 1_u64 << 40), ("Gi", 1 << 30), ("Mi", 1 << 20), ("Ki", 1 << 10)];
        let unit = units.into_iter().find(|(_, size)| count > 0 && count.is_multiple_of(*size));
        return unit.map_or_else(as_it_is, |(unit, size)| format!("{}{unit}", count / size));
    }
    if let Some(thousandths) = text.strip_suffix('m').and_then(|count| count.parse::<u64>().ok()) {
        let whole = thousandths / 1000;
        let part = format!("{:03}", thousandths % 1000);
        let part = part.trim_end_matches('0');
        return if part.is_empty() { whole.to_string() } else { format!("{whole}.{part}") };
    }
    for (suffix, zeros) in [('k', "000"), ('M', "000000"), ('G', "000000000")] {
        if let Some(count) = text.strip_suffix(suffix)
            && count.bytes().all(|byte| byte.is_ascii_digit())
        {
            return format!("{count}{zeros}");
        }
    }
    as_it_is()
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
    fn quantities_are_those_of_people() {
        for (resource, text, people) in [
            ("cpu", "4", "4"),
            ("cpu", "1k", "1000"),
            ("cpu", "500m", "0.5"),
            ("cpu", "1250m", "1.25"),
            ("cpu", "4000m", "4"),
            ("cpu", "2.5", "2.5"),
            ("nvidia.com/gpu", "2k", "2000"),
            ("memory", "8Gi", "8Gi"),
            ("memory", "8589934592", "8Gi"),
            ("memory", "1536", "1536"),
            ("memory", "2048", "2Ki"),
            ("memory", "100k", "100k"),
            ("memory", "0", "0"),
            ("hugepages-2Mi", "4194304", "4Mi"),
            ("cpu", "many", "many"),
        ] {
            assert_eq!(quantity(resource, text), people, "{resource} {text}");
        }
    }

    #[test]
    fn pods_are_counted_as_people_do() {
        let names: Vec<String> = ["a", "b", "c"].map(str::to_owned).into();
        assert_eq!(pods(&names[..1], 1), "pod a");
        assert_eq!(pods(&names[..2], 2), "both pods");
        assert_eq!(pods(&names[..2], 3), "2 of 3 pods");
        assert_eq!(pods(&names, 3), "all 3 pods");
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
