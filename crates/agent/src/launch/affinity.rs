//! The CPUs that a pod really has, and which of them each task is bound to.
//!
//! Owns: reading the limits of the cgroup (v2 `cpu.max` and `cpuset.cpus.effective`, v1
//! `cpu.cfs_quota_us` and `cpuset.effective_cpus`), the number of automatic slots, and the CPU set
//! of each task. It binds only within what it found, and must not touch any process: spawning
//! applies the sets.
//!
//! Formats: Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/cpusets.rst of Linux, cgroups(7).

use std::path::{Path, PathBuf};

#[cfg(test)]
mod tests;

/// What the kernel lets this pod use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allowance {
    /// CPU numbers that processes may run on, ascending, never empty.
    pub cpus: Vec<u32>,
    /// CPU time as thousandths of a CPU; `None` without a quota.
    pub quota_millis: Option<u64>,
    /// CPUs of the machine that are online.
    pub machine: u32,
}

/// How tasks are bound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Binding {
    /// Bound when the CPUs are the pod's own, or when CPUs per task were asked for.
    #[default]
    Auto,
    /// Never bound.
    None,
}

impl Allowance {
    /// Reads the limits. `root` is `/` except in tests: `root/proc/self/cgroup` and
    /// `root/sys/fs/cgroup` are looked at. `affinity` is what `sched_getaffinity` gave.
    pub fn read(root: &Path, affinity: &[u32]) -> Self {
        let groups = Groups::read(root);
        let machine = read_list(&root.join("sys/devices/system/cpu/online"))
            .map_or(affinity.len() as u32, |list| list.len() as u32);
        let mut cpus = affinity.to_vec();
        cpus.sort_unstable();
        cpus.dedup();
        if let Some(set) = groups.cpuset() {
            let within: Vec<u32> =
                cpus.iter().copied().filter(|c| set.binary_search(c).is_ok()).collect();
            // An affinity outside of the cpuset cannot be: the kernel itself keeps them together.
            // If the files of another mount were read, what the kernel told is right.
            if !within.is_empty() {
                cpus = within;
            }
        }
        if cpus.is_empty() {
            cpus.push(0);
        }
        Self { cpus, quota_millis: groups.quota(), machine }
    }

    /// Slots of a broker that takes as many tasks as it has CPUs: whole CPUs of the set and of the
    /// quota, at least 1. Half a CPU more is not a place for a rank that spins.
    pub fn slots(&self) -> u32 {
        let cpus = self.cpus.len() as u64;
        let quota = self.quota_millis.map_or(u64::MAX, |millis| millis / 1000);
        u32::try_from(cpus.min(quota).max(1)).unwrap_or(u32::MAX)
    }

    /// Whether the CPUs are this pod's own: fewer than the machine has, and no quota that is
    /// smaller than the set. Only then do CPU numbers mean anything: pods that share a machine
    /// would all bind their first task to the first CPU.
    pub fn exclusive(&self) -> bool {
        (self.cpus.len() as u32) < self.machine
            && self.quota_millis.is_none_or(|millis| millis >= self.cpus.len() as u64 * 1000)
    }

    /// The CPU sets of `tasks` tasks on this broker, by local rank; `None` leaves a task free.
    ///
    /// `per_task` is what the user asked for. `turn` (the broker's rank) rotates the sets when
    /// the CPUs are shared, so that pods on one machine do not crowd on its first CPUs. Tasks that
    /// do not fit are left free, all of them: half a job bound is worse than none.
    pub fn sets(
        &self,
        binding: Binding,
        tasks: u32,
        per_task: Option<u32>,
        turn: u32,
    ) -> Vec<Option<Vec<u32>>> {
        let have = self.cpus.len() as u32;
        let free = || vec![None; tasks as usize];
        let asked = per_task.is_some();
        if binding == Binding::None || tasks == 0 || !(asked || self.exclusive()) {
            return free();
        }
        // Without a wish each task gets its even share.
        let each = per_task.unwrap_or(have / tasks);
        if each == 0 || u64::from(each) * u64::from(tasks) > u64::from(have) {
            return free();
        }
        let start = if self.exclusive() {
            0
        } else {
            (u64::from(turn) * u64::from(tasks) * u64::from(each) % u64::from(have)) as u32
        };
        (0..tasks)
            .map(|task| {
                let mut set: Vec<u32> = (0..each)
                    .map(|n| self.cpus[((start + task * each + n) % have) as usize])
                    .collect();
                set.sort_unstable();
                Some(set)
            })
            .collect()
    }
}

impl Allowance {
    /// The CPU sets of `tasks` tasks that together have these of the broker's slots, so that jobs
    /// beside each other share no CPU. Bound as in [`Self::sets`]; `asked` says that the user asked
    /// for CPUs per task. A broker with more slots than CPUs leaves its tasks free.
    pub fn sets_within(
        &self,
        binding: Binding,
        slots: &[u32],
        tasks: u32,
        asked: bool,
        turn: u32,
    ) -> Vec<Option<Vec<u32>>> {
        let have = self.cpus.len() as u32;
        let each = slots.len() / tasks.max(1) as usize;
        let beyond = slots.iter().any(|slot| *slot >= have);
        if binding == Binding::None || !(asked || self.exclusive()) || each == 0 || beyond {
            return vec![None; tasks as usize];
        }
        let shift = if self.exclusive() { 0 } else { turn % have };
        let cpu = |slot: &u32| self.cpus[((slot + shift) % have) as usize];
        let set = |slots: &[u32]| {
            let mut set: Vec<u32> = slots.iter().map(cpu).collect();
            set.sort_unstable();
            Some(set)
        };
        slots.chunks(each).take(tasks as usize).map(set).collect()
    }
}

