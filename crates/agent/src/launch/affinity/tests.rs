use super::*;
use tempfile::TempDir;

fn tree(files: &[(&str, &str)]) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let path = dir.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    dir
}

const EIGHT: [u32; 8] = [0, 1, 2, 3, 4, 5, 6, 7];

#[test]
fn v2_pod_with_quota_offers_its_quota_not_the_machine() {
    let dir = tree(&[
        ("proc/self/cgroup", "0::/\n"),
        ("sys/fs/cgroup/cpu.max", "250000 100000\n"),
        ("sys/fs/cgroup/cpuset.cpus.effective", "0-7\n"),
        ("sys/devices/system/cpu/online", "0-7\n"),
    ]);
    let allowance = Allowance::read(dir.path(), &EIGHT);
    assert_eq!(allowance.quota_millis, Some(2500));
    assert_eq!(allowance.slots(), 2);
    assert!(!allowance.exclusive());
}

#[test]
fn v2_ancestors_limit_too() {
    let dir = tree(&[
        ("proc/self/cgroup", "0::/kubepods/pod1/main\n"),
        ("sys/fs/cgroup/kubepods/cpu.max", "max 100000\n"),
        ("sys/fs/cgroup/kubepods/pod1/cpu.max", "400000 100000\n"),
        ("sys/fs/cgroup/kubepods/pod1/main/cpu.max", "600000 100000\n"),
        ("sys/fs/cgroup/kubepods/pod1/main/cpuset.cpus.effective", "2-5\n"),
        ("sys/fs/cgroup/cpuset.cpus.effective", "0-7\n"),
        ("sys/devices/system/cpu/online", "0-7\n"),
    ]);
    let allowance = Allowance::read(dir.path(), &EIGHT);
    assert_eq!(allowance.cpus, [2, 3, 4, 5]);
    assert_eq!(allowance.slots(), 4);
    assert!(allowance.exclusive());
}

#[test]
fn v1_quota_and_cpuset() {
    let dir = tree(&[
        ("proc/self/cgroup", "5:cpuset:/docker/x\n4:cpu,cpuacct:/docker/x\n1:name=systemd:/\n"),
        // The container's own group is mounted as the root, the path is the host's.
        ("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "300000\n"),
        ("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n"),
        ("sys/fs/cgroup/cpuset/cpuset.effective_cpus", "1,3,5\n"),
        ("sys/devices/system/cpu/online", "0-7\n"),
    ]);
    let allowance = Allowance::read(dir.path(), &EIGHT);
    assert_eq!(allowance.cpus, [1, 3, 5]);
    assert_eq!(allowance.quota_millis, Some(3000));
    assert_eq!(allowance.slots(), 3);
}

#[test]
fn v1_without_quota_says_minus_one() {
    let dir = tree(&[
        ("proc/self/cgroup", "4:cpu,cpuacct:/\n5:cpuset:/\n"),
        ("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n"),
        ("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n"),
        ("sys/devices/system/cpu/online", "0-7\n"),
    ]);
    let allowance = Allowance::read(dir.path(), &EIGHT[..3]);
    assert_eq!(allowance.quota_millis, None);
    assert_eq!(allowance.slots(), 3);
}

#[test]
fn nothing_readable_leaves_the_affinity() {
    let allowance = Allowance::read(Path::new("/nonexistent"), &[4, 5]);
    assert_eq!(allowance, Allowance { cpus: vec![4, 5], quota_millis: None, machine: 2 });
}

#[test]
fn a_tenth_of_a_cpu_is_still_a_slot() {
    let allowance = Allowance { cpus: vec![0, 1], quota_millis: Some(100), machine: 2 };
    assert_eq!(allowance.slots(), 1);
}

#[test]
fn shared_cpus_are_not_bound_unless_asked_for() {
    let shared = Allowance { cpus: vec![0, 1, 2, 3], quota_millis: None, machine: 4 };
    assert_eq!(shared.sets(Binding::Auto, 2, None, 0), [None, None]);
    // Asked for: the pods of one machine take turns.
    assert_eq!(shared.sets(Binding::Auto, 1, Some(1), 0), [Some(vec![0])]);
    assert_eq!(shared.sets(Binding::Auto, 1, Some(1), 3), [Some(vec![3])]);
    assert_eq!(shared.sets(Binding::Auto, 2, Some(1), 1), [Some(vec![2]), Some(vec![3])]);
    assert_eq!(shared.sets(Binding::None, 1, Some(1), 0), [None]);
}

#[test]
fn own_cpus_are_shared_out_evenly() {
    let own = Allowance { cpus: vec![2, 3, 4, 5, 6], quota_millis: None, machine: 8 };
    assert_eq!(own.sets(Binding::Auto, 2, None, 7), [Some(vec![2, 3]), Some(vec![4, 5])]);
    assert_eq!(own.sets(Binding::Auto, 3, Some(2), 0), [None, None, None]);
    assert_eq!(own.sets(Binding::Auto, 6, None, 0), vec![None; 6]);
}

#[test]
fn lists_of_the_kernel() {
    assert_eq!(parse_list("0-2,7"), Some(vec![0, 1, 2, 7]));
    assert_eq!(parse_list(""), None);
    assert_eq!(parse_list("3-1"), None);
    assert_eq!(parse_list("0-4294967295"), None);
}
