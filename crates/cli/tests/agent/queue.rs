//! The job queue of local clusters with the real agent: programs that are work for it, and its verbs from
//! outside.

use super::{Stage, read};
use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

fn example(name: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    root.join(name).join("minicluster.yaml").display().to_string()
}

/// Writes a MiniCluster of two pods with one slot each.
fn file(stage: &Stage, name: &str, program: &str) -> PathBuf {
    let path = stage.dir.path().join(format!("{name}.yaml"));
    let text = format!(
        "apiVersion: quorate.dev/v1alpha1\nkind: MiniCluster\nmetadata: {{name: {name}}}\n\
         spec:\n  size: 2\n  slots: 1\n{program}"
    );
    std::fs::write(&path, text).unwrap();
    path
}

#[test]
fn a_batch_script_is_a_program_on_the_nodes_that_its_directives_ask_for() {
    let stage = Stage::new();
    let (code, out, err) = stage.run(&["run", &example("batch")]);
    assert_eq!(code, 0, "{err}");
    let lines: Vec<&str> = out.lines().collect();
    assert_eq!(lines[0], "job 1 has 2 nodes", "{out}\n{err}");
    let hosts: BTreeSet<&str> = lines[1..].iter().copied().collect();
    assert_eq!((lines.len(), hosts.len()), (3, 2), "{out}");
    assert!(hosts.iter().all(|host| host.starts_with("batch-script-")), "{out}");
}

#[test]
fn jobs_of_a_program_run_one_after_the_other_and_their_output_is_in_order() {
    let stage = Stage::new();
    let (code, out, err) = stage.run(&["run", &example("pipeline")]);
    assert_eq!(code, 0, "{err}");
    let lines: Vec<&str> = out.lines().collect();
    assert_eq!((lines.len(), lines[0], lines[4]), (5, "mesh is ready", "plot is drawn"), "{out}");
    let mut solved = lines[1..4].to_vec();
    solved.sort_unstable();
    let hosts = ["launcher-0-0", "worker-0-0", "worker-0-1"];
    assert_eq!(solved, hosts.map(|host| format!("solved on pipeline-{host}")), "{out}");
}

#[test]
fn the_first_job_that_fails_is_named_and_gives_its_code() {
    let stage = Stage::new();
    let program = "  program:\n    jobs:\n    - {name: good, command: ['true']}\n    \
                   - {name: bad, command: [sh, -c, 'exit 7']}\n    \
                   - {name: never, command: [echo, never], after: [bad]}\n    \
                   - {name: last, command: [echo, last]}\n";
    let path = file(&stage, "failing", program).display().to_string();
    let (code, out, err) = stage.run(&["run", &path]);
    assert_eq!(code, 7, "{err}");
    assert!(err.contains("job 2 (bad) ended with code 7"), "{err}");
    assert_eq!(out, "last\n", "what waits for a failed job never runs: {err}");
}

#[test]
fn a_directive_that_nobody_knows_fails_the_cluster_with_its_line() {
    let stage = Stage::new();
    let program =
        "  program:\n    script: |\n      #!/bin/sh\n      #SBATCH --frobnicate=3\n      echo no\n";
    let path = file(&stage, "wrong", program).display().to_string();
    let (code, out, err) = stage.run(&["run", &path]);
    assert_eq!((code, out.as_str()), (1, ""), "{err}");
    assert!(err.contains("frobnicate") && err.contains("line 2"), "{err}");
}

