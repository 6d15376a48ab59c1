//! sinfo: partitions and nodes, grouped by what is shown of them.

use crate::columns::{Column, Format};
use crate::facts::{Answer, NodeBase, NodeFacts, NodeFlag, PartitionFacts, View};
use crate::flags::{self, Flag};
use crate::value::{elapsed, limit_text};
use quorate_hostlist::HostList;
use std::collections::BTreeSet;

const FLAGS: &[Flag] = &[
    Flag::plain("all", "a"),
    Flag::plain("dead", "d"),
    Flag::plain("exact", "e"),
    Flag::with("format", "o"),
    Flag::with("Format", "O"),
    Flag::plain("help", ""),
    Flag::plain("hide", ""),
    Flag::plain("list-reasons", "R"),
    Flag::plain("local", ""),
    Flag::plain("long", "l"),
    Flag::plain("noconvert", ""),
    Flag::plain("Node", "N"),
    Flag::plain("noheader", "h"),
    Flag::with("nodes", "n"),
    Flag::with("partition", "p"),
    Flag::plain("responding", "r"),
    Flag::with("states", "t"),
    Flag::plain("summarize", "s"),
    Flag::plain("usage", ""),
    Flag::plain("verbose", "v"),
    Flag::plain("version", "V"),
];

/// Letter, name in long formats, header, whether it is a sum over the nodes of a line.
const FIELDS: &[(&str, &str, &str, bool)] = &[
    ("a", "available", "AVAIL", false),
    ("A", "nodeai", "NODES(A/I)", true),
    ("b", "featuresact", "ACTIVE_FEATURES", false),
    ("B", "maxcpuspernode", "MAX_CPUS_PER_NODE", false),
    ("c", "cpus", "CPUS", false),
    ("C", "cpusstate", "CPUS(A/I/O/T)", true),
    ("d", "disk", "TMP_DISK", false),
    ("D", "nodes", "NODES", true),
    ("e", "freemem", "FREE_MEM", false),
    ("E", "reason", "REASON", false),
    ("f", "features", "AVAIL_FEATURES", false),
    ("F", "nodeaiot", "NODES(A/I/O/T)", true),
    ("g", "groups", "GROUPS", false),
    ("G", "gres", "GRES", false),
    ("h", "oversubscribe", "OVERSUBSCRIBE", false),
    ("H", "timestamp", "TIMESTAMP", false),
    ("l", "time", "TIMELIMIT", false),
    ("L", "defaulttime", "DEFAULTTIME", false),
    ("m", "memory", "MEMORY", false),
    ("n", "nodehost", "HOSTNAMES", true),
    ("N", "nodelist", "NODELIST", true),
    ("o", "nodeaddr", "NODE_ADDR", true),
    ("O", "cpusload", "CPU_LOAD", false),
    ("p", "prioritytier", "PRIO_TIER", false),
    ("P", "partition", "PARTITION", false),
    ("r", "root", "ROOT", false),
    ("R", "partitionname", "PARTITION", false),
    ("s", "size", "JOB_SIZE", false),
    ("t", "statecompact", "STATE", false),
    ("T", "statelong", "STATE", false),
    ("u", "user", "USER", false),
    ("v", "version", "VERSION", false),
    ("w", "weight", "WEIGHT", false),
    ("X", "sockets", "SOCKETS", false),
    ("Y", "cores", "CORES", false),
    ("z", "socketcorethread", "S:C:T", false),
    ("Z", "threads", "THREADS", false),
];

/// A line: some nodes of a partition that are alike.
struct Row<'a> {
    partition: &'a PartitionFacts,
    nodes: Vec<&'a NodeFacts>,
}

