//! The agent under Slurm's names.

use crate::asking::wait_for;
use crate::pods::{AGENT, Pods};
use crate::typing::{cluster, code, stderr, stdout, wait};
use quorate_agent::queue::slurm::NAMES;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Output};

/// A directory of links by Slurm's names, where commands are typed.
pub(crate) struct Desk {
    dir: tempfile::TempDir,
}

impl Desk {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        for name in NAMES {
            symlink(AGENT, dir.path().join(name)).unwrap();
        }
        Self { dir }
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) fn run(&self, pods: &Pods, rank: u32, words: &[&str]) -> Output {
        self.command(pods, rank, words).output().unwrap()
    }

    /// A command, as it is typed in a pod.
    pub(crate) fn command(&self, pods: &Pods, rank: u32, words: &[&str]) -> Command {
        let path = std::env::var("PATH").unwrap_or_default();
        let mut command = Command::new(self.path().join(words[0]));
        command
            .args(&words[1..])
            .env("PATH", format!("{}:{path}", self.path().display()))
            .env("QUORATE_SOCKET", pods.dir(rank).join("agent.sock"))
            .env("TZ", "UTC")
            .current_dir(self.path());
        command
    }

    /// What a command prints when all is well.
    pub(crate) fn says(&self, pods: &Pods, words: &[&str]) -> String {
        let output = self.run(pods, 1, words);
        assert_eq!(code(&output), 0, "{words:?}: {}", stderr(&output));
        stdout(&output)
    }
}

#[test]
fn a_batch_script_written_for_slurm_runs_unchanged() {
    let (pods, desk) = (cluster(3), Desk::new());
    let text = "#!/bin/sh -e\n\
                #SBATCH --nodes=2 --ntasks=4\n\
                #SBATCH -J relax -t 10 --output=out-%x-%j.txt\n\
                \n\
                echo \"$SLURM_JOB_ID $SLURM_JOB_NAME $SLURM_NTASKS $SLURM_JOB_NUM_NODES $1\"\n\
                scontrol show hostnames\n\
                srun sh -c 'echo $SLURM_PROCID of $SLURM_NTASKS on $SLURM_NODEID'\n\
                squeue -h -o '%i %j %T %D'\n\
                exit 3\n";
    fs::write(desk.path().join("job.sh"), text).unwrap();
    assert_eq!(desk.says(&pods, &["sbatch", "job.sh", "fine"]), "Submitted batch job 1\n");
    let job = wait_for(&pods, 1, "INACTIVE");
    let said = fs::read_to_string(desk.path().join("out-relax-1.txt")).unwrap_or_default();
    // Brokers of these tests log much, into the job's output too.
    let mut lines: Vec<&str> = said.lines().filter(|line| !line.contains("Z ")).collect();
    assert_eq!(job["code"], 3, "{said}");
    let hosts: Vec<String> = ["0", "1"]
        .map(|at| format!("t-{}", job["pods"][at.parse::<usize>().unwrap()].as_str().unwrap()))
        .into();
    assert_eq!(lines[..3], ["1 relax 4 2 fine", &hosts[0], &hosts[1]], "{said}");
    lines[3..7].sort_unstable();
    assert_eq!(lines[3..7], ["0 of 4 on 0", "1 of 4 on 0", "2 of 4 on 1", "3 of 4 on 1"], "{said}");
    assert_eq!(lines[7..], ["1 relax RUNNING 2"], "{said}");
    let told = desk.says(&pods, &["sacct", "-X", "-n", "-P", "-o", "JobID,JobName,State,ExitCode"]);
    assert_eq!(told, "1|relax|FAILED|3:0\n");
}