#[test]
fn jobs_are_put_into_a_cluster_that_stays_from_outside_and_looked_after_there() {
    let stage = Stage::new();
    let (code, _, err) =
        stage.run(&["run", "--keep", &file(&stage, "tools", "").display().to_string()]);
    assert_eq!(code, 0, "{err}");
    let ask = |args: &[&str]| {
        let (code, out, err) = stage.run(args);
        assert_eq!(code, 0, "{args:?}: {err}");
        out
    };
    assert_eq!(ask(&["submit", "tools", "-n2", "--", "true"]), "1\n");
    assert_eq!(ask(&["submit", "tools", "--watch", "--", "echo", "hello"]), "hello\n");
    let script = stage.dir.path().join("job.sh");
    std::fs::write(&script, "#!/bin/sh\n#QUORATE -N2 -n2\nsrun hostname | sort\nexit $1\n")
        .unwrap();
    let script = script.display().to_string();
    let (code, out, err) = stage.run(&["submit", "tools", "--watch", &script, "3"]);
    assert_eq!(code, 3, "{err}");
    assert_eq!(out, "3\ntools-launcher-0-0\ntools-worker-0-0\n", "{err}");
    let jobs = ask(&["jobs", "tools", "-a", "-o", "json"]);
    assert_eq!(jobs.lines().count(), 3, "{jobs}");
    assert_eq!(ask(&["submit", "tools", "--urgency", "0", "--", "true"]), "4\n");
    assert!(ask(&["jobs", "tools"]).contains("held"));
    ask(&["cancel", "tools", "4"]);
    assert_eq!(stage.run(&["wait", "tools", "1", "3"]).0, 3, "the highest code");
    let (code, out, err) =
        stage.run(&["alloc", "tools", "-N2", "sh", "-c", "echo $QUORATE_JOB_ID"]);
    assert_eq!((code, out.as_str()), (0, "5\n"), "{err}");
    let (code, _, err) = stage.run(&["submit", "tools", "--file", "x", "--", "true"]);
    assert!(code == 2 && err.contains("cannot read x"), "{err}");
    let (code, _, err) = stage.run(&["cancel", "tools", "99"]);
    assert_eq!(code, 1);
    assert!(err.contains("there is no job 99"), "{err}");
    // Jobs are counted once a second at most.
    let counts = "  jobs      0 running, 0 waiting, 3 completed, 2 failed";
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        let status = ask(&["status", "tools"]);
        if status.contains(counts) {
            break;
        }
        assert!(Instant::now() < deadline, "{status}");
        std::thread::sleep(Duration::from_millis(100));
    }
    let table = ask(&["ls", "tools"]);
    let row: Vec<&str> = table.lines().last().unwrap().split_whitespace().collect();
    assert_eq!(row[..5], ["tools", "2", "2", "Ready", "0/0"], "{table}");
    // A shell there has Slurm's names, and flux, on its PATH.
    let mut shell = stage.quorate(&["shell", "tools"]).stdin(Stdio::piped()).spawn().unwrap();
    let typed = b"command -v sbatch salloc flux\nsbatch --parsable -o /dev/null --wrap true\n";
    shell.stdin.take().unwrap().write_all(typed).unwrap();
    let (code, out, err) = read(shell.wait_with_output().unwrap());
    assert_eq!(code, 0, "{err}");
    let run = "/quorate/run/slurm";
    assert_eq!(out, format!("{run}/sbatch\n{run}/salloc\n{run}/flux\n6\n"), "{err}");
    ask(&["delete", "tools"]);
}

#[test]
fn work_for_the_queue_is_a_guest_of_a_cluster_that_is_kept() {
    let stage = Stage::new();
    let jobs = "  program:\n    jobs:\n    - {name: one, command: [echo, one]}\n    \
                - {name: two, command: [sh, -c, 'echo two; exit 5'], after: [one]}\n";
    let path = file(&stage, "kept", jobs).display().to_string();
    let (code, out, err) = stage.run(&["run", "--keep", &path]);
    assert_eq!((code, out.as_str()), (5, "one\ntwo\n"), "{err}");
    assert!(
        err.contains("job 2 (two) ended with code 5") && err.contains("kept stays up"),
        "{err}"
    );
    // It is there, and goes on with the next number.
    let (code, out, err) = stage.run(&["submit", "kept", "--wait", "--", "true"]);
    assert_eq!((code, out.as_str()), (0, "3\n"), "{err}");
    stage.run(&["delete", "kept"]);
    let script = "  program:\n    script: |\n      #!/bin/sh\n      #SBATCH -N2 -n2\n      srun hostname | sort\n";
    let path = file(&stage, "script", script).display().to_string();
    let (code, out, err) = stage.run(&["run", "--keep", &path]);
    assert_eq!((code, out.as_str()), (0, "script-launcher-0-0\nscript-worker-0-0\n"), "{err}");
    stage.run(&["delete", "script"]);
}

