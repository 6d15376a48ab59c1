//! Reads what valgrind's tool callgrind has counted (the callgrind format of its manual).

use std::collections::{BTreeMap, BTreeSet};

/// Instructions executed by each function of one process.
#[derive(Debug, Default)]
pub(super) struct Profile {
    functions: BTreeMap<String, u64>,
}

impl Profile {
    /// Reads one output file. Lines that are none of functions and costs are passed over.
    pub(super) fn read(text: &str) -> Self {
        let mut names: BTreeMap<&str, &str> = BTreeMap::new();
        let mut profile = Self::default();
        let mut current = None;
        // The line after a call has what the callee took, which is counted there.
        let mut callee = false;
        for line in text.lines() {
            if let Some(function) = line.strip_prefix("fn=").or(line.strip_prefix("cfn=")) {
                let Some((number, name)) = function.split_once(')') else { continue };
                if let Some(name) = name.strip_prefix(' ') {
                    names.insert(number, name);
                }
                if line.starts_with("fn=") {
                    // A function that calls itself is told apart by its depth.
                    current = names.get(number).and_then(|name| name.split('\'').next());
                }
            } else if line.starts_with("calls=") {
                callee = true;
            } else if line
                .starts_with(|first: char| first.is_ascii_digit() || "+-*".contains(first))
            {
                let cost = line.split_whitespace().nth(1).and_then(|cost| cost.parse::<u64>().ok());
                if let (false, Some(name), Some(cost)) = (callee, current, cost) {
                    *profile.functions.entry(name.to_owned()).or_default() += cost;
                }
                callee = false;
            }
        }
        profile.functions.retain(|_, cost| *cost > 0);
        profile
    }

    /// All instructions.
    pub(super) fn total(&self) -> u64 {
        self.functions.values().sum()
    }

    /// The functions that were executed.
    pub(super) fn functions(&self) -> BTreeSet<&str> {
        self.functions.keys().map(String::as_str).collect()
    }

    /// The functions that executed more than in another process.
    pub(super) fn more_than(&self, other: &Self) -> BTreeSet<&str> {
        let more = |(name, cost): &(&String, &u64)| other.functions.get(*name) < Some(*cost);
        self.functions.iter().filter(more).map(|(name, _)| name.as_str()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: &str = "\
# callgrind format
cmd:  agent broker
positions: line
events: Ir
summary: 60

ob=(1) agent
fl=(1) ???
fn=(1) main
0 10
cfn=(2) parse
calls=1 0
0 30
0 5

fn=(2)
+3 20
cfn=(2)
calls=1 0
* 10

fn=(3) parse'2
* 10

fn=(4) never
0 0

totals: 45
";

    #[test]
    fn a_function_is_charged_with_its_own_instructions_alone() {
        let profile = Profile::read(SMALL);
        assert_eq!(profile.functions, BTreeMap::from([("main".into(), 15), ("parse".into(), 30)]));
        assert_eq!(profile.total(), 45);
    }

    #[test]
    fn a_broker_is_told_from_what_it_did_as_its_supervisor() {
        let supervisor = Profile::read("fn=(1) main\n0 10\nfn=(2) parse\n0 30\n");
        let broker = Profile::read("fn=(1) main\n0 10\nfn=(2) parse\n0 31\nfn=(3) join\n0 1\n");
        assert_eq!(broker.more_than(&supervisor), BTreeSet::from(["join", "parse"]));
        assert_eq!(supervisor.functions(), BTreeSet::from(["main", "parse"]));
    }
}
