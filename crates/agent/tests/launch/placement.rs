//! The program of a cluster, and the proof of where it ran.

use crate::pods::{AGENT, Plan};
use crate::typing::Marks;
use quorate_contract::config::{Parallel, Program, Slots};
use quorate_contract::report::Reason;
use std::fs;
use std::os::unix::fs::PermissionsExt;

fn parallel(argv: &[&str], tasks: Option<u32>) -> Plan {
    let argv = argv.iter().map(|word| (*word).to_string()).collect();
    let program = Program::Parallel(Parallel { argv, tasks, ..Parallel::default() });
    Plan { slots: Slots::Fixed(2), program, ..Plan::new(3) }
}

#[test]
fn a_parallel_program_uses_all_pods_and_the_report_shows_it() {
    let show = "echo $QUORATE_TASK_RANK on $QUORATE_BROKER_RANK";
    let mut pods = parallel(&["sh", "-c", show], Some(3)).start();
    assert_eq!(pods.wait_exit(0), 0);
    let mut lines: Vec<String> = pods.stdout(0).lines().map(str::to_owned).collect();
    lines.sort();
    assert_eq!(lines, ["0 on 0", "1 on 1", "2 on 2"]);
    let placement = pods.report(0).placement.unwrap();
    assert_eq!((placement.planned_pods, placement.actual_pods, placement.tasks), (3, 3, 3));
    assert_eq!(placement.tasks_by_pod, "3x1");
    assert_eq!(placement.wire.into_iter().collect::<Vec<_>>(), [("none".to_string(), 3)]);
    for rank in 1..3 {
        assert_eq!(pods.wait_exit(rank), 0);
    }
}

#[test]
fn a_failing_rank_is_in_the_report_with_its_last_lines() {
    let script = "echo reading $QUORATE_TASK_RANK; test $QUORATE_TASK_RANK = 4 && kill -SEGV $$; \
                  exec sleep 1000";
    let mut pods = parallel(&["sh", "-c", script], None).start();
    assert_eq!(pods.wait_exit(0), 139);
    let report = pods.report(0);
    let failure = report.failure.unwrap();
    assert_eq!(report.reason, Reason::Signaled);
    assert_eq!((failure.rank, failure.broker, failure.signal), (Some(4), Some(2), Some(11)));
    assert_eq!(failure.pod.as_deref(), Some("worker-0-1"));
    assert_eq!(failure.log_tail, ["reading 4"]);
    assert_eq!(report.placement.unwrap().tasks_by_pod, "3x2");
}

#[test]
fn more_tasks_than_slots_fail_with_the_way_out() {
    let mut pods = parallel(&["true"], Some(7)).start();
    assert_eq!(pods.wait_exit(0), 1);
    let report = pods.report(0);
    assert_eq!(report.reason, Reason::Infeasible);
    assert!(report.message.contains("--oversubscribe"), "{}", report.message);
}

/// A launcher that starts ranks as mpirun does, on its own pod alone, after what is in `before`.
fn launcher(marks: &Marks, ranks: u32, before: &str) -> String {
    let path = marks.path("mpirun");
    let text = format!(
        "#!/bin/sh\n{before}\ni=0; while [ $i -lt {ranks} ]; do \
         OMPI_COMM_WORLD_RANK=$i OMPI_COMM_WORLD_SIZE={ranks} sleep 1.5 & i=$((i+1)); done\nwait\n"
    );
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path.display().to_string()
}

fn script(marks: &Marks, ranks: u32, before: &str) -> Plan {
    let script = format!("{}; echo done", launcher(marks, ranks, before));
    Plan { slots: Slots::Fixed(2), ..Plan::script(3, &script) }
}

#[test]
fn mpirun_on_one_pod_is_a_failure_even_when_it_ends_with_0() {
    let marks = Marks::new();
    let mut pods = script(&marks, 6, "").start();
    assert_eq!(pods.wait_exit(0), 65);
    let report = pods.report(0);
    assert_eq!(report.reason, Reason::WrongPlacement);
    assert!(report.message.contains("all 6 ranks"), "{}", report.message);
    let placement = report.placement.unwrap();
    assert_eq!((placement.planned_pods, placement.actual_pods, placement.tasks), (3, 1, 6));
}

#[test]
fn mpirun_that_reached_other_pods_is_in_order() {
    let marks = Marks::new();
    let before = format!("{AGENT} rsh t-worker-0-0 true");
    let mut pods = script(&marks, 6, &before).start();
    assert_eq!(pods.wait_exit(0), 0, "{:?}", pods.report(0));
}

#[test]
fn mpirun_that_fits_its_pod_is_in_order() {
    let marks = Marks::new();
    let mut pods = script(&marks, 2, "").start();
    assert_eq!(pods.wait_exit(0), 0, "{:?}", pods.report(0));
}

#[test]
fn a_script_has_what_launchers_need_and_nothing_of_a_rank() {
    let show = "cat $OMPI_MCA_orte_default_hostfile $HYDRA_HOST_FILE; \
                test -x $OMPI_MCA_plm_rsh_agent && echo agent; \
                env | grep -c -e ^PMI -e ^JSM -e ^OMPI_COMM; \
                $HYDRA_LAUNCHER_EXEC -x t-worker-0-1 echo '$QUORATE_BROKER_RANK'";
    let mut pods = Plan { slots: Slots::Fixed(2), ..Plan::script(3, show) }.start();
    assert_eq!(pods.wait_exit(0), 0, "{}", pods.stderr(0));
    assert_eq!(
        pods.stdout(0),
        "t-launcher-0-0 slots=2\nt-worker-0-0 slots=2\nt-worker-0-1 slots=2\n\
         t-launcher-0-0:2\nt-worker-0-0:2\nt-worker-0-1:2\nagent\n0\n2\n"
    );
}

#[test]
fn a_script_that_runs_a_direct_launch_gets_its_code() {
    let show = format!("{AGENT} run -N3 sh -c 'exit $QUORATE_TASK_RANK'");
    let mut pods = Plan { slots: Slots::Fixed(2), ..Plan::script(3, &show) }.start();
    assert_eq!(pods.wait_exit(0), 2);
    assert_eq!(pods.report(0).reason, Reason::ProgramFailed);
}
