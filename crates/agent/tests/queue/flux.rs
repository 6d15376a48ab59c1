//! The agent under the name of Flux.

use crate::asking::wait_for;
use crate::pods::Pods;
use crate::slurm::Desk;
use crate::typing::{cluster, code, sorted, stderr, stdout, wait};
use std::fs;

fn says(desk: &Desk, pods: &Pods, words: &[&str]) -> String {
    let output = desk.run(pods, 1, &[&["flux"], words].concat());
    assert_eq!(code(&output), 0, "{words:?}: {}", stderr(&output));
    stdout(&output)
}

#[test]
fn jobs_are_submitted_listed_waited_for_and_cancelled() {
    let (pods, desk) = (cluster(2), Desk::new());
    let flux = |words: &[&str]| says(&desk, &pods, words);
    let first = flux(&["submit", "-N2", "-n4", "--job-name=wide", "sleep", "1000"]);
    assert_eq!(first, "ƒ2\n");
    wait_for(&pods, 1, "RUN");
    assert_eq!(
        flux(&["submit", "-n1", "--cores-per-task=2", "-t", "5m", "sh", "-c", "exit 3"]),
        "ƒ3\n"
    );
    let user = flux(&["jobs", "-n", "-o", "{username}", "ƒ2"]);
    let shown = flux(&[
        "jobs",
        "-o",
        "{id.f58:>12} {name:<10.10} {status_abbrev:>2} {ntasks:>6} {nnodes:>6h} {contextual_info}",
    ]);
    let expected = "       JOBID NAME       ST NTASKS NNODES INFO\n\
                    \u{20}         ƒ3 sh          S      1      - \n\
                    \u{20}         ƒ2 wide        R      4      2 launcher-0-0,worker-0-0\n";
    assert_eq!(shown.replace("eta:", ""), expected);
    let default = flux(&["jobs"]);
    let head = "       JOBID USER     NAME       ST NTASKS NNODES     TIME INFO\n";
    assert!(default.starts_with(head) && default.contains(user.trim()), "{default}");
    // As Nextflow asks.
    let asked =
        flux(&["jobs", "--suppress-header", "--format={id.f58} {status_abbrev}", "--since=-15m"]);
    assert_eq!(asked, "ƒ3 S\nƒ2 R\n");
    flux(&["cancel", "ƒ2"]);
    let output = desk.run(&pods, 0, &["flux", "job", "status", "f3"]);
    assert_eq!(code(&output), 3, "{}", stderr(&output));
    assert_eq!(code(&desk.run(&pods, 0, &["flux", "job", "wait", "2"])), 1);
    wait_for(&pods, 1, "INACTIVE");
    assert_eq!(
        flux(&["jobs", "-a", "-n", "-o", "{id.dec} {result} {returncode}"]),
        "2 FAILED 3\n1 CANCELED 143\n"
    );
    assert_eq!(flux(&["job", "id", "--to=dec", "ƒ3"]), "2\n");
    assert_eq!(flux(&["job", "last"]), "ƒ3\n");
    let output = desk.run(&pods, 0, &["flux", "submit", "-o", "nonsense", "true"]);
    assert!(code(&output) == 1 && stderr(&output).contains("-o nonsense"), "{}", stderr(&output));
}

#[test]
fn a_run_shows_its_output_and_tasks_know_their_place() {
    let (pods, desk) = (cluster(2), Desk::new());
    let script = "echo $FLUX_JOB_ID $FLUX_TASK_RANK of $FLUX_JOB_SIZE; exit $FLUX_TASK_RANK";
    let output = desk.run(&pods, 1, &["flux", "run", "-n2", "-l", "sh", "-c", script]);
    let lines = ["0: ƒ2 0 of 2", "1: ƒ2 1 of 2"].map(str::to_owned);
    assert_eq!((code(&output), sorted(&output)), (1, lines.into()), "{}", stderr(&output));
    let id = says(
        &desk,
        &pods,
        &["submit", "--setattr=user.kind=test", "--flags=waitable", "echo", "kept"],
    );
    assert_eq!(says(&desk, &pods, &["job", "attach", id.trim()]), "kept\n");
}

#[test]
fn a_script_has_an_instance_of_its_own_with_the_name_in_it() {
    let (pods, desk) = (cluster(2), Desk::new());
    let text = "#!/bin/sh\n# flux: -N2 -n4\n#FLUX: --job-name=nested\n\
                flux run -N2 -n4 sh -c 'echo task $FLUX_TASK_RANK'\n\
                flux jobs -a -n -o '{id.f58} {status}'\n";
    fs::write(desk.path().join("job.sh"), text).unwrap();
    assert_eq!(says(&desk, &pods, &["batch", "job.sh"]), "ƒ2\n");
    assert_eq!(wait_for(&pods, 1, "INACTIVE")["name"], "nested");
    let said = wait("its output", || fs::read_to_string(desk.path().join("flux-1.out")).ok());
    let mut lines: Vec<&str> = said.lines().filter(|line| !line.contains("Z ")).collect();
    lines[..4].sort_unstable();
    assert_eq!(lines, ["task 0", "task 1", "task 2", "task 3", "ƒ2 COMPLETED"], "{said}");
}

#[test]
fn queues_and_resources_are_told_and_changed() {
    let (pods, desk) = (cluster(2), Desk::new());
    let flux = |words: &[&str]| says(&desk, &pods, words);
    assert_eq!(flux(&["queue", "status"]), "Job submission is enabled\nScheduling is started\n");
    flux(&["queue", "disable", "-m", "maintenance"]);
    assert!(flux(&["queue", "status"]).starts_with("Job submission is disabled: maintenance\n"));
    let output = desk.run(&pods, 0, &["flux", "submit", "true"]);
    assert!(code(&output) == 1 && stderr(&output).contains("maintenance"), "{}", stderr(&output));
    flux(&["queue", "enable"]);
    flux(&["resource", "drain", "1", "disk", "full"]);
    let expected = "     STATE NNODES NODELIST\n     avail      1 launcher-0-0\n   drained      1 worker-0-0\n";
    assert_eq!(flux(&["resource", "status"]), expected);
    flux(&["resource", "undrain", "1"]);
    let list = flux(&["resource", "list"]);
    let head = "     STATE NNODES   NCORES    NGPUS NODELIST\n      free      2        4        0 ";
    assert!(list.starts_with(head), "{list}");
}