/// Answers a call of sinfo.
pub fn sinfo(words: &[String], view: &View<'_>) -> Answer {
    let (given, others) = match flags::read(FLAGS, words, true) {
        Ok(read) => read,
        Err(error) => return Answer::failed(error.hint("sinfo").join("\n")),
    };
    if let Some(word) = others.first() {
        return Answer::failed(format!("sinfo: error: Unrecognized option: {word}"));
    }
    let has = |name: &str| given.iter().any(|(each, _)| *each == name);
    let text = |name: &str| {
        given.iter().rev().find(|(each, _)| *each == name).and_then(|(_, value)| value.as_deref())
    };
    if has("version") {
        return Answer::said(format!("{}\n", crate::VERSION));
    }
    let variable = view.environment.get("SINFO_FORMAT").map(String::as_str);
    let format = match (text("format"), text("Format")) {
        (Some(letters), _) => Format::letters(letters),
        (_, Some(names)) => Format::names(names),
        _ if has("list-reasons") => Format::letters("%20E %9u %19H %N"),
        _ if has("summarize") => sized("%0P %.5a %.10l %.16F %N", false, view),
        _ if has("Node") && has("long") => {
            sized("%0N %.6D %0P %.11T %4c %.8z %.6m %.8d %.6w %.8f %20E", true, view)
        }
        _ if has("Node") => sized("%0N %.6D %0P %6t", true, view),
        _ if has("long") => {
            sized("%0P %.5a %.10l %.10s %.4r %.8h %.10g %.6D %.11T %N", false, view)
        }
        _ => match variable {
            Some(letters) => Format::letters(letters),
            None => sized("%0P %.5a %.10l %.6D %.6t %N", false, view),
        },
    };
    let list = |name: &str| -> Vec<String> {
        let words = text(name).unwrap_or("").split(',').map(str::trim);
        words.filter(|word| !word.is_empty()).map(str::to_owned).collect()
    };
    let (partitions, states) = (list("partition"), list("states"));
    let hosts: Option<HostList> = text("nodes").and_then(|text| text.parse().ok());
    let wanted = |node: &NodeFacts| {
        let among = |hosts: &HostList| hosts.find(&node.name).is_some();
        let answers = !node.flags.contains(&NodeFlag::NotResponding) && node.base != NodeBase::Down;
        (states.is_empty() || states.iter().any(|state| is_in(node, state)))
            && hosts.as_ref().is_none_or(among)
            && (!has("list-reasons") || node.reason.is_some())
            && (!has("responding") || answers)
            && (!has("dead") || !answers)
    };
    let filtered = !states.is_empty() || hosts.is_some() || has("list-reasons");
    let mut output = String::new();
    if has("long") && !has("noheader") {
        output.push_str(&crate::squeue::date_line(view));
    }
    if !has("noheader") {
        output.push_str(&format.line(header));
    }
    let shown: Vec<&PartitionFacts> = view
        .cluster
        .partitions
        .iter()
        .filter(|each| partitions.is_empty() || partitions.contains(&each.name))
        .collect();
    let rows = if has("Node") {
        by_node(&shown, wanted, view)
    } else {
        by_partition(&shown, wanted, &format, filtered, has("list-reasons"), view)
    };
    for row in rows {
        output.push_str(&format.line(|column| cell(column, &row, view)));
    }
    Answer::said(output)
}

/// A default format, its columns of width 0 as wide as the longest cell: partitions at least 9 (on the
/// right in lists of nodes), nodes at least 8.
fn sized(text: &str, nodes: bool, view: &View<'_>) -> Format {
    let mut format = Format::letters(text);
    let partition = view.cluster.partitions.iter().map(|each| shown_name(each).len());
    let node = view.cluster.nodes.iter().map(|each| each.name.len());
    for column in &mut format.columns {
        match column.key.as_str() {
            "P" => {
                column.width = partition.clone().max().unwrap_or(0).max(9);
                column.right = nodes;
            }
            "N" if nodes => column.width = node.clone().max().unwrap_or(0).max(8),
            _ => {}
        }
    }
    format
}

fn shown_name(partition: &PartitionFacts) -> String {
    format!("{}{}", partition.name, if partition.default { "*" } else { "" })
}

fn members<'a>(
    partition: &'a PartitionFacts,
    wanted: impl Fn(&NodeFacts) -> bool,
    view: &View<'a>,
) -> Vec<&'a NodeFacts> {
    let of = |node: &&NodeFacts| node.partitions.contains(&partition.name) && wanted(node);
    view.cluster.nodes.iter().filter(of).collect()
}

fn by_node<'a>(
    partitions: &[&'a PartitionFacts],
    wanted: impl Fn(&NodeFacts) -> bool,
    view: &View<'a>,
) -> Vec<Row<'a>> {
    let mut rows = Vec::new();
    for node in view.cluster.nodes.iter().filter(|node| wanted(node)) {
        for partition in partitions.iter().filter(|each| node.partitions.contains(&each.name)) {
            rows.push(Row { partition, nodes: vec![node] });
        }
    }
    rows
}

