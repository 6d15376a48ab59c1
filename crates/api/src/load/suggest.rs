//! What a wrong field name may have been meant to be.

use serde_json::{Map, Value};

/// Words of neighbouring tools, and what they are called here.
const SYNONYMS: [(&str, &str); 7] = [
    ("replicas", "size"),
    ("nodes", "size"),
    ("workers", "groups"),
    ("np", "tasks"),
    ("ntasks", "tasks"),
    ("ntasksPerNode", "tasksPerNode"),
    ("slotsPerWorker", "slots"),
];

/// The known name that is nearest to a wrong one, if any is near enough.
pub(super) fn nearest<'a>(wrong: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    near(wrong, known).map(|(_, name)| name)
}

/// The name one level below the known ones that is nearest to a wrong one, as a path: a field that
/// was misspelled and written one level too high.
pub(super) fn deeper(wrong: &str, known: &Map<String, Value>) -> Option<String> {
    known
        .iter()
        .filter_map(|(parent, schema)| {
            let below = schema.get("properties")?.as_object()?;
            let (distance, name) = near(wrong, below.keys().map(String::as_str))?;
            Some((distance, format!("{parent}.{name}")))
        })
        .min()
        .map(|(_, path)| path)
}

/// The nearest name with its distance.
fn near<'a>(wrong: &str, known: impl Iterator<Item = &'a str>) -> Option<(usize, &'a str)> {
    let known: Vec<&str> = known.collect();
    if let Some((_, meant)) = SYNONYMS.iter().find(|(word, _)| *word == wrong)
        && let Some(name) = known.iter().find(|name| *name == meant)
    {
        return Some((0, name));
    }
    let simple = |text: &str| text.to_ascii_lowercase().replace(['_', '-'], "");
    let wrong = simple(wrong);
    known
        .into_iter()
        .map(|name| (distance(&wrong, &simple(name)), name))
        .min()
        .filter(|(distance, name)| *distance <= (name.len().min(wrong.len()) / 3).max(1))
}

/// The shortest path under a schema at which a field of this name is known, with `[]` for lists.
pub(super) fn elsewhere(schema: &Value, name: &str) -> Option<String> {
    let mut level = vec![(String::new(), schema)];
    for _ in 0..10 {
        let mut next = Vec::new();
        for (path, schema) in level {
            if let Some(items) = schema.get("items") {
                next.push((format!("{path}[]"), items));
            }
            let Some(properties) = schema.get("properties").and_then(Value::as_object) else {
                continue;
            };
            for (key, inner) in properties {
                let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                if key == name {
                    return Some(path);
                }
                next.push((path, inner));
            }
        }
        // The user's own fields come before the same ones in overlays and status.
        next.retain(|(path, _)| path != "status");
        level = next;
    }
    None
}

/// Edits between two texts, a swap of neighbours counting as one (optimal string alignment).
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut rows = vec![(0..=b.len()).collect::<Vec<usize>>()];
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let change = usize::from(a[i - 1] != b[j - 1]);
            let mut best =
                (rows[i - 1][j] + 1).min(row[j - 1] + 1).min(rows[i - 1][j - 1] + change);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(rows[i - 2][j - 2] + 1);
            }
            row.push(best);
        }
        rows.push(row);
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_names_are_found_and_far_ones_are_not() {
        let known = ["size", "parallel", "minSize", "maxSize", "groups"];
        let nearest = |wrong| nearest(wrong, known.into_iter());
        assert_eq!(nearest("paralel"), Some("parallel"));
        assert_eq!(nearest("min_size"), Some("minSize"));
        assert_eq!(nearest("siez"), Some("size"));
        assert_eq!(nearest("replicas"), Some("size"));
        assert_eq!(nearest("workers"), Some("groups"));
        assert_eq!(nearest("frobnicate"), None);
    }

    #[test]
    fn a_swap_is_one_edit() {
        assert_eq!(distance("siez", "size"), 1);
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("kitten", "sitting"), 3);
    }
}