#[test]
fn files_go_along_with_a_job_and_others_come_back_from_it() {
    let stage = Stage::new();
    let (code, _, err) =
        stage.run(&["run", "--keep", &file(&stage, "courier", "").display().to_string()]);
    assert_eq!(code, 0, "{err}");
    let path = |name: &str| stage.dir.path().join(name);
    std::fs::create_dir_all(path("conf")).unwrap();
    std::fs::write(path("conf/a.ini"), "x = 1\n").unwrap();
    let noise: Vec<u8> =
        (0..3_000_000_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    std::fs::write(path("data.in"), &noise).unwrap();
    std::fs::write(
        path("job.sh"),
        "#!/bin/sh\n#SBATCH -N2 -n2\nmkdir out\ncp data.in out/copy.bin\ncat conf/a.ini > out/ini.txt\n\
         srun sh -c 'hostname > by-$SLURM_PROCID'\nexit 4\n",
    )
    .unwrap();
    // A script with files; what it has made comes back, though it fails.
    let words =
        ["submit", "courier", "--file", "data.in", "--file=conf/", "--fetch", "out/*=results"];
    let (code, out, err) = stage.run(&[&words[..], &["--fetch=by-0", "job.sh"]].concat());
    assert_eq!(code, 4, "{out}{err}");
    assert_eq!(out, "1\nresults/out/copy.bin\nresults/out/ini.txt\n./by-0\n", "{err}");
    assert_eq!(std::fs::read(path("results/out/copy.bin")).unwrap(), noise);
    assert_eq!(std::fs::read_to_string(path("results/out/ini.txt")).unwrap(), "x = 1\n");
    assert_eq!(std::fs::read_to_string(path("by-0")).unwrap(), "courier-launcher-0-0\n");
    assert!(err.contains("2 files of job 1, 2.9 MiB"), "{err}");
    // The directory has gone with that, and what was there is not overwritten.
    let (code, _, err) = stage.run(&["fetch", "courier", "1", "out"]);
    assert!(code == 1 && err.contains("there is no out in"), "{err}");

    // A command; its files later, from the pod of another task.
    let command = ["--", "sh", "-c", "cat conf/a.ini; hostname > made-$QUORATE_TASK_RANK"];
    let words = ["submit", "courier", "-N2", "--file", "conf", "--keep-files", "--wait"];
    let (code, out, err) = stage.run(&[&words[..], &command].concat());
    assert_eq!((code, out.as_str()), (0, "2\n"), "{err}");
    let (code, out, err) =
        stage.run(&["fetch", "courier", "2", "--rank", "1", "made-*", "-o", "two"]);
    assert_eq!((code, out.as_str()), (0, "two/made-1\n"), "{err}");
    assert_eq!(std::fs::read_to_string(path("two/made-1")).unwrap(), "courier-worker-0-0\n");
    let again = ["fetch", "courier", "2", "--rank", "1", "made-*", "-o", "two"];
    let (code, _, err) = stage.run(&again);
    assert!(
        code == 1 && err.contains("two/made-1 is there already") && err.contains("--force"),
        "{err}"
    );
    assert_eq!(stage.run(&[&again[..], &["--force"]].concat()).0, 0);
    let (code, _, err) = stage.run(&["fetch", "courier", "2", "--rank", "2", "x"]);
    assert!(code == 1 && err.contains("job 2 has no rank 2: it has 2"), "{err}");
    let (code, _, err) = stage.run(&["fetch", "courier", "2"]);
    assert!(code == 1 && err.contains("`attach`"), "{err}");
    let (code, _, err) = stage.run(&["fetch", "courier", "77", "x"]);
    assert!(code == 1 && err.contains("there is no job 77"), "{err}");
    let (code, _, err) = stage.run(&["fetch", "courier", "2", ".."]);
    assert!(code == 2 && err.contains("names no file"), "{err}");

    // The files of its output, by themselves; a job that is watched.
    let log = path("log-*[x]").display().to_string();
    let words = ["submit", "courier", "--output", &log, "--wait", "--", "echo", "logged"];
    assert_eq!(stage.run(&words).0, 0);
    let (code, out, err) = stage.run(&["fetch", "courier", "3", "-o", "logs"]);
    assert_eq!((code, out.as_str()), (0, "logs/log-*[x]\n"), "{err}");
    assert_eq!(std::fs::read_to_string(path("logs/log-*[x]")).unwrap(), "logged\n");
    let words = ["submit", "courier", "--watch", "--file", "conf", "--fetch", "new", "--"];
    let (code, out, err) = stage.run(&[&words[..], &["sh", "-c", "echo seen | tee new"]].concat());
    assert_eq!((code, out.as_str()), (0, "4\nseen\n./new\n"), "{err}");
    stage.run(&["delete", "courier"]);
}

#[test]
fn a_queue_is_dumped_to_a_file_of_this_machine_and_restored_from_it() {
    let stage = Stage::new();
    for name in ["here", "there"] {
        let path = file(&stage, name, "").display().to_string();
        let (code, _, err) = stage.run(&["run", "--keep", &path]);
        assert_eq!(code, 0, "{err}");
    }
    assert_eq!(stage.run(&["submit", "here", "--wait", "--", "sh", "-c", "exit 3"]).0, 3);
    let (code, out, err) = stage.run(&["queue", "here", "dump", "here.dump"]);
    assert_eq!((code, out.as_str()), (0, ""), "{err}");
    let path = stage.dir.path().join("here.dump");
    let text = std::fs::read(&path).unwrap();
    let mode =
        std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&path).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);
    let (code, out, _) = stage.run(&["queue", "here", "dump", "-"]);
    assert_eq!((code, out.as_bytes()), (0, &text[..]));
    let (code, out, err) = stage.run(&["queue", "there", "restore", "here.dump"]);
    assert_eq!((code, out.as_str()), (0, "1 jobs are restored; the next number is 2\n"), "{err}");
    assert_eq!(stage.run(&["wait", "there", "1"]).0, 3);
    // From standard input, into one that has jobs.
    let mut child =
        stage.quorate(&["queue", "there", "restore", "-"]).stdin(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(&text).unwrap();
    let (code, _, err) = read(child.wait_with_output().unwrap());
    assert!(code == 1 && err.contains("has jobs already"), "{err}");
    let (code, _, err) = stage.run(&["queue", "there", "restore", "absent.dump"]);
    assert!(code == 1 && err.contains("cannot read absent.dump"), "{err}");
    let (code, _, err) = stage.run(&["queue", "here", "dump", "no/such/dir"]);
    assert!(code == 1 && err.contains("cannot write no/such/dir"), "{err}");
    stage.run(&["delete", "here", "there"]);
}

