//! The pod's CPUs as a file that hwloc reads, so that each MPI rank need not look through `/sys`
//! by itself: MPICH asks its process manager for one (`PMI_hwloc_xmlfile`).
//!
//! Owns: what is said of packages, cores, processing units and NUMA nodes, within the CPUs that
//! the pod may use. It says nothing rather than less than hwloc would find and MPI would use: where
//! there are network adapters to choose from or accelerators, or NUMA nodes that are neither
//! packages nor the machine, there is no file.
//!
//! Format: hwloc2.dtd of hwloc 2.0, read by all later ones. Sources:
//! Documentation/admin-guide/cputopology.rst of Linux.

use super::affinity::parse_list;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs;
use std::path::Path;

type Cpus = BTreeSet<u32>;

/// The topology of `cpus` in hwloc's XML. `root` is `/` except in tests.
pub fn xml(root: &Path, cpus: &[u32]) -> Option<String> {
    if has_choices(root) {
        return None;
    }
    let machine = Machine::read(root, cpus)?;
    Some(machine.write())
}

/// Whether there are devices whose place matters to MPI.
fn has_choices(root: &Path) -> bool {
    let names = |path: &str| -> Vec<_> {
        fs::read_dir(root.join(path)).map(|dir| dir.flatten().collect()).unwrap_or_default()
    };
    let fabrics = ["sys/class/infiniband", "sys/class/cxi"];
    let adapters =
        names("sys/class/net").iter().filter(|name| name.path().join("device").exists()).count();
    let accelerators = ["dev/nvidiactl", "dev/kfd", "dev/accel"];
    adapters > 1
        || fabrics.iter().any(|path| !names(path).is_empty())
        || accelerators.iter().any(|path| root.join(path).exists())
}

struct Machine {
    cpus: Cpus,
    packages: BTreeMap<u32, Package>,
    nodes: BTreeMap<u32, Node>,
}

#[derive(Default)]
struct Package {
    cpus: Cpus,
    /// Cores by their first processing unit: numbers of cores may repeat within a package.
    cores: BTreeMap<u32, (u32, Cpus)>,
}

struct Node {
    cpus: Cpus,
    memory: u64,
}

impl Machine {
    fn read(root: &Path, cpus: &[u32]) -> Option<Self> {
        let cpus: Cpus = cpus.iter().copied().collect();
        let mut packages: BTreeMap<u32, Package> = BTreeMap::new();
        for &cpu in &cpus {
            let dir = root.join(format!("sys/devices/system/cpu/cpu{cpu}/topology"));
            let read = |name: &str| fs::read_to_string(dir.join(name)).ok();
            // Machines that do not tell have -1.
            let number = |name: &str| read(name)?.trim().parse::<u32>().ok();
            let first = *parse_list(read("thread_siblings_list")?.trim())?.first()?;
            let package = packages.entry(number("physical_package_id")?).or_default();
            package.cpus.insert(cpu);
            let core_id = number("core_id")?;
            package.cores.entry(first).or_insert((core_id, Cpus::new())).1.insert(cpu);
        }
        let nodes = nodes(root, &cpus)?;
        let known = |node: &Node| {
            node.cpus == cpus || packages.values().any(|package| package.cpus == node.cpus)
        };
        nodes.values().all(known).then_some(Self { cpus, packages, nodes })
    }

    fn write(&self) -> String {
        let mut text = String::from(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<!DOCTYPE topology SYSTEM \
             \"hwloc2.dtd\">\n<topology version=\"2.0\">\n",
        );
        let mut writer = Writer { text: &mut text, machine: self, next: 0 };
        writer.open("Machine", 0, &self.cpus);
        let whole = |node: &Node| self.packages.values().all(|package| package.cpus != node.cpus);
        writer.nodes(whole);
        for (id, package) in &self.packages {
            writer.open("Package", *id, &package.cpus);
            writer.nodes(|node| node.cpus == package.cpus);
            for (core_id, cpus) in package.cores.values() {
                writer.open("Core", *core_id, cpus);
                for &cpu in cpus {
                    writer.open("PU", cpu, &Cpus::from([cpu]));
                    writer.close();
                }
                writer.close();
            }
            writer.close();
        }
        writer.close();
        text.push_str("</topology>\n");
        text
    }
}

