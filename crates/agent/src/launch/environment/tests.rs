use super::*;

fn variables(pairs: &[(&str, &str)]) -> Variables {
    pairs.iter().map(|(n, v)| ((*n).into(), (*v).into())).collect()
}

#[test]
fn changes_travel_and_each_pod_keeps_its_own() {
    let here = variables(&[("POD_IP", "10.0.0.1"), ("PATH", "/bin"), ("GONE", "1")]);
    let user = variables(&[("POD_IP", "10.0.0.1"), ("PATH", "/opt/bin:/bin"), ("NEW", "x")]);
    let difference = Difference::between(&here, &user);
    let there = variables(&[("POD_IP", "10.0.0.2"), ("PATH", "/bin"), ("GONE", "1")]);
    assert_eq!(
        difference.over(&there),
        variables(&[("POD_IP", "10.0.0.2"), ("PATH", "/opt/bin:/bin"), ("NEW", "x")])
    );
}

#[test]
fn a_launch_inside_a_launch_does_not_see_the_outer_one() {
    let pod = variables(&[]);
    let user = variables(&[
        ("PMI_FD", "7"),
        ("PMIX_RANK", "1"),
        ("JSM_JSRUN_PORT", "1"),
        ("OMPI_COMM_WORLD_RANK", "3"),
        ("QUORATE_BROKER_RANK", "2"),
        ("HOSTNAME", "a"),
        ("OMPI_MCA_btl", "tcp,self"),
    ]);
    let difference = Difference::between(&pod, &user);
    assert_eq!(difference.over(&pod), variables(&[("OMPI_MCA_btl", "tcp,self")]));
    assert_eq!(Difference::default().over(&user).get(OsStr::new("PMI_FD")), None);
}

#[test]
fn rules_set_take_and_remove() {
    let user = variables(&[("HOME", "/home/a")]);
    let mut difference = Difference::adding(&[("A".into(), "1".into()), ("B".into(), "1".into())]);
    for rule in ["A=2=3", "HOME", "-B", "-C", "MISSING"] {
        difference.rule(rule, &user);
    }
    let there = difference.over(&variables(&[("C", "x"), ("D", "y")]));
    assert_eq!(there, variables(&[("A", "2=3"), ("HOME", "/home/a"), ("D", "y")]));
}

#[test]
fn what_the_user_set_for_mpi_wins() {
    let standing = Standing {
        job: "1",
        rank: 5,
        size: 8,
        node: 1,
        beside: &[2, 3],
        local_rank: 1,
        cpus_per_task: Some(2),
        crowded: true,
    };
    let mut all =
        variables(&[("OMPI_MCA_mpi_yield_when_idle", "0"), ("FI_PROVIDER", "verbs;ofi_rxm")]);
    task(&standing, &mut all);
    assert_eq!(all[OsStr::new("FI_PROVIDER")], "verbs;ofi_rxm");
    assert_eq!(all[OsStr::new("OMPI_MCA_mpi_yield_when_idle")], "0");
    assert_eq!(all[OsStr::new("OMP_NUM_THREADS")], "2");
    assert_eq!(all[OsStr::new("QUORATE_TASK_RANK")], "5");
    assert_eq!(all[OsStr::new("QUORATE_TASK_LOCAL_RANK")], "1");
}

#[test]
fn mpich_does_not_spin_in_mpi_init_for_a_provider_that_loses_messages() {
    let standing = Standing {
        job: "1",
        rank: 0,
        size: 2,
        local_rank: 0,
        node: 0,
        beside: &[0, 1],
        cpus_per_task: None,
        crowded: false,
    };
    let mut all = variables(&[]);
    task(&standing, &mut all);
    assert_eq!(all[OsStr::new("FI_PROVIDER")], "^sockets");
}

#[test]
fn a_step_of_slurms_knows_its_ranks_by_slurms_names() {
    let beside = [2, 3];
    let standing = Standing {
        job: "1",
        rank: 3,
        size: 4,
        local_rank: 1,
        node: 1,
        beside: &beside,
        cpus_per_task: None,
        crowded: false,
    };
    let mut all = Variables::new();
    task(&standing, &mut all);
    assert!(!all.keys().any(|name| name.to_string_lossy().starts_with("SLURM")), "{all:?}");
    for name in ["QUORATE_SLURM", "SLURM_STEP_ID"] {
        all.insert(name.into(), "1".into());
    }
    task(&standing, &mut all);
    for (name, value) in [("PROCID", "3"), ("LOCALID", "1"), ("NODEID", "1"), ("GTIDS", "2,3")] {
        assert_eq!(all[OsStr::new(&format!("SLURM_{name}"))], *value);
    }
}
