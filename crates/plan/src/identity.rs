//! What the user asked for and a living cluster cannot take, as a text for an annotation: a later look
//! at the object tells whether that has changed, and which fields were written differently.
//!
//! `v1-<hash> <field>=<hash> ...`: the first word is a hash of the meaning, without `suspend`, times
//! to live and the sizes below the largest one; the others are the fields as they were written, so
//! that people can be told which one they changed. The agent's image and what this crate adds to a
//! pod are no part of it, so that a newer release does not find every cluster changed.

use std::fmt::Write as _;

use quorate_api::ValidatedMiniCluster;
use quorate_api::validate::hash::fnv1a;

use crate::config;

/// The version of the first word; another version's is not compared.
const VERSION: &str = "v1-";
/// Fields that a living cluster takes, so they are never to blame. Sizes are when `maxSize` is
/// written, since only the largest one counts then.
const LIVE: [&str; 2] = ["suspend", "ttlSecondsAfterFinished"];
const SIZES: [&str; 2] = ["size", "minSize"];

/// The identity of a cluster.
pub fn identity(cluster: &ValidatedMiniCluster) -> String {
    let mut config = config::agent_config(cluster, None);
    (config.size, config.min_size) = (0, 0);
    config.cluster.uid.clear();
    let templates: Vec<_> = cluster.groups.iter().map(|group| &group.template).collect();
    let mut fixed = serde_json::json!({
        "config": config,
        "templates": templates,
        "maxRestarts": cluster.max_restarts,
        "onWorkerLost": cluster.on_worker_lost,
        "activeDeadlineSeconds": cluster.active_deadline_seconds,
    });
    // Only where there is one, so that clusters without have the hash that they were made with.
    if let Some(topology) = &cluster.topology {
        fixed["topology"] = serde_json::json!([
            topology.key,
            topology.group_size,
            topology.exclusive,
            topology.required,
        ]);
    }
    let mut text = format!("{VERSION}{:016x}", fnv1a(fixed.to_string().as_bytes()));
    let bounded = cluster.written.contains_key("maxSize");
    for (field, hash) in &cluster.written {
        let sizes = bounded && SIZES.contains(&field.as_str());
        if !LIVE.contains(&field.as_str()) && !sizes {
            // Eight digits tell two versions apart well enough, and the annotation stays short.
            let _ = write!(text, " {field}={:08x}", hash & 0xffff_ffff);
        }
    }
    text
}

/// Compares the identity that a cluster was made from with the one that is asked for now: `None` if
/// they mean the same, else the fields that were written differently, such as `spec.image`.
pub fn changes(made_from: &str, asked_for: &str) -> Option<Vec<String>> {
    let (made_hash, made) = split(made_from);
    let (asked_hash, asked) = split(asked_for);
    let known = made_hash.starts_with(VERSION) && asked_hash.starts_with(VERSION);
    if !known || made_hash == asked_hash {
        return None;
    }
    let mut fields: Vec<String> = made
        .iter()
        .filter(|word| !asked.contains(word))
        .chain(asked.iter().filter(|word| !made.contains(word)))
        .filter_map(|word| word.split_once('=').map(|(field, _)| format!("spec.{field}")))
        .collect();
    fields.sort();
    fields.dedup();
    Some(fields)
}

fn split(identity: &str) -> (&str, Vec<&str>) {
    let mut words = identity.split(' ');
    (words.next().unwrap_or_default(), words.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changed_fields_are_named_once() {
        let before = "v1-0000000000000001 image=1 env=2 slots=3";
        let after = "v1-0000000000000002 image=9 env=2 command=4";
        let fields = changes(before, after).unwrap();
        assert_eq!(fields, ["spec.command", "spec.image", "spec.slots"]);
    }

    #[test]
    fn the_same_meaning_in_other_words_is_no_change() {
        assert_eq!(changes("v1-0000000000000001 command=1", "v1-0000000000000001 program=2"), None);
    }

    #[test]
    fn another_release_s_identity_is_not_compared() {
        assert_eq!(changes("v0-1 image=1", "v1-2 image=2"), None);
        assert_eq!(changes("", "v1-2 image=2"), None);
    }
}
