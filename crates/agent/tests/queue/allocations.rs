//! salloc, steps from outside of a script, and what of Slurm's names is done to steps.

use crate::asking::wait_for;
use crate::slurm::Desk;
use crate::typing::{cluster, code, run, sorted, stderr, stdout, wait};
use std::fs;
use std::io::{BufRead as _, BufReader, Write};
use std::process::{Output, Stdio};

/// What salloc said; brokers of these tests log much beside it.
fn told(output: &Output) -> String {
    let text = stderr(output);
    text.split_inclusive('\n').filter(|line| line.starts_with("salloc: ")).collect()
}

/// The same without what is told of waiting: on a busy machine an allocation takes its time.
fn told_at_last(output: &Output) -> String {
    let waits = ["Pending job allocation", "queued and waiting", "has been allocated resources"];
    let is_wait = |line: &&str| waits.iter().any(|words| line.contains(words));
    told(output).split_inclusive('\n').filter(|line| !is_wait(line)).collect()
}

#[test]
fn an_allocation_is_told_and_its_steps_run_on_its_nodes() {
    let (pods, desk) = (cluster(3), Desk::new());
    let script = "echo $SLURM_JOB_ID $SLURM_NNODES $SLURM_NTASKS $SLURM_JOB_CPUS_PER_NODE; \
                  srun sh -c 'echo task $SLURM_PROCID of job $SLURM_JOB_ID on $SLURM_NODEID'; \
                  squeue -h -o '%i %j %T'; exit 5";
    let output = desk.run(&pods, 1, &["salloc", "-N2", "-n4", "-J", "mine", "sh", "-c", script]);
    assert_eq!(code(&output), 5, "{}", stderr(&output));
    let text = stdout(&output);
    let mut lines: Vec<&str> = text.lines().collect();
    lines[1..5].sort_unstable();
    let task = |rank: u32| format!("task {rank} of job 1 on {}", rank / 2);
    assert_eq!(lines[0], "1 2 4 2(x2)", "{text}");
    assert_eq!(lines[1..5], [0, 1, 2, 3].map(task));
    assert_eq!(lines[5..], ["1 mine RUNNING"]);
    let said = "salloc: Granted job allocation 1\nsalloc: Relinquishing job allocation 1\n";
    assert_eq!(told_at_last(&output), said);
    assert_eq!(wait_for(&pods, 1, "completed")["code"], 0);
    // A shell without a command, its words on standard input; -Q says nothing.
    let mut command = desk.command(&pods, 0, &["salloc", "-Q", "-n1"]);
    command.env("SHELL", "/bin/sh").stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"echo $SLURM_JOB_ID $SLURM_JOB_NAME\n").unwrap();
    let output = child.wait_with_output().unwrap();
    let said = (code(&output), stdout(&output), told(&output));
    assert_eq!(said, (0, "2 interactive\n".to_owned(), String::new()));
}