/// Nodes of which all cells are the same that are no sums share a line.
fn by_partition<'a>(
    partitions: &[&'a PartitionFacts],
    wanted: impl Fn(&NodeFacts) -> bool,
    format: &Format,
    filtered: bool,
    reasons: bool,
    view: &View<'a>,
) -> Vec<Row<'a>> {
    let mut rows: Vec<Row<'a>> = Vec::new();
    let mut seen: BTreeSet<&str> = BTreeSet::new();
    for partition in partitions {
        let mut own: Vec<(Vec<String>, Row<'a>)> = Vec::new();
        for node in members(partition, &wanted, view) {
            // A node has one reason, in however many partitions it is.
            if reasons && !seen.insert(&node.name) {
                continue;
            }
            let alone = Row { partition, nodes: vec![node] };
            let cells: Vec<String> = format
                .columns
                .iter()
                .filter(|column| field(column).is_some_and(|(_, _, sum)| !sum))
                .map(|column| cell(column, &alone, view))
                .collect();
            match own.iter_mut().find(|(known, _)| *known == cells) {
                Some((_, row)) => row.nodes.push(node),
                None => own.push((cells, alone)),
            }
        }
        if own.is_empty() && !filtered {
            own.push((Vec::new(), Row { partition, nodes: Vec::new() }));
        }
        // The state with the highest number first, as Slurm's `-t`.
        own.sort_by_key(|(_, row)| std::cmp::Reverse(row.nodes.first().map(|node| rank(node))));
        rows.extend(own.into_iter().map(|(_, row)| row));
    }
    rows
}

/// The number of a node's state in Slurm: flags above the base.
fn rank(node: &NodeFacts) -> u32 {
    let base = match node.base {
        NodeBase::Unknown => 0,
        NodeBase::Down => 1,
        NodeBase::Idle => 2,
        NodeBase::Allocated => 3,
        NodeBase::Mixed => 5,
    };
    let bit = |flag: &NodeFlag| match flag {
        NodeFlag::Drain => 1 << 9,
        NodeFlag::NotResponding => 1 << 11,
        NodeFlag::Planned => 1 << 21,
    };
    base + node.flags.iter().map(bit).sum::<u32>()
}

/// A node's state: short, and whole.
fn state(node: &NodeFacts) -> (String, String) {
    let has = |flag| node.flags.contains(&flag);
    let busy = matches!(node.base, NodeBase::Allocated | NodeBase::Mixed);
    let (short, long) = if has(NodeFlag::Drain) && busy {
        ("drng", "draining")
    } else if has(NodeFlag::Drain) {
        ("drain", "drained")
    } else {
        match node.base {
            NodeBase::Unknown => ("unk", "unknown"),
            NodeBase::Down => ("down", "down"),
            NodeBase::Idle if has(NodeFlag::Planned) => ("plnd", "planned"),
            NodeBase::Idle => ("idle", "idle"),
            NodeBase::Allocated => ("alloc", "allocated"),
            NodeBase::Mixed => ("mix", "mixed"),
        }
    };
    let silent = if has(NodeFlag::NotResponding) { "*" } else { "" };
    let planned = busy && has(NodeFlag::Planned) && !has(NodeFlag::Drain);
    let planned = if planned { "-" } else { "" };
    (format!("{short}{silent}{planned}"), format!("{long}{silent}{planned}"))
}

/// Whether a node is in a state, as `-t` names it.
fn is_in(node: &NodeFacts, wanted: &str) -> bool {
    let (short, long) = state(node);
    let wanted = wanted.to_ascii_lowercase();
    match wanted.as_str() {
        "drain" => node.flags.contains(&NodeFlag::Drain),
        "no_respond" => node.flags.contains(&NodeFlag::NotResponding),
        "alloc" | "allocated" => node.base == NodeBase::Allocated,
        "mix" | "mixed" => node.base == NodeBase::Mixed,
        "all" => true,
        _ => {
            let bare = |text: &str| text.trim_end_matches(['*', '-']).to_owned();
            bare(&short) == wanted || bare(&long) == wanted
        }
    }
}

fn field(column: &Column) -> Option<(&'static str, &'static str, bool)> {
    FIELDS
        .iter()
        .find(|(letter, name, ..)| column.key == *letter || column.key == *name)
        .map(|(letter, _, header, sum)| (*letter, *header, *sum))
}

