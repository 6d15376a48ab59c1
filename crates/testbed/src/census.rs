//! Proof that nothing of a cluster is left: what there was of it is written down before its end and
//! looked for afterwards.

use crate::cgroups;
use crate::layout::Folder;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};

/// Settings of the machine that programs of a cluster write where they are not kept from it.
const SETTINGS: [&str; 8] = [
    "vm",
    "kernel/panic",
    "kernel/panic_on_oops",
    "kernel/keys",
    "net/ipv4/ip_forward",
    "net/ipv4/conf",
    "net/netfilter",
    "net/bridge",
];
/// Counts of what happens now, no settings.
const COUNTS: [&str; 1] = ["nf_conntrack_count"];
/// Kinds of namespaces that a cluster makes, as in `/proc/PID/ns`.
const KINDS: [&str; 6] = ["pid", "mnt", "net", "uts", "ipc", "cgroup"];

/// The machine's settings by path below `/proc/sys`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings(BTreeMap<PathBuf, String>);

impl Settings {
    /// As they are now.
    pub fn read() -> Self {
        let root = Path::new("/proc/sys");
        let mut found = BTreeMap::new();
        let mut todo: Vec<PathBuf> = SETTINGS.iter().map(|name| root.join(name)).collect();
        while let Some(path) = todo.pop() {
            if let Ok(entries) = fs::read_dir(&path) {
                todo.extend(entries.flatten().map(|entry| entry.path()));
            } else if !COUNTS.iter().any(|name| path.ends_with(name))
                && let Ok(value) = fs::read_to_string(&path)
            {
                let name = path.strip_prefix(root).unwrap_or(&path).to_owned();
                found.insert(name, value.trim().to_owned());
            }
        }
        Self(found)
    }

    /// What has become of these, one line for each that is different now.
    fn changed(&self, now: &Self) -> Vec<String> {
        let line = |(name, before): (&PathBuf, &String)| {
            let now = now.0.get(name)?;
            (now != before).then(|| format!("setting {} was {before} and is {now}", name.display()))
        };
        self.0.iter().filter_map(line).collect()
    }
}

/// What a cluster consists of, as the machine sees it.
///
/// The kernel gives the numbers of processes and of namespaces away again, soon on a machine that runs
/// local clusters beside this one: when a process began tells whose it is.
#[derive(Clone, Debug, Default)]
pub struct Census {
    /// By number, with when each began, in ticks since the machine did.
    processes: BTreeMap<u32, u64>,
    namespaces: BTreeSet<String>,
    /// When the youngest process of the machine began. Whatever began later is none of the cluster's: its
    /// own die with its PID namespace, and what outlived that would be in its control groups.
    taken: u64,
    before: Settings,
    port: Option<u16>,
}

impl Census {
    /// Writes down the processes below `guard` and their namespaces. `before` are the settings from
    /// before the cluster was started.
    pub fn take(guard: Option<u32>, before: Settings, port: Option<u16>) -> Self {
        let own: BTreeSet<String> = namespaces(std::process::id()).into_iter().collect();
        let processes = guard.map(descendants).unwrap_or_default();
        let all = processes.iter().flat_map(|pid| namespaces(*pid));
        let namespaces = all.filter(|namespace| !own.contains(namespace)).collect();
        let began = |pid: u32| Some((pid, stat(pid)?.began));
        let processes = processes.into_iter().filter_map(began).collect();
        let taken = self::processes().filter_map(|pid| Some(stat(pid)?.began)).max();
        Self { processes, namespaces, taken: taken.unwrap_or_default(), before, port }
    }

    /// How much there is: processes and namespaces.
    pub fn size(&self) -> (usize, usize) {
        (self.processes.len(), self.namespaces.len())
    }

    /// What is left of it now, one line each; nothing if all is gone.
    pub fn left(&self, folder: &Folder) -> Vec<String> {
        let mut left = Vec::new();
        for pid in processes() {
            let Some(now) = stat(pid) else { continue };
            let inside = |namespace: &String| self.namespaces.contains(namespace);
            if self.processes.get(&pid) == Some(&now.began) && now.alive() {
                left.push(format!("process {pid} ({})", command(pid)));
            } else if now.began <= self.taken && namespaces(pid).iter().any(inside) {
                left.push(format!(
                    "process {pid} ({}) in a namespace of the cluster",
                    command(pid)
                ));
            }
        }
        let root = folder.root().display().to_string();
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let ours = |line: &&str| {
            let mut words = line.split_whitespace();
            line.contains(&root) || words.any(|word| self.namespaces.contains(word))
        };
        left.extend(mounts.lines().filter(ours).map(|line| format!("mount {line}")));
        let groups = cgroups::groups(&folder.control_group_prefix());
        left.extend(groups.iter().map(|group| format!("control group {}", group.display())));
        if folder.root().exists() {
            left.push(format!("folder {root}"));
        }
        if let Some(port) = self.port
            && TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok()
        {
            left.push(format!("port {port} of 127.0.0.1"));
        }
        left.extend(self.before.changed(&Settings::read()));
        left
    }
}

