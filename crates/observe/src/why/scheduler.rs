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
                None => whole(reason),
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
        None => whole(only),
    };
    Verdict { words: text, resource: insufficient(only).map(str::to_owned) }
}

/// Whether it is, at least for some nodes, affinity that keeps the pods away.
pub(super) fn is_about_affinity(message: &str) -> bool {
    message.contains("affinity")
}

/// A reason and how many nodes it is about; none if it is about the pod.
type Counted = (Option<u32>, String);

/// The number of nodes, and reasons with how many nodes each is about.
fn parse(message: &str) -> Option<(u32, Vec<Counted>)> {
    if message.starts_with("no nodes available") {
        return Some((0, Vec::new()));
    }
    let (head, rest) = message.split_once(" nodes are available: ")?;
    let nodes: u32 = head.strip_prefix("0/")?.parse().ok()?;
    // What preemption found follows the reasons as a sentence of its own.
    let rest = [" preemption: ", ". no new claims to deallocate", ". not found"]
        .iter()
        .fold(rest, |rest, tail| rest.split(tail).next().unwrap_or(rest));
    let mut reasons: Vec<Counted> = Vec::new();
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
        Some(known) => known.all,
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
        Some(known) if count == 1 => known.one,
        Some(known) => known.many,
        None => format!("{}: {}", words::plural(count, "says", "say"), words::quote(reason)),
    }
}

/// `4 free CPUs`, `8Gi of free memory`, `1 free nvidia.com/gpu`.
fn free(resource: &str, requests: &Requests) -> String {
    let asked = requests.get(resource).map(|asked| words::quantity(resource, asked));
    match (resource, asked) {
        ("cpu", Some(asked)) if asked == "1" => "1 free CPU".to_owned(),
        ("cpu", Some(asked)) => format!("{asked} free CPUs"),
        ("memory" | "ephemeral-storage", Some(asked)) => format!("{asked} of free {resource}"),
        (_, Some(asked)) => format!("{asked} free {resource}"),
        ("cpu", None) => "enough free CPUs".to_owned(),
        (_, None) => format!("enough free {resource}"),
    }
}

/// What is wrong with the pod, whatever the nodes are.
fn whole(reason: &str) -> String {
    match reason {
        "pod has unbound immediate PersistentVolumeClaims" => {
            "a PersistentVolumeClaim of the pod is not bound".to_owned()
        }
        other => {
            let claim = other
                .strip_prefix("persistentvolumeclaim \"")
                .and_then(|rest| rest.strip_suffix("\" not found"));
            match claim {
                Some(claim) => format!("there is no PersistentVolumeClaim {claim}"),
                None => words::quote(other),
            }
        }
    }
}

/// A rule that pods and nodes disagree about: said of one node, of some, of all.
struct Known {
    one: String,
    many: String,
    all: String,
}

fn known(reason: &str) -> Option<Known> {
    let taint = reason
        .strip_prefix("node(s) had untolerated taint")
        .map(|rest| rest.trim_start_matches("(s)").trim_matches([' ', '{', '}', ':']));
    if let Some(taint) = taint {
        let named = if taint.is_empty() { String::new() } else { format!(" ({taint})") };
        let rest = format!("a taint that the pods do not tolerate{named}");
        return Some(Known {
            one: format!("has {rest}"),
            many: format!("have {rest}"),
            all: format!("every node has {rest}"),
        });
    }
    let (one, many, rest) = match reason {
        "node(s) didn't match Pod's node affinity/selector" => {
            ("does not", "do not", "match the pods' node selector or affinity")
        }
        "node(s) didn't match pod anti-affinity rules"
        | "node(s) didn't satisfy existing pods anti-affinity rules" => {
            ("is", "are", "excluded by pod anti-affinity")
        }
        "node(s) didn't match pod affinity rules" => {
            ("does not", "do not", "match the pods' affinity")
        }
        "node(s) didn't match pod topology spread constraints" => {
            ("would", "would", "break the topology spread constraints")
        }
        "node(s) were unschedulable" => ("is", "are", "cordoned"),
        "node(s) didn't have free ports for the requested pod ports" => {
            ("has", "have", "no free port of those that the pods ask for")
        }
        "node(s) had volume node affinity conflict" => {
            ("cannot", "cannot", "reach a volume of the pods")
        }
        "Too many pods" => ("is", "are", "full (too many pods)"),
        _ => return None,
    };
    let all = match many {
        "do not" => format!("no node {}", rest.replacen("match", "matches", 1)),
        many => format!("all nodes {many} {rest}"),
    };
    Some(Known { one: format!("{one} {rest}"), many: format!("{many} {rest}"), all })
}
