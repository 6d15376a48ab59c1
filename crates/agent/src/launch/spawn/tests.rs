use super::*;
use std::os::fd::AsRawFd;
use tokio::io::AsyncReadExt;

fn env() -> Variables {
    [("PATH".into(), "/usr/bin:/bin".into())].into()
}

fn words(words: &[&str]) -> Vec<OsString> {
    words.iter().map(OsString::from).collect()
}

async fn run(
    argv: &[&str],
    keep: Option<BorrowedFd<'_>>,
    cpus: Option<&[u32]>,
) -> (String, TaskEnd) {
    let argv = words(argv);
    let env = env();
    let cwd = Path::new("/");
    let own_session = true;
    let start_it = Start { argv: &argv, env: &env, cwd, cpus, stdin: false, keep, own_session };
    let mut task = start(&start_it).unwrap();
    let mut text = String::new();
    task.stdout.read_to_string(&mut text).await.unwrap();
    (text, task.exit.wait(true).await)
}

fn refusal(argv: &[&str], cwd: &Path) -> TaskEnd {
    let argv = words(argv);
    let env = env();
    let start_it = Start {
        argv: &argv,
        env: &env,
        cwd,
        cpus: None,
        stdin: false,
        keep: None,
        own_session: false,
    };
    start(&start_it).unwrap_err()
}

#[tokio::test]
async fn a_task_runs_with_its_environment_alone() {
    let (text, end) = run(&["sh", "-c", "echo $0 $PATH $HOME; exit 3"], None, None).await;
    assert_eq!((text.as_str(), end), ("sh /usr/bin:/bin\n", TaskEnd::Exited(3)));
    let (_, end) = run(&["sh", "-c", "kill -SEGV $$"], None, None).await;
    assert_eq!(end, TaskEnd::Signaled(11));
}

#[tokio::test]
async fn a_kept_descriptor_has_the_same_number_and_no_other_task_gets_it() {
    let file = std::fs::File::open("/dev/null").unwrap();
    let script = format!("ls -l /proc/self/fd/{}", file.as_raw_fd());
    let (text, _) = run(&["sh", "-c", &script], Some(file.as_fd()), None).await;
    assert!(text.contains("/dev/null"), "{text}");
    let (text, _) = run(&["sh", "-c", &script], None, None).await;
    assert_eq!(text, "");
}

#[tokio::test]
async fn a_bound_task_has_its_cpus_and_this_thread_keeps_its_own() {
    let before = sys::allowed_cpus().unwrap();
    let cpu = *before.last().unwrap();
    let argv = ["sh", "-c", "grep Cpus_allowed_list /proc/self/status"];
    let (text, _) = run(&argv, None, Some(&[cpu])).await;
    assert_eq!(text, format!("Cpus_allowed_list:\t{cpu}\n"));
    assert_eq!(sys::allowed_cpus().unwrap(), before);
}

#[tokio::test]
async fn programs_that_cannot_start_say_why() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str, mode: u32| {
        let path = dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    file("plain", "x", 0o644);
    file("script", "echo no interpreter line\n", 0o755);
    file("lost", "#!/no/such/interpreter\n", 0o755);
    let at = dir.path();
    assert_eq!(refusal(&["no-such-command"], at), TaskEnd::NotFound("no-such-command".into()));
    assert_eq!(refusal(&["./none"], at), TaskEnd::NotFound("./none".into()));
    for (name, want) in [
        ("./plain", "not executable"),
        ("./script", "#! line"),
        ("./lost", "interpreter"),
        (".//", "is a directory"),
    ] {
        match refusal(&[name], at) {
            TaskEnd::NotExecutable(why) => assert!(why.contains(want), "{why}"),
            other => panic!("{name}: {other:?}"),
        }
    }
}

/// Tests of this binary in a process that ignores signals, as one in the background of a script does.
fn in_the_background(tests: &[&str]) {
    let script = "trap '' HUP INT QUIT TERM TSTP TTIN TTOU; exec \"$@\"";
    let this = std::env::current_exe().unwrap();
    let mut bounded = std::process::Command::new("timeout");
    bounded.args(["--signal=KILL", "60", "sh", "-c", script, "sh"]);
    let said = bounded.arg(this).arg("--exact").args(tests).output().unwrap();
    let text = String::from_utf8_lossy(&said.stdout);
    assert!(said.status.success(), "{text}{}", String::from_utf8_lossy(&said.stderr));
    assert!(text.contains(&format!("{} passed", tests.len())), "{text}");
}

#[tokio::test]
async fn a_task_ignores_no_signal_that_ends_or_stops_it() {
    let argv = ["sh", "-c", "grep SigIgn /proc/self/status"];
    let (text, _) = run(&argv, None, None).await;
    let ignored = text.split_whitespace().last().unwrap();
    let ignored = u64::from_str_radix(ignored, 16).unwrap();
    let all = ["HUP", "INT", "QUIT", "PIPE", "TERM", "TSTP", "TTIN", "TTOU"];
    for (name, number) in all.iter().zip([1, 2, 3, 13, 15, 20, 21, 22]) {
        assert_eq!(ignored >> (number - 1) & 1, 0, "SIG{name}: {text}");
    }
}

#[test]
fn tasks_of_a_broker_in_the_background_can_be_interrupted() {
    let module = "launch::spawn";
    in_the_background(&[
        &format!("{module}::tests::a_task_ignores_no_signal_that_ends_or_stops_it"),
        &format!("{module}::terminal::tests::what_is_typed_can_be_a_signal_or_the_end"),
    ]);
}

#[tokio::test]
async fn what_a_task_leaves_behind_is_swept_with_its_group() {
    let (text, _) = run(&["sh", "-c", "sleep 1000 >/dev/null 2>&1 & echo $!"], None, None).await;
    let left = text.trim();
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(5);
    loop {
        let stat = std::fs::read_to_string(format!("/proc/{left}/stat")).unwrap_or_default();
        // Gone, or dead and waiting for whoever adopted it.
        if stat.is_empty() || stat.contains(") Z ") {
            break;
        }
        assert!(std::time::Instant::now() < deadline, "still there: {stat}");
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn spinning_tasks_do_not_share_the_brokers_part_of_the_cpus() {
    // Field 6 of proc_pid_stat(5) is the session.
    let (text, _) = run(&["sh", "-c", "echo $$ $(cut -d' ' -f6 /proc/$$/stat)"], None, None).await;
    let (pid, session) = text.trim().split_once(' ').unwrap();
    assert_eq!(pid, session);
}