#[test]
fn launchers_in_an_allocation_find_its_nodes_and_no_others() {
    let (pods, desk) = (cluster(3), Desk::new());
    let script = "cat $OMPI_MCA_orte_default_hostfile; echo; cat $HYDRA_HOST_FILE; \
                  echo $OMPI_MCA_plm; $OMPI_MCA_plm_rsh_agent \
                  $(scontrol show hostnames | tail -n 1) 'echo reached $QUORATE_BROKER_RANK'";
    let output = desk.run(&pods, 0, &["salloc", "-Q", "-N2", "-n3", "sh", "-c", script]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let text = stdout(&output);
    let (hosts, rest) = text.split_once("\n\n").unwrap();
    assert_eq!(hosts.lines().count(), 2, "{text}");
    assert!(hosts.lines().all(|line| line.contains(" slots=")), "{text}");
    assert!(rest.ends_with("rsh\nreached 1\n"), "{text}");
}

#[test]
fn an_allocation_waits_is_given_up_or_revoked() {
    let (pods, desk) = (cluster(2), Desk::new());
    desk.says(&pods, &["sbatch", "-n4", "--wrap", "sleep 1000"]);
    wait_for(&pods, 1, "RUN");
    let output = desk.run(&pods, 0, &["salloc", "-n4", "-I1", "true"]);
    assert_eq!(code(&output), 1);
    let busy = "salloc: error: Unable to allocate resources: Requested nodes are busy\n";
    assert!(told(&output).ends_with(busy), "{}", stderr(&output));
    // Who starts these tests with nohup has SIGHUP ignored by everything below.
    let patient = ["salloc", "-n4", "env", "--default-signal=HUP", "sleep", "1000"];
    let mut command = desk.command(&pods, 0, &patient);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    // A wait is told once it takes long.
    let mut said = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    let mut lines = Vec::new();
    while !lines.last().is_some_and(|line: &String| line.ends_with("waiting for resources")) {
        let line = said.next().unwrap_or_else(|| panic!("it ended after {lines:?}"));
        lines.extend(Some(line).filter(|line| line.starts_with("salloc: ")));
    }
    desk.says(&pods, &["scancel", "1"]);
    wait("the shell", || {
        desk.says(&pods, &["squeue", "-h", "-j3", "-o", "%t"]).starts_with('R').then_some(())
    });
    // Its command gets SIGHUP when it has lost its nodes.
    wait("the command", || {
        let of = format!("/proc/{}/task/{0}/children", child.id());
        let children = fs::read_to_string(of).unwrap_or_default();
        let name = |pid: &str| fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        children.split_whitespace().any(|pid| name(pid) == "sleep\n").then_some(())
    });
    desk.says(&pods, &["scancel", "3"]);
    assert_eq!(child.wait().unwrap().code(), Some(0));
    lines.extend(said.filter(|line| line.starts_with("salloc: ")));
    let all = [
        "salloc: Pending job allocation 3",
        "salloc: job 3 queued and waiting for resources",
        "salloc: job 3 has been allocated resources",
        "salloc: Granted job allocation 3",
        "salloc: Job allocation 3 has been revoked.",
    ];
    assert_eq!(lines, all);
    let output = desk.run(&pods, 0, &["salloc", "-N9", "true"]);
    let why = told(&output);
    assert!(
        code(&output) == 1 && why.starts_with("salloc: error: Job submit/allocate failed: "),
        "{why}"
    );
}

#[test]
fn steps_run_in_the_allocation_that_is_named() {
    let (pods, desk) = (cluster(3), Desk::new());
    desk.says(&pods, &["salloc", "-N2", "-n2", "--no-shell"]);
    let script = "echo $SLURM_JOB_ID.$SLURM_STEP_ID $SLURM_PROCID of $SLURM_NTASKS";
    let output = desk.run(&pods, 2, &["srun", "--jobid=1", "sh", "-c", script]);
    assert_eq!(
        (code(&output), sorted(&output)),
        (0, ["1.0 0 of 2", "1.0 1 of 2"].map(str::to_owned).into())
    );
    let output = desk.run(&pods, 0, &["srun", "--jobid=1", "-n1", "sh", "-c", script]);
    assert_eq!(
        (code(&output), stdout(&output).as_str()),
        (0, "1.1 0 of 1\n"),
        "{}",
        stderr(&output)
    );
    desk.says(&pods, &["scancel", "1"]);
    wait_for(&pods, 1, "INACTIVE");
    for (job, why) in [
        (
            "99",
            "Invalid job id specified\nsrun: Check SLURM_JOB_ID environment variable. Expired or invalid job 99\n",
        ),
        ("1", "Job/step already completing or completed\n"),
    ] {
        let output = desk.run(&pods, 0, &["srun", "--jobid", job, "true"]);
        let said = format!("srun: error: Unable to confirm allocation for job {job}: {why}");
        assert_eq!((code(&output), stderr(&output)), (1, said));
    }
}

#[test]
fn ranks_of_one_job_run_different_programs() {
    let (pods, desk) = (cluster(2), Desk::new());
    fs::write(
        desk.path().join("many.conf"),
        "# all\n1,3 echo task:%t\n0 sh -c 'echo first; exit 3' %o\n* echo other\n",
    )
    .unwrap();
    let output = desk.run(&pods, 1, &["srun", "-n4", "-l", "--multi-prog", "many.conf"]);
    let lines = ["0: first", "1: task:1", "2: other", "3: task:3"].map(str::to_owned);
    assert_eq!((code(&output), sorted(&output)), (3, lines.into()), "{}", stderr(&output));
    let output = desk.run(&pods, 1, &["srun", "-n4", "--multi-prog", "none.conf"]);
    let said = "srun: error: Could not open multi_prog config file none.conf\n";
    assert_eq!((code(&output), stderr(&output).as_str()), (1, said));
}

#[test]
fn steps_are_listed_and_ended_alone() {
    let (pods, desk) = (cluster(2), Desk::new());
    let text =
        "#!/bin/sh\nsrun -n1 true\nsrun -n1 -J long sleep 1000\necho $? >ended\nexec sleep 1000\n";
    fs::write(desk.path().join("job.sh"), text).unwrap();
    desk.says(&pods, &["sbatch", "-n2", "-J", "steps", "job.sh"]);
    let steps = || desk.says(&pods, &["squeue", "-h", "-s", "-o", "%i %j"]);
    let shown = wait("the second step", || Some(steps()).filter(|text| text.contains("1.1 ")));
    assert_eq!(shown, "1.1 long\n1.batch batch\n");
    let told = desk.says(&pods, &["sacct", "-n", "-P", "-o", "JobID,JobName,State"]);
    assert_eq!(
        told,
        "1|steps|RUNNING\n1.batch|batch|RUNNING\n1.0|true|COMPLETED\n1.1|long|RUNNING\n"
    );
    let output = desk.run(&pods, 0, &["scancel", "1.7"]);
    assert!(code(&output) == 1 && stderr(&output).contains("1.7"), "{}", stderr(&output));
    desk.says(&pods, &["scancel", "1.1"]);
    let ended = wait("the end of the step", || {
        fs::read_to_string(desk.path().join("ended")).ok().filter(|text| !text.is_empty())
    });
    assert_eq!(ended, "143\n");
    assert_eq!(wait_for(&pods, 1, "RUN")["state"], "RUN");
    desk.says(&pods, &["scancel", "1"]);
    wait_for(&pods, 1, "INACTIVE");
    let told = desk.says(&pods, &["sacct", "-n", "-P", "-o", "JobID,State"]);
    // The steps of a job that is over are still known, until the job is forgotten.
    let steps = "1|CANCELLED by 0\n1.batch|CANCELLED\n1.0|COMPLETED\n1.1|CANCELLED\n";
    let told = told.replace(&format!("by {}", nix::unistd::getuid()), "by 0");
    assert_eq!(told, steps);
    // srun outside of a script is its job's one step.
    desk.says(&pods, &["srun", "-n2", "true"]);
    let told = desk.says(&pods, &["sacct", "-n", "-P", "-j2", "-o", "JobID,State,NTasks"]);
    assert_eq!(told, "2|COMPLETED|\n2.0|COMPLETED|2\n");
}

#[test]
fn who_cancels_is_asked_first_if_that_is_wanted() {
    let (pods, desk) = (cluster(2), Desk::new());
    desk.says(&pods, &["sbatch", "-H", "-J", "one", "--wrap", "true"]);
    desk.says(&pods, &["sbatch", "-H", "-J", "two", "--wrap", "true"]);
    let mut command = desk.command(&pods, 0, &["scancel", "-i", "1", "2"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"what\nn\ny\n").unwrap();
    let output = child.wait_with_output().unwrap();
    let one = "Cancel job_id=1 name=one partition=default [y/n]? ";
    let asked = format!("{one}{one}Cancel job_id=2 name=two partition=default [y/n]? ");
    assert_eq!((code(&output), stdout(&output)), (0, asked), "{}", stderr(&output));
    assert_eq!(desk.says(&pods, &["squeue", "-h", "-o", "%i"]), "1\n");
}

#[test]
fn a_script_is_written_and_the_limit_of_an_array_changed() {
    let (pods, desk) = (cluster(2), Desk::new());
    let text = "#!/bin/sh\n#SBATCH -J kept\nsleep 1000\n";
    fs::write(desk.path().join("job.sh"), text).unwrap();
    desk.says(&pods, &["sbatch", "-a", "0-5%1", "job.sh"]);
    wait_for(&pods, 1, "RUN");
    let said = desk.says(&pods, &["scontrol", "write", "batch_script", "1"]);
    assert_eq!(said, "batch script for job 1 written to slurm-1.sh\n");
    assert_eq!(fs::read_to_string(desk.path().join("slurm-1.sh")).unwrap(), text);
    assert_eq!(desk.says(&pods, &["scontrol", "write", "batch_script", "1", "-"]), text);
    desk.says(&pods, &["scontrol", "update", "JobId=1", "ArrayTaskThrottle=3"]);
    wait_for(&pods, 3, "RUN");
    assert_eq!(desk.says(&pods, &["squeue", "-h", "-t", "R", "-o", "%i"]).lines().count(), 3);
    assert_eq!(desk.says(&pods, &["squeue", "-h", "-t", "PD", "-o", "%i"]), "1_[3-5%3]\n");
}

#[test]
fn the_steps_of_a_job_that_is_over_are_told_after_a_restart_too() {
    let (pods, desk) = (cluster(2), Desk::new());
    let text = "#!/bin/sh\nsrun -n2 -J good true\nsrun -n1 -J bad sh -c 'exit 4'\nexit 0\n";
    fs::write(desk.path().join("job.sh"), text).unwrap();
    desk.says(&pods, &["sbatch", "--wait", "-n2", "-J", "steps", "job.sh"]);
    let told =
        || desk.says(&pods, &["sacct", "-n", "-P", "-o", "JobID,JobName,State,ExitCode,NTasks"]);
    let want = "1|steps|COMPLETED|0:0|\n1.batch|batch|COMPLETED|0:0|1\n\
                1.0|good|COMPLETED|0:0|2\n1.1|bad|FAILED|4:0|1\n";
    assert_eq!(told(), want);
    let output = desk.run(&pods, 0, &["sacct", "-n", "-P", "-j", "1.1", "-o", "JobID"]);
    assert_eq!(stdout(&output), "1.1\n");
    crate::durability::restart(&pods);
    assert_eq!(told(), want);
    let info = run(&pods, 1, &["info", "1"]);
    assert!(stdout(&info).contains("step      1  bad  failed with 4"), "{}", stdout(&info));
}
