//! Proves the structure of the workspace: which room may know which, what pure crates never touch,
//! where `unsafe` may stand, how long files may grow.

use crate::workspace;
use anyhow::{Context, Result};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;

/// The rooms and the rooms that each may name in its manifest. A room that is not listed here is
/// refused, so that a new one is placed on purpose.
const MAY_USE: &[(&str, &[&str])] = &[
    ("quorate-hostlist", &[]),
    ("quorate-pmi", &[]),
    ("quorate-api", &[]),
    ("quorate-contract", &[]),
    ("quorate-overlay", &["quorate-hostlist"]),
    ("quorate-queue", &["quorate-hostlist"]),
    ("quorate-slurm", &["quorate-hostlist", "quorate-queue"]),
    ("quorate-plan", &["quorate-api", "quorate-contract", "quorate-hostlist"]),
    ("quorate-tls", &["quorate-contract"]),
    ("quorate-parcel", &["quorate-contract"]),
    (
        "quorate-controller",
        &[
            "quorate-api",
            "quorate-contract",
            "quorate-hostlist",
            "quorate-observe",
            "quorate-plan",
            "quorate-tls",
        ],
    ),
    (
        "quorate-agent",
        &[
            "quorate-contract",
            "quorate-hostlist",
            "quorate-overlay",
            "quorate-parcel",
            "quorate-pmi",
            "quorate-queue",
            "quorate-slurm",
            "quorate-tls",
        ],
    ),
    ("quorate-observe", &["quorate-api", "quorate-contract", "quorate-hostlist", "quorate-plan"]),
    (
        "quorate-cli",
        &[
            "quorate-api",
            "quorate-contract",
            "quorate-hostlist",
            "quorate-observe",
            "quorate-overlay",
            "quorate-parcel",
            "quorate-plan",
            "quorate-slurm",
        ],
    ),
    ("quorate-testbed", &[]),
    (
        "quorate-e2e",
        &["quorate-api", "quorate-contract", "quorate-plan", "quorate-testbed", "quorate-tls"],
    ),
    ("xtask", &[]),
];

/// Rooms that do no I/O.
const PURE: &[&str] = &[
    "quorate-hostlist",
    "quorate-contract",
    "quorate-overlay",
    "quorate-pmi",
    "quorate-queue",
    "quorate-slurm",
    "quorate-api",
    "quorate-plan",
    "quorate-observe",
];

/// What no pure room may reach, directly or through others.
const IMPURE: &[&str] =
    &["tokio", "mio", "async-std", "hyper", "reqwest", "rustls", "kube-client", "nix", "getrandom"];

/// Edges that count for nothing: `ring` has a source of randomness, and a pure room derives keys with
/// it without ever making one (randomness comes in as data).
const HARMLESS: &[(&str, &str)] = &[("ring", "getrandom")];

/// What the agent may not reach: it never talks to Kubernetes.
const NOT_IN_AGENT: &[&str] = &["kube", "kube-core", "kube-client", "k8s-openapi"];

/// Where `unsafe` may stand, by path from the root.
const UNSAFE_ROOMS: &[&str] = &[
    "crates/agent/src/sys.rs",
    "crates/agent/src/sys/",
    "crates/cli/src/sandbox.rs",
    "crates/cli/src/sandbox/",
];

/// No source file may be longer.
const MOST_LINES: usize = 800;
/// Files above this are listed, as the next to be divided.
const MANY_LINES: usize = 500;

