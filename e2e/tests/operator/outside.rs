//! The queue from outside with the least rights: a person who may see MiniClusters and pods and forward
//! ports, and may neither run commands in pods nor read Secrets.

use crate::LAB;
use nix::pty::openpty;
use quorate_e2e::{NAMESPACE, Said, quorate};
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::path::PathBuf;
use std::process::{Command, Stdio};

const IMAGE: &str = "image: localhost/mpi-debian:v1";

/// Somebody with a kubeconfig of their own.
struct Person {
    kubeconfig: PathBuf,
    dir: tempfile::TempDir,
}

impl Person {
    /// A service account that may do this to resources of pods, beside looking at clusters and pods.
    fn new(name: &str, resources: &[&str]) -> Self {
        let rule = if resources.is_empty() {
            String::new()
        } else {
            format!(
                "- {{apiGroups: [''], resources: [{}], verbs: [get, create]}}\n",
                resources.join(", ")
            )
        };
        LAB.create(&format!(
            "apiVersion: v1
kind: ServiceAccount
metadata: {{name: {name}}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {{name: {name}}}
rules:
- {{apiGroups: [quorate.dev], resources: [miniclusters], verbs: [get, list]}}
- {{apiGroups: [''], resources: [pods], verbs: [get, list]}}
{rule}---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {{name: {name}}}
roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: Role, name: {name}}}
subjects: [{{kind: ServiceAccount, name: {name}, namespace: {NAMESPACE}}}]
"
        ))
        .unwrap();
        let token = LAB.kubectl(&["-n", NAMESPACE, "create", "token", name]).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let kubeconfig = dir.path().join("kubeconfig");
        std::fs::copy(LAB.cluster.kubeconfig(), &kubeconfig).unwrap();
        let file = kubeconfig.display().to_string();
        let token = format!("--token={token}");
        for words in [
            ["config", "set-credentials", name, &token],
            ["config", "set-context", "--current", &format!("--user={name}")],
        ] {
            LAB.kubectl(&[&["--kubeconfig", &file], &words[..]].concat()).unwrap();
        }
        Self { kubeconfig, dir }
    }

    fn command(&self, words: &[&str]) -> Command {
        let (verb, rest) = words.split_first().unwrap();
        let mut command = quorate();
        command.arg(verb).arg("--kubeconfig").arg(&self.kubeconfig).args(["-n", NAMESPACE]);
        command.args(rest).current_dir(self.dir.path());
        command
    }

    fn quorate(&self, words: &[&str]) -> Said {
        Said::of(&self.command(words).output().unwrap())
    }

    fn may(&self, verb: &str, resource: &str) -> bool {
        let file = self.kubeconfig.display().to_string();
        let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
        let subresource = format!("--subresource={subresource}");
        let can = ["auth", "can-i", verb, resource, &subresource];
        LAB.kubectl(&[&["--kubeconfig", &file, "-n", NAMESPACE], &can[..]].concat()).is_ok()
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.dir.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
}

fn cluster(name: &str) {
    LAB.minicluster(name, &format!("size: 2\nslots: 2\n{IMAGE}"));
    LAB.state(name, "Ready");
}

