//! The scheduler's words, condensed: which resource or rule, and how many nodes it is about.
//!
//! Its message is `0/N nodes are available: A reason, B reason. preemption: ...` (kube-scheduler's
//! `FitError`). Reasons that are not known here are quoted as they stand.

use super::words;
use crate::facts::pod::Requests;

/// What keeps pods from the nodes, as the end of a sentence; and whether only more or larger nodes,
/// or smaller requests, can help.
pub(super) struct Verdict {
    pub words: String,
    pub resource: Option<String>,
}

pub(super) fn condense(message: &str, requests: &Requests) -> Verdict {
    let plain = || Verdict { words: words::quote(message), resource: None };
    let Some((nodes, reasons)) = parse(message) else { return plain() };
    if nodes == 0 {
        return Verdict { words: "there are no nodes".to_owned(), resource: None };
    }
    let [(count, only)] = reasons.as_slice() else {
        if reasons.is_empty() {
            return plain();
        }
        let parts: Vec<String> = reasons
            .iter()
            .map(|(count, reason)| match count {
                Some(count) => format!("{count} {}", few(reason, *count, requests)),
                None => reason.clone(),
            })
            .collect();
        let resource = reasons.iter().find_map(|(_, reason)| insufficient(reason));
        return Verdict {
            words: format!("of {nodes} nodes, {}", words::list(&parts, 8)),
            resource: resource.map(str::to_owned),
        };
    };
    let text = match count {
        Some(count) if *count == nodes => none(only, requests),
        Some(count) => format!("of {nodes} nodes, {count} {}", few(only, *count, requests)),
        None => words::quote(only),
    };
    Verdict { words: text, resource: insufficient(only).map(str::to_owned) }
}

/// The number of nodes, and reasons with how many nodes each is about.
fn parse(message: &str) -> Option<(u32, Vec<(Option<u32>, String)>)> {
    if message.starts_with("no nodes available") {
        return Some((0, Vec::new()));
    }
    let (head, rest) = message.split_once(" nodes are available: ")?;
    let nodes: u32 = head.strip_prefix("0/")?.parse().ok()?;
    let rest = rest.split(" preemption: ").next().unwrap_or(rest);
    let mut reasons: Vec<(Option<u32>, String)> = Vec::new();
    for part in rest.trim_end_matches(['.', ' ', ',']).split(", ") {
        let counted = part.split_once(' ').and_then(|(count, reason)| {
            Some((count.parse().ok()?, reason.trim_end_matches('.').to_owned()))
        });
        match (counted, reasons.last_mut()) {
            (Some((count, reason)), _) => reasons.push((Some(count), reason)),
            // A comma inside of a reason.
            (None, Some((_, last))) => *last = format!("{last}, {part}"),
            (None, None) => reasons.push((None, part.trim_end_matches('.').to_owned())),
        }
    }
    reasons.retain(|(_, reason)| !reason.starts_with("no new claims to deallocate"));
    for (_, reason) in &mut reasons {
        if let Some((before, _)) = reason.split_once(", no new claims to deallocate") {
            *reason = before.to_owned();
        }
    }
    Some((nodes, reasons))
}

fn insufficient(reason: &str) -> Option<&str> {
    reason.strip_prefix("Insufficient ")
}

/// All nodes have the same trouble.
fn none(reason: &str, requests: &Requests) -> String {
    if let Some(resource) = insufficient(reason) {
        return format!("no node has {}", free(resource, requests));
    }
    match known(reason) {
        Some((_, none)) => none,
        None => format!("no node is fit: {}", words::quote(reason)),
    }
}

/// `count` nodes have this trouble.
fn few(reason: &str, count: u32, requests: &Requests) -> String {
    if let Some(resource) = insufficient(reason) {
        let verb = words::plural(count, "does not have", "do not have");
        return format!("{verb} {}", free(resource, requests));
    }
    match known(reason) {
        Some((few, _)) => few.to_owned(),
        None => format!("{}: {}", words::plural(count, "says", "say"), words::quote(reason)),
    }
}

/// `4 free CPUs`, `8Gi of free memory`, `1 free nvidia.com/gpu`.
fn free(resource: &str, requests: &Requests) -> String {
    match (resource, requests.get(resource)) {
        ("cpu", Some(asked)) if asked == "1" => "1 free CPU".to_owned(),
        ("cpu", Some(asked)) => format!("{asked} free CPUs"),
        ("memory" | "ephemeral-storage", Some(asked)) => format!("{asked} of free {resource}"),
        (_, Some(asked)) => format!("{asked} free {resource}"),
        ("cpu", None) => "enough free CPUs".to_owned(),
        (_, None) => format!("enough free {resource}"),
    }
}

/// Rules that pods and nodes disagree about: said of some nodes, said of all.
fn known(reason: &str) -> Option<(&'static str, String)> {
    let taint = reason
        .strip_prefix("node(s) had untolerated taint")
        .map(|rest| rest.trim_start_matches("(s)").trim_matches([' ', '{', '}']).to_owned());
    if let Some(taint) = taint {
        let taint = taint.trim_end_matches([':', ' ']);
        let named = if taint.is_empty() { String::new() } else { format!(" ({taint})") };
        return Some((
            "have a taint that the pods do not tolerate",
            format!("every node has a taint that the pods do not tolerate{named}"),
        ));
    }
    let few = match reason {
        "node(s) didn't match Pod's node affinity/selector" => {
            "do not match the pods' node selector or affinity"
        }
        "node(s) didn't match pod anti-affinity rules"
        | "node(s) didn't satisfy existing pods anti-affinity rules" => {
            "are excluded by pod anti-affinity"
        }
        "node(s) didn't match pod affinity rules" => "do not match the pods' affinity",
        "node(s) didn't match pod topology spread constraints" => {
            "would break the topology spread constraints"
        }
        "node(s) were unschedulable" => "are cordoned",
        "node(s) didn't have free ports for the requested pod ports" => {
            "have no free port of those that the pods ask for"
        }
        "node(s) had volume node affinity conflict" => "cannot reach a volume of the pods",
        "Too many pods" => "are full (too many pods)",
        _ => return None,
    };
    Some((few, format!("all nodes {few}")))
}