/// Prints what is wrong and answers whether all is in order.
pub(crate) fn run() -> Result<bool> {
    let graph = Graph::read(&workspace::metadata()?)?;
    let mut wrong = graph.directions();
    for pure in PURE {
        wrong.extend(reach(&workspace::tree(pure)?, IMPURE));
    }
    wrong.extend(reach(&workspace::tree("quorate-agent")?, NOT_IN_AGENT));
    let mut sources = workspace::files(&workspace::root().join("crates"), "rs")?;
    sources.extend(workspace::files(&workspace::root().join("e2e"), "rs")?);
    for path in &sources {
        let text = fs::read_to_string(path).with_context(|| format!("read {}", path.display()))?;
        let name = path.strip_prefix(workspace::root()).unwrap_or(path).display().to_string();
        wrong.extend(unsafe_code(&name, &text));
        let lines = text.lines().count();
        if lines > MOST_LINES {
            wrong.push(format!("{name} has {lines} lines, at most {MOST_LINES} may be"));
        } else if lines > MANY_LINES {
            println!("note: {name} has {lines} lines; divide it before it reaches {MOST_LINES}");
        }
    }
    for pure in PURE {
        let root = format!("crates/{}/src/lib.rs", pure.trim_start_matches("quorate-"));
        let text = fs::read_to_string(workspace::root().join(&root))
            .with_context(|| format!("read {root}"))?;
        if !text.contains("#![forbid(unsafe_code)]") {
            wrong.push(format!("{root} must forbid unsafe_code"));
        }
    }
    for line in &wrong {
        println!("wrong: {line}");
    }
    if wrong.is_empty() {
        println!(
            "structure: {} rooms, {} source files, all in order",
            graph.direct.len(),
            sources.len()
        );
    }
    Ok(wrong.is_empty())
}

/// The rooms and what they depend on, build scripts included and tests left out.
struct Graph {
    /// Rooms by name: the names of their direct dependencies.
    direct: BTreeMap<String, BTreeSet<String>>,
}

impl Graph {
    fn read(metadata: &Value) -> Result<Self> {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
        let mut names = BTreeMap::new();
        for package in list(&metadata["packages"]) {
            let id = text(&package["id"]).context("a package without an id")?;
            names.insert(id, text(&package["name"]).context("a package without a name")?);
        }
        let mut all = BTreeMap::new();
        for node in list(&metadata["resolve"]["nodes"]) {
            let id = text(&node["id"]).context("a resolved package without an id")?;
            let needed: Vec<String> = list(&node["deps"])
                .iter()
                .filter(|dep| list(&dep["dep_kinds"]).iter().any(|kind| kind["kind"] != "dev"))
                .filter_map(|dep| text(&dep["pkg"]))
                .collect();
            all.insert(id.clone(), (names[&id].clone(), needed));
        }
        let mut direct = BTreeMap::new();
        for member in list(&metadata["workspace_members"]).iter().filter_map(text) {
            let (name, needed) = &all[&member];
            let needed = needed.iter().map(|id| names[id].clone()).collect();
            direct.insert(name.clone(), needed);
        }
        Ok(Self { direct })
    }

    /// Rooms that use rooms they may not.
    fn directions(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        for (name, needed) in &self.direct {
            let Some((_, allowed)) = MAY_USE.iter().find(|(room, _)| room == name) else {
                wrong.push(format!("{name} has no place in the order of rooms (xtask deps)"));
                continue;
            };
            for other in needed.iter().filter(|other| self.direct.contains_key(*other)) {
                if !allowed.contains(&other.as_str()) {
                    wrong.push(format!("{name} may not depend on {other}"));
                }
            }
        }
        wrong
    }
}

/// Paths from a room to what is `forbidden`, one line each. `tree` is what `cargo tree --prefix depth`
/// prints of the room: unlike the metadata of the workspace it has the features that this room alone
/// asks for.
fn reach(tree: &str, forbidden: &[&str]) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut path: Vec<&str> = Vec::new();
    for line in tree.lines() {
        let digits = line.bytes().take_while(u8::is_ascii_digit).count();
        let (Ok(depth), Some(name)) = (line[..digits].parse(), line[digits..].split(' ').next())
        else {
            continue;
        };
        path.truncate(depth);
        let harmless = path.last().is_some_and(|from| HARMLESS.contains(&(*from, name)));
        path.push(name);
        if forbidden.contains(&name) && !harmless {
            wrong.push(format!("{} must not reach {name}: {}", path[0], path.join(" -> ")));
        }
    }
    wrong
}