#[test]
fn jobs_are_shown_held_and_cancelled() {
    let (pods, desk) = (cluster(2), Desk::new());
    let submit = |words: &[&str]| desk.says(&pods, &[&["sbatch", "--parsable"], words].concat());
    assert_eq!(submit(&["-N2", "-n4", "--wrap", "sleep 1000"]), "1\n");
    wait_for(&pods, 1, "RUN");
    assert_eq!(submit(&["-n4", "-J", "next", "--wrap", "true"]), "2\n");
    assert_eq!(submit(&["--dependency=afterok:2", "-J", "last", "--wrap", "true"]), "3\n");
    let format = "%i %j %t %r";
    let told = desk.says(&pods, &["squeue", "-h", "-S", "i", "-o", format]);
    assert_eq!(told, "1 wrap R None\n2 next PD Resources\n3 last PD Dependency\n");
    desk.says(&pods, &["scontrol", "hold", "2"]);
    let told = desk.says(&pods, &["squeue", "-h", "-j", "2", "-o", format]);
    assert_eq!(told, "2 next PD JobHeldUser\n");
    desk.says(&pods, &["scontrol", "release", "2"]);
    desk.says(&pods, &["scancel", "1"]);
    wait("all jobs to end", || desk.says(&pods, &["squeue", "-h"]).is_empty().then_some(()));
    let told = desk.says(&pods, &["sacct", "-X", "-n", "-P", "-o", "JobID,State"]);
    assert!(told.starts_with("1|CANCELLED"), "{told}");
    assert!(told.ends_with("2|COMPLETED\n3|COMPLETED\n"), "{told}");
    let told = desk.says(&pods, &["sinfo", "-h", "-o", "%D %t"]);
    assert_eq!(told, "2 idle\n");
}

#[test]
fn jobs_of_an_array_know_how_many_there_are() {
    let (pods, desk) = (cluster(2), Desk::new());
    let line = "echo $SLURM_ARRAY_JOB_ID $SLURM_ARRAY_TASK_ID $SLURM_ARRAY_TASK_COUNT \
                $SLURM_ARRAY_TASK_MIN $SLURM_ARRAY_TASK_MAX $SLURM_ARRAY_TASK_STEP";
    desk.says(&pods, &["sbatch", "-a", "2-10:4%1", "-o", "%A_%a.txt", "-W", "--wrap", line]);
    for index in ["2", "6", "10"] {
        let said = fs::read_to_string(desk.path().join(format!("1_{index}.txt"))).unwrap();
        assert!(said.lines().any(|line| line == format!("1 {index} 3 2 10 4")), "{said}");
    }
}

#[test]
fn steps_of_a_script_know_its_job_and_their_own_number() {
    let (pods, desk) = (cluster(2), Desk::new());
    assert_eq!(desk.says(&pods, &["sbatch", "--parsable", "-H", "--wrap", "true"]), "1\n");
    let show = "echo job $SLURM_JOB_ID $SLURM_JOBID $SLURM_ARRAY_TASK_ID $SLURM_JOB_NAME \
                $SLURM_JOB_NUM_NODES, step $SLURM_STEP_ID $SLURM_STEP_NUM_NODES";
    let text = format!("#!/bin/sh\nsrun true\nsrun -N1 -n1 sh -c '{show}'\n");
    fs::write(desk.path().join("job.sh"), text).unwrap();
    let words = ["sbatch", "-W", "-N2", "-n2", "-a", "7", "-J", "wide", "-o", "out.txt", "job.sh"];
    desk.says(&pods, &words);
    let said = fs::read_to_string(desk.path().join("out.txt")).unwrap();
    assert!(said.lines().any(|line| line == "job 2 2 7 wide 2, step 1 1"), "{said}");
}

