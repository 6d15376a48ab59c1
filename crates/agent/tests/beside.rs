//! srun, salloc and sbatch beside those of the Slurm of this machine: the same command lines, over a
//! cluster of real brokers and over a real slurmctld with three slurmd, on loopback. In continuous
//! integration Slurm must be there; elsewhere the test says that it is missing.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a test says by a panic what is wrong, and prints the logs of what it started"
)]

#[path = "../../slurm/tests/live/lab.rs"]
#[allow(dead_code, reason = "the test of sacct needs accounts as well")]
mod lab;
#[path = "cluster/pods.rs"]
#[allow(dead_code, reason = "the other tests of pods need the rest")]
mod pods;

use lab::Lab;
use pods::{AGENT, Plan, Pods};
use quorate_contract::config::Slots;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// What is asked of both: whether standard error counts as well as standard output and the code, and the
/// command line; words stand apart by `|` after the first one.
const LINES: &[(bool, &str)] = &[
    (true, "srun|-n1|echo|hello"),
    (true, "srun|-n3|-l|sh|-c|echo out $SLURM_PROCID; echo err $SLURM_LOCALID >&2"),
    (true, "srun|-n12|-l|sh|-c|echo $SLURM_PROCID of $SLURM_NTASKS"),
    (
        true,
        "srun|-N3|-n3|sh|-c|echo $SLURM_NODEID $SLURM_NNODES $SLURM_TASKS_PER_NODE $SLURM_STEP_ID",
    ),
    (true, "srun|-n2|-c2|sh|-c|echo $SLURM_CPUS_PER_TASK $SLURM_STEP_NUM_TASKS"),
    (false, "srun|-n3|sh|-c|exit $SLURM_PROCID"),
    (false, "srun|-n1|sh|-c|kill -9 $$"),
    (false, "srun|-n1|sh|-c|kill -TERM $$"),
    (true, "srun|-n4|-l|--multi-prog|many.conf"),
    (true, "srun|-n3|--multi-prog|twice.conf"),
    (true, "srun|-n3|--multi-prog|missing.conf"),
    (true, "srun|--multi-prog|nowhere.conf"),
    (true, "srun|--pty|-o|x|true"),
    (true, "srun|--jobid=9999|true"),
    (true, "salloc|-n2|sh|-c|echo $SLURM_NTASKS $SLURM_NNODES $SLURM_TASKS_PER_NODE; exit 7"),
    (true, "salloc|-N2|-n2|srun|-l|sh|-c|echo $SLURM_PROCID $SLURM_NODEID"),
    (true, "salloc|-Q|-n1|true"),
    (true, "salloc|-n1|sh|-c|kill -KILL $$"),
    (true, "salloc|-n1|sh|-c|kill -TERM $$"),
    (true, "sbatch|-W|-n1|-o|/dev/null|--wrap|exit 3"),
    (true, "sbatch|--parsable|-H|-n1|--wrap|true"),
    (true, "sbatch|-Q|-H|-n1|--wrap|true"),
    (true, "scontrol|write|batch_script|1|-"),
];

/// What cannot be the same is made the same: numbers of jobs, and the order in which tasks write.
fn leveled(text: &str, mark: &str) -> Vec<String> {
    let plain = |word: &str| {
        let digits = word.trim_end_matches('.');
        let number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        if number && digits != "9999" { word.replace(digits, "N") } else { word.to_owned() }
    };
    let line = |line: &str| {
        if line.starts_with("salloc: ") || line.starts_with(mark) {
            line.split(' ').map(plain).collect::<Vec<_>>().join(" ")
        } else {
            line.to_owned()
        }
    };
    let mut lines: Vec<String> = text.lines().filter(|line| !noise(line)).map(line).collect();
    lines.sort();
    lines
}

/// What brokers of these tests log; what Slurm says only if it is quick: that an allocation whose command
/// has ended is over; and what either says only if it is slow to have the nodes of the job before back.
fn noise(line: &str) -> bool {
    let logged = ["Z  INFO ", "Z DEBUG ", "Z  WARN "].iter().any(|level| line.contains(level));
    let waits = [" queued and waiting for resources", " has been allocated resources"];
    logged
        || line.ends_with("has been revoked.")
        || line.starts_with("salloc: Pending job allocation ")
        || waits.iter().any(|end| line.ends_with(end))
}

fn shown(output: &Output, errors: bool) -> (Option<i32>, Vec<String>, Vec<String>) {
    let text = |bytes: &[u8]| leveled(&String::from_utf8_lossy(bytes), "Submitted batch job ");
    let errors = if errors { text(&output.stderr) } else { Vec::new() };
    (output.status.code(), text(&output.stdout), errors)
}

fn ours(pods: &Pods, names: &Path, words: &[&str]) -> Output {
    let path = std::env::var("PATH").unwrap_or_default();
    let mut command = Command::new(names.join(words[0]));
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("SLURM")) {
        command.env_remove(name);
    }
    command
        .args(&words[1..])
        .env("PATH", format!("{}:{path}", names.display()))
        .env("QUORATE_SOCKET", pods.dir(0).join("agent.sock"))
        .current_dir(names)
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

#[test]
fn commands_do_as_those_of_the_slurm_of_this_machine() {
    if let Some(reason) = lab::missing() {
        assert!(std::env::var_os("CI").is_none(), "{reason}");
        println!("nothing was compared: {reason}");
        return;
    }
    let lab = Lab::start();
    let pods = Plan { slots: Slots::Fixed(4), ..Plan::new(3) }.start();
    pods.wait_running();
    let names = tempfile::tempdir().unwrap();
    for name in quorate_agent::queue::slurm::NAMES {
        symlink(AGENT, names.path().join(name)).unwrap();
    }
    for (file, text) in [
        (
            "many.conf",
            "# who runs what\n0 echo first %t %o\n1-2 sh -c 'echo middle %o'\n* echo last %t\n",
        ),
        ("twice.conf", "0-2 true\n2 false\n"),
        ("missing.conf", "0,2 true\n"),
    ] {
        fs::write(names.path().join(file), text).unwrap();
        fs::write(lab.path("work").join(file), text).unwrap();
    }
    let script = "#!/bin/sh\n#SBATCH -n 1\ntrue\n";
    for folder in [names.path().to_owned(), lab.path("work")] {
        fs::write(folder.join("job.sh"), script).unwrap();
    }
    // Job 1 of both, for those that ask about one.
    let first = ["sbatch", "-H", "job.sh"];
    assert_eq!(shown(&ours(&pods, names.path(), &first), true), shown(&lab.output(&first), true));
    let mut different = Vec::new();
    for (errors, line) in LINES {
        let words: Vec<&str> = line.split('|').collect();
        let (mine, theirs) = (ours(&pods, names.path(), &words), lab.output(&words));
        let (mine, theirs) = (shown(&mine, *errors), shown(&theirs, *errors));
        if mine != theirs {
            different.push(format!("{line}\n ours   {mine:?}\n theirs {theirs:?}"));
        }
    }
    assert!(different.is_empty(), "{}", different.join("\n"));
}