/// Lines that open the door to `unsafe` where it may not be.
fn unsafe_code(name: &str, text: &str) -> Vec<String> {
    if UNSAFE_ROOMS.iter().any(|room| name.starts_with(room)) {
        return Vec::new();
    }
    let opens = |line: &str| {
        let line = line.trim_start();
        (line.starts_with("#[") || line.starts_with("#!["))
            && (line.contains("expect(unsafe_code") || line.contains("allow(unsafe_code"))
    };
    text.lines()
        .enumerate()
        .filter(|(_, line)| opens(line))
        .map(|(at, _)| format!("{name}:{}: unsafe code may not be allowed here", at + 1))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// A package, what it depends on, and the kind of each dependency.
    type Edges<'a> = &'a [(&'a str, &'a [(&'a str, Option<&'a str>)])];

    fn graph(edges: Edges<'_>, members: &[&str]) -> Graph {
        let names: BTreeSet<&str> = edges
            .iter()
            .flat_map(|(name, needed)| needed.iter().map(|(n, _)| *n).chain(std::iter::once(*name)))
            .collect();
        let nodes: Vec<Value> = names
            .iter()
            .map(|name| {
                let needed = edges.iter().find(|(n, _)| n == name).map_or(&[][..], |(_, d)| d);
                let deps: Vec<Value> = needed
                    .iter()
                    .map(|(pkg, kind)| json!({"pkg": pkg, "dep_kinds": [{"kind": kind}]}))
                    .collect();
                json!({"id": name, "deps": deps})
            })
            .collect();
        let packages: Vec<Value> =
            names.iter().map(|name| json!({"id": name, "name": name})).collect();
        Graph::read(&json!({
            "packages": packages,
            "resolve": {"nodes": nodes},
            "workspace_members": members,
        }))
        .unwrap()
    }

    #[test]
    fn a_room_that_looks_upwards_is_refused() {
        let graph = graph(
            &[("quorate-overlay", &[("quorate-pmi", None)])],
            &["quorate-overlay", "quorate-pmi"],
        );
        assert_eq!(graph.directions(), ["quorate-overlay may not depend on quorate-pmi"]);
    }

    #[test]
    fn an_unplaced_room_is_refused() {
        let graph = graph(&[("quorate-new", &[])], &["quorate-new"]);
        assert_eq!(graph.directions().len(), 1);
    }

    #[test]
    fn impurity_is_found_through_others_and_ring_may_have_randomness() {
        let tree = "0quorate-overlay v0.1.0 (/w)\n1a v1.0.0\n2tokio v1.0.0\n\
            1ring v0.17.0\n2getrandom v0.2.0\n1b v1.0.0\n2getrandom v0.2.0\n";
        assert_eq!(
            reach(tree, IMPURE),
            [
                "quorate-overlay must not reach tokio: quorate-overlay -> a -> tokio",
                "quorate-overlay must not reach getrandom: quorate-overlay -> b -> getrandom",
            ]
        );
    }

    #[test]
    fn unsafe_is_for_two_rooms_only() {
        let text = "fn a() {}\n    #[expect(unsafe_code, reason = \"x\")]\n";
        assert!(unsafe_code("crates/agent/src/sys.rs", text).is_empty());
        assert!(unsafe_code("crates/cli/src/sandbox/clone.rs", text).is_empty());
        assert_eq!(
            unsafe_code("crates/agent/src/broker.rs", text),
            ["crates/agent/src/broker.rs:2: unsafe code may not be allowed here"]
        );
        assert!(unsafe_code("crates/api/src/lib.rs", "#![forbid(unsafe_code)]").is_empty());
    }
}