#[test]
fn a_port_forward_is_all_that_the_queue_needs() {
    let name = "outside";
    let person = Person::new("laptop", &["pods/portforward"]);
    cluster(name);
    for (verb, resource) in [
        ("create", "pods/exec"),
        ("get", "pods/exec"),
        ("create", "pods/attach"),
        ("get", "secrets"),
        ("get", "pods/log"),
        ("create", "pods"),
    ] {
        assert!(!person.may(verb, resource), "{verb} {resource}");
    }

    assert!(person.may("create", "pods/portforward"));

    // A script that is here alone, with directives; its output and its code come back.
    person.write("job.sh", "#!/bin/sh\n#SBATCH -N2 -n2\nsrun hostname | sort\nexit 9\n");
    let said = person.quorate(&["submit", name, "--watch", "job.sh"]);
    let lines: Vec<&str> = said.out.lines().collect();
    assert_eq!((said.code, lines.len(), lines[0]), (9, 3, "1"), "{said:?}");
    assert!(lines[1] != lines[2] && lines[1..].iter().all(|host| host.starts_with(name)));

    // Files of it that are nowhere in the image, in every pod, with their modes; arguments.
    person.write("data.in", "42\n");
    person.write("conf/deep/a.ini", "x = 1\n");
    person.write("tool", "#!/bin/sh\necho \"$1 on $(hostname)\"\n");
    let executable = std::os::unix::fs::PermissionsExt::from_mode(0o750);
    std::fs::set_permissions(person.dir.path().join("tool"), executable).unwrap();
    person.write(
        "files.sh",
        "#!/bin/sh -e\n#SBATCH -N2 -n2\ncat data.in \"$1\"\nstat -c %a tool conf\nsrun ./tool \"$2\" | sort\npwd\n",
    );
    let files = ["--file", "data.in", "--file=conf/", "--add-file", "tool"];
    let words = [&["submit", name][..], &files, &["--watch", "files.sh", "conf/deep/a.ini", "a b"]];
    let said = person.quorate(&words.concat());
    let lines: Vec<&str> = said.out.lines().collect();
    assert_eq!((said.code, lines.len()), (0, 8), "{said:?}");
    assert_eq!(lines[1..5], ["42", "x = 1", "750", "755"], "{said:?}");
    assert!(
        lines[5] != lines[6] && lines[5..7].iter().all(|line| line.starts_with("a b on outside-"))
    );
    // They go with the job, here and there.
    let left = |pod: &str| {
        let find = "find /quorate/run -name data.in -o -path '*parcels/*'";
        LAB.kubectl(&["-n", NAMESPACE, "exec", pod, "--", "sh", "-c", find]).unwrap()
    };
    for pod in LAB.of("pods", name) {
        let pod = pod["metadata"]["name"].as_str().unwrap().to_owned();
        LAB.eventually("its files are gone", || left(&pod), String::is_empty);
    }
    // A command, and an array, of which each has them.
    let said = person.quorate(&[
        "submit",
        name,
        "--file",
        "tool",
        "--array",
        "0-3",
        "--wait",
        "--",
        "sh",
        "-c",
        "sleep 1; ./tool $QUORATE_ARRAY_TASK_ID | grep -q \"^$QUORATE_ARRAY_TASK_ID on\"",
    ]);
    assert_eq!(said.code, 0, "{said:?}");
    std::os::unix::fs::symlink("/etc/passwd", person.dir.path().join("link")).unwrap();
    let said = person.quorate(&["submit", name, "--file", "link", "--", "true"]);
    assert!(said.code == 2 && said.err.contains("link is a symbolic link"), "{said:?}");
    person.write("wrong.sh", "#!/bin/sh\n#SBATCH --nodez=2\n");
    let said = person.quorate(&["submit", name, "wrong.sh"]);
    assert!(said.code == 2 && said.err.contains("nodez") && said.out.is_empty(), "{said:?}");

    // A program; its output later, with its code.
    let said =
        person.quorate(&["submit", name, "--", "sh", "-c", "echo out; echo err >&2; exit 5"]);
    assert_eq!((said.code, said.out.as_str()), (0, "7\n"), "{said:?}");
    let said = person.quorate(&["attach", name, "7"]);
    assert_eq!((said.code, said.out.as_str()), (5, "out\n"), "{said:?}");
    assert!(said.err.lines().any(|line| line == "err"), "{said:?}");

    // One that is looked at and ended.
    let said = person.quorate(&["submit", name, "-n4", "sleep", "3600"]);
    assert_eq!((said.code, said.out.as_str()), (0, "8\n"), "{said:?}");
    let jobs = || person.quorate(&["jobs", name]).out;
    let runs =
        |text: &String| text.lines().any(|line| line.contains("sleep") && line.contains("RUN"));
    LAB.eventually("the job runs", jobs, runs);
    assert_eq!(person.quorate(&["cancel", name, "8"]).code, 0);
    assert_eq!(person.quorate(&["wait", name, "8"]).code, 143);
    let said = person.quorate(&["info", name, "8"]);
    assert!(said.code == 0 && said.out.contains("sleep"), "{said:?}");

    // Input, as large as several windows, and a verb that reads none leaves it to others.
    let text: String =
        (0..200_000).fold(String::new(), |text, number| text + &format!("{number}\n"));
    let mut child = person
        .command(&["alloc", name, "cat"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let typed = text.clone();
    let typing = std::thread::spawn(move || stdin.write_all(typed.as_bytes()));
    let said = Said::of(&child.wait_with_output().unwrap());
    assert!(
        said.code == 0 && said.out == text,
        "{} {} of {}",
        said.err,
        said.out.len(),
        text.len()
    );
    typing.join().unwrap().unwrap();
    // One that ends while more is on its way is still heard of.
    let said = person.command(&["alloc", name, "no-such-program"]).stdin(file_of(&text)).output();
    let said = Said::of(&said.unwrap());
    assert!(said.code == 1 && said.err.contains("cannot run no-such-program"), "{said:?}");

    // What is no verb of the queue.
    let said = person.quorate(&["exec", name, "--", "true"]);
    assert_ne!(said.code, 0, "{said:?}");
    assert!(said.err.contains("pods/exec"), "{said:?}");
    LAB.kubectl(&["delete", "mc", name]).unwrap();
}

fn file_of(text: &str) -> File {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    std::io::Seek::rewind(&mut file).unwrap();
    file
}

#[test]
fn without_a_port_forward_a_verb_goes_by_exec_and_without_both_the_right_is_named() {
    let name = "outside-exec";
    let (with, without) = (Person::new("exec", &["pods/exec"]), Person::new("none", &[]));
    cluster(name);
    let said = with.quorate(&["submit", "-v", name, "--wait", "true"]);
    assert_eq!((said.code, said.out.as_str()), (0, "1\n"), "{said:?}");
    assert!(said.err.contains("no port-forward") && said.err.contains("trying exec"), "{said:?}");
    let said = with.quorate(&["jobs", name]);
    assert!(said.code == 0 && said.err.is_empty(), "{said:?}");
    let said = without.quorate(&["jobs", name]);
    assert_eq!(said.code, 1, "{said:?}");
    assert_eq!(
        said.err.lines().next(),
        Some(&*format!("error: you may not forward ports to pods of namespace {NAMESPACE}")),
        "{said:?}"
    );
    assert!(said.err.contains("`get` and `create` on `pods/portforward`"), "{said:?}");
    LAB.kubectl(&["delete", "mc", name]).unwrap();
}

/// Reads a terminal until a text is there.
fn read_until(terminal: &mut File, text: &mut String, wanted: &str) {
    let mut buffer = [0; 4096];
    while !text.contains(wanted) {
        match terminal.read(&mut buffer) {
            Ok(count @ 1..) => *text += &String::from_utf8_lossy(&buffer[..count]),
            _ => panic!("{wanted:?} never came: {text:?}"),
        }
    }
}

#[test]
fn an_allocation_has_the_terminal_at_which_it_was_typed() {
    let name = "outside-terminal";
    let person = Person::new("terminal", &["pods/portforward"]);
    cluster(name);
    let size = nix::pty::Winsize { ws_row: 33, ws_col: 101, ws_xpixel: 0, ws_ypixel: 0 };
    let pty = openpty(Some(&size), None).unwrap();
    let mut child = person
        .command(&["alloc", name, "-N2", "sh"])
        .env("TERM", "xterm")
        .stdin(pty.slave.try_clone().unwrap())
        .stdout(pty.slave.try_clone().unwrap())
        .stderr(pty.slave)
        .spawn()
        .unwrap();
    let mut terminal = File::from(pty.master);
    let mut text = String::new();
    read_until(&mut terminal, &mut text, "$ ");
    terminal.write_all(b"stty size; echo $TERM; /quorate/bin/quorate-agent run -N2 hostname | sort -u | wc -l\n").unwrap();
    read_until(&mut terminal, &mut text, "33 101\r\n");
    read_until(&mut terminal, &mut text, "xterm\r\n2\r\n");
    // A key that is a signal ends what runs, and not the shell.
    terminal.write_all(b"sh -c 'echo run''ning; exec sleep 3600'\n").unwrap();
    read_until(&mut terminal, &mut text, "running\r\n");
    terminal.write_all(b"\x03").unwrap();
    read_until(&mut terminal, &mut text, "^C\r\n$ ");
    terminal.write_all(b"echo code $?\n").unwrap();
    read_until(&mut terminal, &mut text, "code 130\r\n");
    terminal.write_all(b"exit 7\n").unwrap();
    // The last words, until nobody has the terminal open.
    let mut rest = Vec::new();
    let _ = terminal.read_to_end(&mut rest);
    assert_eq!(child.wait().unwrap().code(), Some(7), "{text}");
    // Its nodes are free again.
    assert_eq!(person.quorate(&["submit", name, "-N2", "--wait", "true"]).code, 0);
    LAB.kubectl(&["delete", "mc", name]).unwrap();
}

#[test]
fn files_of_a_job_and_of_the_queue_come_back_to_whoever_is_outside() {
    let name = "outside-files";
    let person = Person::new("courier", &["pods/portforward"]);
    cluster(name);
    let at = |file: &str| person.dir.path().join(file);
    // Binary, larger than all windows on the way, with a name and a folder.
    let noise: Vec<u8> =
        (0..9_000_000_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    std::fs::write(at("data.bin"), &noise).unwrap();
    person.write("job.sh", "#!/bin/sh\n#SBATCH -N2 -n2\nmkdir out\ncp data.bin out/copy.bin\nhostname > out/host\nexit 3\n");
    let words = ["submit", name, "--file", "data.bin", "--fetch", "out/*=results", "job.sh"];
    let said = person.quorate(&words);
    assert_eq!(
        (said.code, said.out.as_str()),
        (3, "1\nresults/out/copy.bin\nresults/out/host\n"),
        "{said:?}"
    );
    assert_eq!(std::fs::read(at("results/out/copy.bin")).unwrap(), noise);
    assert_eq!(
        std::fs::read_to_string(at("results/out/host")).unwrap(),
        format!("{name}-launcher-0-0\n")
    );

    // From the pod of another task, after its end; again it overwrites nothing.
    person.write("seed", "x");
    let script = "hostname > made-$QUORATE_TASK_RANK";
    let words = [
        "submit",
        name,
        "-N2",
        "--file",
        "seed",
        "--keep-files",
        "--wait",
        "--",
        "sh",
        "-c",
        script,
    ];
    let said = person.quorate(&words);
    assert_eq!((said.code, said.out.as_str()), (0, "2\n"), "{said:?}");
    let words = ["fetch", name, "2", "made-*", "--rank", "1", "-o", "two"];
    let said = person.quorate(&words);
    assert_eq!((said.code, said.out.as_str()), (0, "two/made-1\n"), "{said:?}");
    assert_eq!(std::fs::read_to_string(at("two/made-1")).unwrap(), format!("{name}-worker-0-0\n"));
    let said = person.quorate(&words);
    assert!(said.code == 1 && said.err.contains("is there already"), "{said:?}");
    let said = person.quorate(&["fetch", name, "2", "made-0", "--rank", "1"]);
    assert!(said.code == 1 && said.err.contains("worker-0-0: there is no made-0 in"), "{said:?}");

    // The queue, to a file that is here, and from it.
    let said = person.quorate(&["queue", name, "dump", "all.dump"]);
    assert!(said.code == 0 && said.out.is_empty(), "{said:?}");
    let dumped = std::fs::read(at("all.dump")).unwrap();
    assert_eq!(person.quorate(&["queue", name, "dump", "-"]).out.as_bytes(), dumped);
    assert_eq!(person.quorate(&["purge", name]).code, 0);
    let said = person.quorate(&["queue", name, "restore", "all.dump"]);
    assert_eq!(said.out, "2 jobs are restored; the next number is 3\n", "{said:?}");
    LAB.kubectl(&["delete", "mc", name]).unwrap();
}

#[test]
fn top_has_the_terminal_at_which_it_was_typed() {
    let name = "outside-top";
    let person = Person::new("onlooker", &["pods/portforward"]);
    cluster(name);
    assert_eq!(
        person.quorate(&["submit", name, "--name", "sleeper", "--", "sleep", "600"]).out,
        "1\n"
    );
    let said = person.quorate(&["top", name]);
    assert!(said.code == 0 && said.out.contains("sleeper"), "{said:?}");
    let size = nix::pty::Winsize { ws_row: 30, ws_col: 100, ws_xpixel: 0, ws_ypixel: 0 };
    let pty = openpty(Some(&size), None).unwrap();
    let mut command = person.command(&["top", name]);
    command.env("TERM", "xterm").stdin(pty.slave.try_clone().unwrap());
    command.stdout(pty.slave.try_clone().unwrap()).stderr(pty.slave);
    let mut child = command.spawn().unwrap();
    drop(command);
    let mut terminal = File::from(pty.master);
    let mut text = String::new();
    read_until(&mut terminal, &mut text, "\x1b[?1049h");
    read_until(&mut terminal, &mut text, "sleeper");
    // A key, a question and its answer: the job ends.
    terminal.write_all(b"c").unwrap();
    read_until(&mut terminal, &mut text, "?");
    terminal.write_all(b"y").unwrap();
    assert_eq!(person.quorate(&["wait", name, "1"]).code, 143);
    terminal.write_all(b"q").unwrap();
    read_until(&mut terminal, &mut text, "\x1b[?1049l");
    assert_eq!(child.wait().unwrap().code(), Some(0), "{text:?}");
    LAB.kubectl(&["delete", "mc", name]).unwrap();
}

#[test]
fn a_job_of_somebody_who_goes_away_goes_on() {
    let name = "outside-gone";
    let person = Person::new("gone", &["pods/portforward"]);
    cluster(name);
    assert_eq!(
        person.quorate(&["submit", name, "--", "sh", "-c", "echo here; sleep 8; echo there"]).out,
        "1\n"
    );
    let mut attach = person.command(&["attach", name, "1"]);
    let mut child = attach.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut line = [0; 5];
    child.stdout.as_mut().unwrap().read_exact(&mut line).unwrap();
    assert_eq!(&line, b"here\n");
    child.kill().unwrap();
    child.wait().unwrap();
    let said = person.quorate(&["attach", name, "1"]);
    assert_eq!((said.code, said.out.as_str()), (0, "here\nthere\n"), "{said:?}");
    LAB.kubectl(&["delete", "mc", name]).unwrap();
}