#[test]
fn signals_go_to_steps_to_the_script_or_to_both() {
    let (pods, desk) = (cluster(2), Desk::new());
    // The script ends when it, and its step, have both heard what was for them.
    let text = "#!/bin/bash\n\
                trap 'echo script USR1' USR1\n\
                trap 'echo script USR2; over=1' USR2\n\
                srun -n1 bash -c 'trap \"echo step USR1\" USR1; trap \"exit 0\" USR2; echo up >up; \
                while :; do sleep 0.02; done' &\n\
                until [ \"$over\" ]; do sleep 0.02; done\n\
                wait\nexit 0\n";
    fs::write(desk.path().join("job.sh"), text).unwrap();
    desk.says(&pods, &["sbatch", "-n1", "-o", "out.txt", "job.sh"]);
    wait("the step", || fs::read(desk.path().join("up")).ok().filter(|up| !up.is_empty()));
    let heard = |what: &str| {
        wait(what, || {
            let said = fs::read_to_string(desk.path().join("out.txt")).ok()?;
            said.lines().any(|line| line == what).then_some(said)
        })
    };
    desk.says(&pods, &["scancel", "-s", "USR1", "1"]);
    let said = heard("step USR1");
    assert!(!said.contains("script USR1"), "{said}");
    desk.says(&pods, &["scancel", "-b", "-s", "USR1", "1"]);
    let said = heard("script USR1");
    assert_eq!(said.matches("step USR1").count(), 1, "{said}");
    desk.says(&pods, &["scancel", "-f", "-s", "USR2", "1"]);
    assert_eq!(wait_for(&pods, 1, "INACTIVE")["code"], 0);
}

#[test]
fn a_script_is_warned_before_its_time_is_over() {
    let (pods, desk) = (cluster(2), Desk::new());
    let text = "#!/bin/bash\n\
                #SBATCH -t 1 --signal=B:TERM@59 -o out.txt\n\
                trap 'echo saved; exit 3' TERM\n\
                while :; do sleep 0.02; done\n";
    fs::write(desk.path().join("job.sh"), text).unwrap();
    desk.says(&pods, &["sbatch", "job.sh"]);
    assert_eq!(wait_for(&pods, 1, "INACTIVE")["code"], 3);
    let said = fs::read_to_string(desk.path().join("out.txt")).unwrap();
    assert!(said.lines().any(|line| line == "saved"), "{said}");
}

#[test]
fn a_step_outside_of_scripts_is_a_job_whose_output_comes_back() {
    let (pods, desk) = (cluster(2), Desk::new());
    let script = "cat; echo $SLURM_PROCID; exit $SLURM_PROCID";
    let mut command = Command::new(desk.path().join("srun"));
    command.args(["-N2", "-n2", "-l", "sh", "-c", script]);
    command.env("QUORATE_SOCKET", pods.dir(1).join("agent.sock")).current_dir(desk.path());
    let input = fs::File::open("/dev/null").unwrap();
    let output = command.stdin(input).output().unwrap();
    let text = stdout(&output);
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["0: 0", "1: 1"], "{}", stderr(&output));
    assert_eq!(code(&output), 1);
}

#[test]
fn the_version_is_data_and_goes_to_stdout() {
    let (pods, desk) = (cluster(2), Desk::new());
    for name in ["sbatch", "srun", "squeue", "scontrol"] {
        assert_eq!(desk.says(&pods, &[name, "--version"]), "slurm-wlm 22.05.8\n", "{name}");
    }
}

#[test]
fn what_slurm_would_refuse_is_refused_in_its_words() {
    let (pods, desk) = (cluster(1), Desk::new());
    fs::write(desk.path().join("bad.sh"), "#!/bin/sh\n#SBATCH --frobnicate\ntrue\n").unwrap();
    for (words, want) in [
        (&["sbatch", "--frobnicate", "--wrap", "true"][..], "unrecognized option '--frobnicate'"),
        (&["sbatch", "bad.sh"], "line 2"),
        (&["sbatch", "/nonexistent.sh"], "Unable to open file /nonexistent.sh"),
        (&["sbatch", "-d", "afterok:99", "--wrap", "true"], "Job dependency problem"),
        (&["sbatch", "-N", "9", "--wrap", "true"], "nodes"),
        (&["scancel", "99"], "Invalid job id"),
        (&["scontrol", "write", "batch_script", "1"], "Invalid job id"),
    ] {
        let output = desk.run(&pods, 0, words);
        assert_ne!(code(&output), 0, "{words:?}");
        assert!(stderr(&output).contains(want), "{words:?}: {}", stderr(&output));
    }
}