fn processes() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// The namespaces of a process as `kind:[number]`; none if it has ended.
fn namespaces(pid: u32) -> Vec<String> {
    let link = |kind: &&str| fs::read_link(format!("/proc/{pid}/ns/{kind}")).ok();
    KINDS.iter().filter_map(link).map(|link| link.display().to_string()).collect()
}

/// What `/proc/PID/stat` says of a process (proc(5)).
struct Stat {
    state: char,
    parent: u32,
    /// When it began, in ticks since the machine did.
    began: u64,
}

impl Stat {
    fn alive(&self) -> bool {
        self.state != 'Z' && self.state != 'X'
    }
}

fn stat(pid: u32) -> Option<Stat> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The command's name may hold blanks and brackets; the last bracket ends it.
    let (_, rest) = stat.rsplit_once(')')?;
    // The third field is the first of these, the beginning is the 22nd.
    let words: Vec<&str> = rest.split_whitespace().collect();
    let number = |at: usize| words.get(at);
    Some(Stat {
        state: number(0)?.chars().next()?,
        parent: number(1)?.parse().ok()?,
        began: number(19)?.parse().ok()?,
    })
}

/// Whether a process runs. One that has ended stays visible until its parent, or the machine's
/// init, takes notice.
pub fn alive(pid: u32) -> bool {
    stat(pid).is_some_and(|stat| stat.alive())
}

/// The arguments of a process, joined by blanks.
pub fn command(pid: u32) -> String {
    let bytes = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&bytes).replace('\0', " ").trim().to_owned()
}

/// A process and everything below it.
fn descendants(root: u32) -> BTreeSet<u32> {
    let parents: Vec<(u32, u32)> =
        processes().filter_map(|pid| Some((pid, stat(pid)?.parent))).collect();
    let mut found = BTreeSet::from([root]);
    let mut todo = vec![root];
    while let Some(parent) = todo.pop() {
        for (pid, _) in parents.iter().filter(|(_, of)| *of == parent) {
            if found.insert(*pid) {
                todo.push(*pid);
            }
        }
    }
    found
}

/// The first process of a node in the numbers of the caller: `init` is its number in the PID
/// namespace of `keeper`.
pub fn node_init(keeper: u32, init: u32) -> Option<u32> {
    let is_it = |pid: &u32| {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
        let numbers: Vec<u32> = numbers
            .map(|text| text.split_whitespace().filter_map(|word| word.parse().ok()).collect())
            .unwrap_or_default();
        numbers.ends_with(&[init, 1])
    };
    descendants(keeper).into_iter().find(is_it)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn a_changed_setting_is_named_with_both_values() {
        let with = |value: &str| {
            Settings(BTreeMap::from([(PathBuf::from("vm/overcommit_memory"), value.into())]))
        };
        assert_eq!(with("0").changed(&with("1")), ["setting vm/overcommit_memory was 0 and is 1"]);
        assert!(with("0").changed(&with("0")).is_empty());
    }

    #[test]
    fn a_process_that_is_left_is_named() {
        let mut child = Command::new("sleep").arg("600").spawn().unwrap();
        let census = Census::take(Some(child.id()), Settings::read(), None);
        let folder = Folder::new("census-test");
        assert_eq!(census.left(&folder), [format!("process {} (sleep 600)", child.id())]);
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(census.left(&folder).is_empty());
    }

    #[test]
    fn a_stranger_that_got_the_number_of_a_process_or_of_a_namespace_is_not_taken_for_the_cluster_s()
     {
        let mut child = Command::new("sleep").arg("600").spawn().unwrap();
        let census = Census::take(Some(child.id()), Settings::read(), None);
        let folder = Folder::new("census-stranger");
        let number = fs::read_link(format!("/proc/{}/ns/net", child.id())).unwrap();
        let inside = Census { namespaces: [number.display().to_string()].into(), ..census.clone() };
        let about = format!("process {} (sleep 600)", child.id());
        assert!(inside.left(&folder).contains(&about));
        // As if the census had been of one that began, and ended, before this one.
        let taken = census.taken;
        let earlier = census.processes.keys().map(|pid| (*pid, 0)).collect();
        let before = Census { processes: earlier, taken: 0, ..inside };
        assert_eq!(before.left(&folder), Vec::<String>::new());
        let in_time = Census { taken, ..before };
        assert!(in_time.left(&folder).contains(&format!("{about} in a namespace of the cluster")));
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn settings_of_the_machine_are_read() {
        let settings = Settings::read();
        assert!(settings.0.contains_key(Path::new("vm/overcommit_memory")));
        assert!(settings.0.contains_key(Path::new("kernel/panic")));
    }
}