/// The cgroup directories of this process, innermost first.
struct Groups {
    /// Unified hierarchy.
    v2: Vec<PathBuf>,
    /// The v1 `cpu` controller.
    v1_cpu: Vec<PathBuf>,
    /// The v1 `cpuset` controller.
    v1_cpuset: Vec<PathBuf>,
}

impl Groups {
    fn read(root: &Path) -> Self {
        let mount = root.join("sys/fs/cgroup");
        let text = std::fs::read_to_string(root.join("proc/self/cgroup")).unwrap_or_default();
        let mut groups = Self { v2: Vec::new(), v1_cpu: Vec::new(), v1_cpuset: Vec::new() };
        for line in text.lines() {
            let mut parts = line.splitn(3, ':');
            let (Some(_), Some(controllers), Some(path)) =
                (parts.next(), parts.next(), parts.next())
            else {
                continue;
            };
            if controllers.is_empty() {
                // With a hybrid hierarchy the unified one is a level down.
                let base = if mount.join("unified").is_dir() {
                    mount.join("unified")
                } else {
                    mount.clone()
                };
                groups.v2 = chain(&base, path);
            } else if controllers.split(',').any(|c| c == "cpu") {
                groups.v1_cpu = chain(&v1_mount(&mount, controllers, "cpu"), path);
            } else if controllers.split(',').any(|c| c == "cpuset") {
                groups.v1_cpuset = chain(&v1_mount(&mount, controllers, "cpuset"), path);
            }
        }
        if groups.v1_cpuset.is_empty() && text.lines().any(|l| l.contains("cpuset")) {
            groups.v1_cpuset.clone_from(&groups.v1_cpu);
        }
        groups
    }

    /// The innermost CPU set that says something.
    fn cpuset(&self) -> Option<Vec<u32>> {
        let v2 = self.v2.iter().find_map(|dir| read_list(&dir.join("cpuset.cpus.effective")));
        v2.or_else(|| {
            self.v1_cpuset.iter().find_map(|dir| {
                read_list(&dir.join("cpuset.effective_cpus"))
                    .or_else(|| read_list(&dir.join("cpuset.cpus")))
            })
        })
    }

    /// The smallest quota of the chain: every ancestor's holds too.
    fn quota(&self) -> Option<u64> {
        let v2 = self.v2.iter().filter_map(|dir| {
            let text = std::fs::read_to_string(dir.join("cpu.max")).ok()?;
            let mut words = text.split_whitespace();
            let quota: u64 = words.next()?.parse().ok()?;
            let period: u64 = words.next()?.parse().ok()?;
            millis(quota, period)
        });
        let v1 = self.v1_cpu.iter().filter_map(|dir| {
            let number = |name: &str| -> Option<u64> {
                std::fs::read_to_string(dir.join(name)).ok()?.trim().parse().ok()
            };
            millis(number("cpu.cfs_quota_us")?, number("cpu.cfs_period_us")?)
        });
        v2.chain(v1).min()
    }
}

fn millis(quota: u64, period: u64) -> Option<u64> {
    quota.saturating_mul(1000).checked_div(period)
}

/// Where a v1 controller is mounted: `cpu,cpuacct`, or a link by its own name.
fn v1_mount(mount: &Path, controllers: &str, name: &str) -> PathBuf {
    let joint = mount.join(controllers);
    if joint.is_dir() { joint } else { mount.join(name) }
}

/// The directory of `path` below `base` and its parents up to `base`. Inside a container the path
/// in `/proc/self/cgroup` may be the host's while the mount shows the container's own group as its
/// root: what is not there is skipped.
fn chain(base: &Path, path: &str) -> Vec<PathBuf> {
    let mut dirs = Vec::new();
    let mut relative = PathBuf::from(path.trim_start_matches('/'));
    let escapes = relative.components().any(|c| c == std::path::Component::ParentDir);
    if !escapes {
        loop {
            let dir = base.join(&relative);
            if dir.is_dir() {
                dirs.push(dir);
            }
            if !relative.pop() {
                break;
            }
        }
    }
    if dirs.is_empty() {
        dirs.push(base.to_path_buf());
    }
    dirs
}

fn read_list(path: &Path) -> Option<Vec<u32>> {
    parse_list(std::fs::read_to_string(path).ok()?.trim())
}

/// Reads the kernel's list format, `0-3,8`; `None` when empty or not of that form.
pub fn parse_list(text: &str) -> Option<Vec<u32>> {
    /// More CPUs than any machine has: a bound for damaged input.
    const MOST: u32 = 65_536;
    let mut list = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        if first > last || last >= MOST {
            return None;
        }
        list.extend(first..=last);
    }
    list.sort_unstable();
    list.dedup();
    (!list.is_empty()).then_some(list)
}