struct Writer<'a> {
    text: &'a mut String,
    machine: &'a Machine,
    next: u32,
}

impl Writer<'_> {
    fn open(&mut self, kind: &str, index: u32, cpus: &Cpus) {
        let near = self.machine.nodes.iter().filter(|(_, node)| !node.cpus.is_disjoint(cpus));
        let nodes: Cpus = near.map(|(id, _)| *id).collect();
        self.begin(kind, index, cpus, &nodes);
        self.text.push_str(">\n");
    }

    fn begin(&mut self, kind: &str, index: u32, cpus: &Cpus, nodes: &Cpus) {
        self.next += 1;
        let (cpus, nodes, number) = (bitmap(cpus), bitmap(nodes), self.next);
        let _ = write!(
            self.text,
            "<object type=\"{kind}\" os_index=\"{index}\" cpuset=\"{cpus}\" \
             complete_cpuset=\"{cpus}\" nodeset=\"{nodes}\" complete_nodeset=\"{nodes}\" \
             gp_index=\"{number}\""
        );
        if kind == "Machine" {
            let _ = write!(self.text, " allowed_cpuset=\"{cpus}\" allowed_nodeset=\"{nodes}\"");
        }
    }

    fn nodes(&mut self, wanted: impl Fn(&Node) -> bool) {
        for (id, node) in self.machine.nodes.iter().filter(|(_, node)| wanted(node)) {
            self.begin("NUMANode", *id, &node.cpus, &Cpus::from([*id]));
            let _ = writeln!(self.text, " local_memory=\"{}\"/>", node.memory);
        }
    }

    fn close(&mut self) {
        self.text.push_str("</object>\n");
    }
}

/// NUMA nodes with some of the CPUs; one with all of them where the kernel knows none.
fn nodes(root: &Path, cpus: &Cpus) -> Option<BTreeMap<u32, Node>> {
    let dir = root.join("sys/devices/system/node");
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(&dir).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let id = name.to_str().and_then(|name| name.strip_prefix("node")?.parse().ok());
        let Some(id) = id else { continue };
        let all = fs::read_to_string(entry.path().join("cpulist")).ok()?;
        // A node without CPUs has an empty list.
        let all = parse_list(all.trim()).unwrap_or_default();
        let here: Cpus = all.into_iter().filter(|cpu| cpus.contains(cpu)).collect();
        if !here.is_empty() {
            let info = fs::read_to_string(entry.path().join("meminfo")).unwrap_or_default();
            found.insert(id, Node { cpus: here, memory: memory(&info) });
        }
    }
    if found.is_empty() {
        found.insert(0, Node { cpus: cpus.clone(), memory: 0 });
    }
    let covered: usize = found.values().map(|node| node.cpus.len()).sum();
    (covered == cpus.len()).then_some(found)
}

/// `Node 0 MemTotal:  16384 kB`, in bytes.
fn memory(info: &str) -> u64 {
    let line = info.lines().find(|line| line.contains("MemTotal:"));
    let number = line.and_then(|line| line.split_whitespace().rev().nth(1)?.parse::<u64>().ok());
    number.unwrap_or_default() * 1024
}