/// Reads a terminal until a text is there.
fn read_until(terminal: &mut std::fs::File, text: &mut String, wanted: &str) {
    let mut buffer = [0; 4096];
    while !text.contains(wanted) {
        match terminal.read(&mut buffer) {
            Ok(count @ 1..) => *text += &String::from_utf8_lossy(&buffer[..count]),
            _ => panic!("{wanted:?} never came: {text:?}"),
        }
    }
}

#[test]
fn top_has_the_screen_of_whoever_looks_from_outside() {
    let stage = Stage::new();
    let (code, _, err) =
        stage.run(&["run", "--keep", &file(&stage, "watched", "").display().to_string()]);
    assert_eq!(code, 0, "{err}");
    assert_eq!(
        stage.run(&["submit", "watched", "--name", "sleeper", "--", "sleep", "600"]).1,
        "1\n"
    );
    let (code, out, err) = stage.run(&["top", "watched"]);
    assert!(code == 0 && out.contains("sleeper"), "once, without a terminal: {out}{err}");
    let size = nix::pty::Winsize { ws_row: 30, ws_col: 100, ws_xpixel: 0, ws_ypixel: 0 };
    let pty = nix::pty::openpty(Some(&size), None).unwrap();
    let mut command = stage.quorate(&["top", "watched"]);
    command.env("TERM", "xterm").stdin(pty.slave.try_clone().unwrap());
    command.stdout(pty.slave.try_clone().unwrap()).stderr(pty.slave);
    let mut child = command.spawn().unwrap();
    drop(command);
    let mut terminal = std::fs::File::from(pty.master);
    let mut text = String::new();
    read_until(&mut terminal, &mut text, "\x1b[?1049h");
    read_until(&mut terminal, &mut text, "sleeper");
    terminal.write_all(b"q").unwrap();
    read_until(&mut terminal, &mut text, "\x1b[?1049l");
    assert_eq!(child.wait().unwrap().code(), Some(0), "{text:?}");
    stage.run(&["delete", "watched"]);
}

#[test]
fn queues_of_the_file_have_their_limits_and_groups() {
    let stage = Stage::new();
    let queues = "  queue:\n    queues:\n    - {name: short, maxTimeSeconds: 60, defaultTimeSeconds: 30}\n    \
                  - {name: away, groups: [worker], maxTasks: 1}\n";
    let path = file(&stage, "queues", queues).display().to_string();
    let (code, _, err) = stage.run(&["run", "--keep", &path]);
    assert_eq!(code, 0, "{err}");
    let submit = |words: &[&str]| stage.run(&[&["submit", "queues"], words].concat());
    let (code, out, err) = submit(&["--watch", "-q", "away", "--", "hostname"]);
    assert_eq!((code, out.as_str()), (0, "queues-worker-0-0\n"), "{err}");
    let (code, _, err) = submit(&["-q", "away", "-n2", "--", "true"]);
    assert!(code != 0 && err.contains("away"), "{err}");
    let (code, _, err) = submit(&["-t", "2m", "--", "true"]);
    assert!(code != 0 && err.contains("short"), "{err}");
    // The first is that of jobs that name none, and gives them its time limit.
    let (code, out, err) = submit(&["--wait", "--", "true"]);
    assert_eq!((code, out.as_str()), (0, "2\n"), "{err}");
    let (_, info, _) = stage.run(&["info", "queues", "2"]);
    assert!(info.contains("queue     short") && info.contains("limit     30.0 s"), "{info}");
    let (code, _, err) = submit(&["-q", "none", "--", "true"]);
    assert!(code != 0 && err.contains("none"), "{err}");
    stage.run(&["delete", "queues"]);
}

#[test]
fn a_cluster_that_nobody_uses_ends_by_itself_and_well() {
    let stage = Stage::new();
    let path = file(&stage, "idle", "  queue: {idleTimeoutSeconds: 1}\n").display().to_string();
    let output = stage.quorate(&["run", &path]).output().unwrap();
    let (code, _, err) = read(output);
    assert_eq!(code, 0, "{err}");
    assert!(err.lines().last().is_some_and(|line| line.starts_with("idle succeeded in")), "{err}");
}