fn header(column: &Column) -> String {
    field(column).map_or_else(String::new, |(_, header, _)| header.to_owned())
}

/// What a column shows of a line.
fn cell(column: &Column, row: &Row<'_>, view: &View<'_>) -> String {
    let Some((letter, ..)) = field(column) else { return String::new() };
    let partition = row.partition;
    match letter {
        "a" => partition.state.to_ascii_lowercase(),
        "B" => "UNLIMITED".to_owned(),
        "d" => "0".to_owned(),
        "D" => row.nodes.len().to_string(),
        "g" => "all".to_owned(),
        "h" => "NO".to_owned(),
        "l" => partition.limit.map_or_else(|| "infinite".to_owned(), elapsed),
        "L" => partition.default_limit.map_or_else(|| "n/a".to_owned(), limit_text),
        "p" | "w" => "1".to_owned(),
        "P" => shown_name(partition),
        "r" => "no".to_owned(),
        "R" => partition.name.clone(),
        "s" => match partition.max_nodes {
            None => "1-infinite".to_owned(),
            Some(1) => "1".to_owned(),
            Some(most) => format!("1-{most}"),
        },
        "N" => list(row, |node| &node.name),
        "n" => list(row, |node| &node.host),
        "o" => list(row, |node| &node.address),
        "A" | "F" | "C" => sums(letter, row),
        _ => match row.nodes.first() {
            Some(node) => node_cell(letter, node, view),
            None => "n/a".to_owned(),
        },
    }
}

fn list(row: &Row<'_>, of: impl Fn(&NodeFacts) -> &String) -> String {
    let mut names: Vec<&String> = Vec::new();
    for node in &row.nodes {
        if !names.contains(&of(node)) {
            names.push(of(node));
        }
    }
    names.into_iter().collect::<HostList>().to_string()
}

/// Allocated, idle, other and all: nodes or CPUs.
fn sums(letter: &str, row: &Row<'_>) -> String {
    let (mut used, mut idle, mut other) = (0, 0, 0);
    for node in &row.nodes {
        let gone = node.base == NodeBase::Down
            || node.base == NodeBase::Unknown
            || node.flags.contains(&NodeFlag::NotResponding);
        let drained = node.flags.contains(&NodeFlag::Drain);
        let busy = matches!(node.base, NodeBase::Allocated | NodeBase::Mixed);
        if letter == "C" {
            used += node.used_cpus;
            let rest = node.cpus.saturating_sub(node.used_cpus);
            if gone || drained { other += rest } else { idle += rest }
        } else if busy && !gone {
            used += 1;
        } else if gone || drained {
            other += 1;
        } else {
            idle += 1;
        }
    }
    match letter {
        "A" => format!("{used}/{idle}"),
        _ => format!("{used}/{idle}/{other}/{}", used + idle + other),
    }
}

fn node_cell(letter: &str, node: &NodeFacts, view: &View<'_>) -> String {
    let (sockets, cores, threads) = node.shape;
    match letter {
        "c" => node.cpus.to_string(),
        "e" => node.free_memory.map_or_else(|| "N/A".to_owned(), |free| free.to_string()),
        "E" => node.reason.as_ref().map_or("none", |(text, ..)| text).to_owned(),
        "u" => node.reason.as_ref().map_or("Unknown", |(_, user, _)| user).to_owned(),
        "H" => match &node.reason {
            Some((.., when)) => view.clock.local(*when).to_string(),
            None => "Unknown".to_owned(),
        },
        "b" | "f" if node.features.is_empty() => "(null)".to_owned(),
        "b" | "f" => node.features.join(","),
        "G" if node.gpus == 0 => "(null)".to_owned(),
        "G" => format!("gpu:{}", node.gpus),
        "m" => node.memory.to_string(),
        "O" => match node.load {
            Some(load) => format!("{}.{:02}", load / 100, load % 100),
            None => "N/A".to_owned(),
        },
        "t" => state(node).0,
        "T" => state(node).1,
        "v" => node.words.get("Version").cloned().unwrap_or_default(),
        "X" => sockets.to_string(),
        "Y" => cores.to_string(),
        "z" => format!("{sockets}:{cores}:{threads}"),
        _ => threads.to_string(),
    }
}