/// A set as hwloc writes it: words of 32 bits, the highest first.
fn bitmap(set: &Cpus) -> String {
    let words = set.last().map_or(1, |last| last / 32 + 1);
    let word = |index: u32| {
        let range = set.range(index * 32..(index + 1) * 32);
        range.fold(0_u32, |word, number| word | 1 << (number % 32))
    };
    let words: Vec<String> =
        (0..words).rev().map(|index| format!("0x{:08x}", word(index))).collect();
    words.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Root(tempfile::TempDir);

    impl Root {
        fn new() -> Self {
            Self(tempfile::tempdir().unwrap())
        }

        fn write(&self, path: &str, text: &str) {
            let path = self.0.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }

        /// A CPU: package, core, the list of its core's threads.
        fn cpu(&self, cpu: u32, package: i32, core: u32, threads: &str) {
            let dir = format!("sys/devices/system/cpu/cpu{cpu}/topology");
            self.write(&format!("{dir}/physical_package_id"), &format!("{package}\n"));
            self.write(&format!("{dir}/core_id"), &format!("{core}\n"));
            self.write(&format!("{dir}/thread_siblings_list"), &format!("{threads}\n"));
        }

        fn node(&self, node: u32, cpus: &str) {
            let dir = format!("sys/devices/system/node/node{node}");
            self.write(&format!("{dir}/cpulist"), &format!("{cpus}\n"));
            self.write(&format!("{dir}/meminfo"), &format!("Node {node} MemTotal:  2048 kB\n"));
        }

        /// Two packages of two cores of two threads, a node each.
        fn two_packages() -> Self {
            let root = Self::new();
            for cpu in 0..8 {
                let core = cpu % 4;
                root.cpu(cpu, (core / 2).cast_signed(), core % 2, &format!("{core},{}", core + 4));
            }
            root.node(0, "0-1,4-5");
            root.node(1, "2-3,6-7");
            root
        }
    }

    fn count(xml: &str, kind: &str) -> usize {
        xml.matches(&format!("type=\"{kind}\"")).count()
    }

    #[test]
    fn packages_cores_units_and_nodes_are_told() {
        let root = Root::two_packages();
        let all: Vec<u32> = (0..8).collect();
        let xml = xml(root.0.path(), &all).unwrap();
        let kinds = ["Machine", "Package", "Core", "PU", "NUMANode"];
        assert_eq!(kinds.map(|kind| count(&xml, kind)), [1, 2, 4, 8, 2], "{xml}");
        let first = "<object type=\"Package\" os_index=\"0\" cpuset=\"0x00000033\" \
                     complete_cpuset=\"0x00000033\" nodeset=\"0x00000001\"";
        assert!(xml.contains(first), "{xml}");
        assert!(xml.contains("local_memory=\"2097152\""));
        assert_eq!(xml.matches("<object").count(), xml.matches("</object>").count() + 2);
    }

    #[test]
    fn a_pod_sees_its_own_cpus_alone() {
        let root = Root::two_packages();
        let xml = xml(root.0.path(), &[2, 6, 7]).unwrap();
        let kinds = ["Machine", "Package", "Core", "PU", "NUMANode"];
        assert_eq!(kinds.map(|kind| count(&xml, kind)), [1, 1, 2, 3, 1], "{xml}");
        assert!(xml.contains("nodeset=\"0x00000002\"") && xml.contains("cpuset=\"0x000000c4\""));
    }

    #[test]
    fn nothing_is_said_where_a_choice_of_devices_or_nodes_would_be_hidden() {
        let cpus: Vec<u32> = (0..8).collect();
        for device in ["sys/class/infiniband/mlx5_0/x", "sys/class/cxi/cxi0/x", "dev/kfd"] {
            let root = Root::two_packages();
            root.write(device, "");
            assert_eq!(xml(root.0.path(), &cpus), None, "{device}");
        }
        let root = Root::two_packages();
        root.write("sys/class/net/eth0/device/x", "");
        assert!(xml(root.0.path(), &cpus).is_some(), "one adapter is no choice");
        root.write("sys/class/net/eth1/device/x", "");
        assert_eq!(xml(root.0.path(), &cpus), None);
        let root = Root::two_packages();
        root.node(1, "2,6");
        root.node(2, "3,7");
        assert_eq!(xml(root.0.path(), &cpus), None, "two nodes in a package");
        let root = Root::new();
        root.cpu(0, -1, 0, "0");
        assert_eq!(xml(root.0.path(), &[0]), None, "the machine does not tell");
    }

    #[test]
    fn sets_are_written_as_hwloc_does() {
        assert_eq!(bitmap(&Cpus::new()), "0x00000000");
        assert_eq!(bitmap(&Cpus::from([0, 31])), "0x80000001");
        assert_eq!(bitmap(&Cpus::from([1, 64])), "0x00000001,0x00000000,0x00000002");
    }
}
