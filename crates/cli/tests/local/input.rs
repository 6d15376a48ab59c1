//! Wrong input and missing means: each with the words that a user reads.

use super::stage::{STAY, Stage};
use std::process::Command;

#[test]
fn wrong_input_is_refused_with_its_place_and_a_way_out() {
    let stage = Stage::new();
    let head = "apiVersion: quorate.dev/v1alpha1\nkind: MiniCluster\nmetadata: {name: c}\n";
    let file = |name: &str, spec: &str| {
        stage.file(name, &format!("{head}{spec}"));
        name.to_owned()
    };
    let min = file("min.yaml", "spec:\n  size: 4\n  minSize: 6\n");
    let zero = file("zero.yaml", "spec:\n  size: 0\n");
    let unknown = file("unknown.yaml", "spec:\n  program:\n    paralel: {}\n");
    let suspended = file("suspended.yaml", "spec:\n  suspend: true\n");
    let two =
        file("two.yaml", "spec:\n  program:\n    command: [a]\n    parallel: {command: [b]}\n");
    let group = file("group.yaml", "spec:\n  groups:\n  - {name: launcher, size: 1}\n");
    stage.file("text.yaml", "just: [a\n");
    let long = "x".repeat(60);
    let cases: Vec<(Vec<&str>, i32, Vec<&str>)> = vec![
        (
            vec!["run", &min],
            2,
            vec![
                "error: min.yaml:6: spec.minSize: 6 is more than spec.size: 4\n",
                "  |   minSize: 6\n",
                "  = set minSize to at most 4, or raise size\n",
            ],
        ),
        (vec!["run", &zero], 2, vec!["error: zero.yaml:5: spec.size: "]),
        (
            vec!["run", &unknown],
            2,
            vec![
                "error: unknown.yaml:6: spec.program.paralel: unknown field; did you mean `parallel`?",
            ],
        ),
        (vec!["run", &two], 2, vec!["error: two.yaml:", "spec.program"]),
        (vec!["run", &group], 2, vec!["error: group.yaml:", "spec.groups[0].name"]),
        (vec!["run", "text.yaml"], 2, vec!["error: text.yaml"]),
        (
            vec!["run", &suspended],
            2,
            vec!["error: spec.suspend is true: nothing would ever start here\n  = remove it"],
        ),
        (
            vec!["run", "missing.yaml"],
            1,
            vec!["error: cannot read missing.yaml: No such file or directory"],
        ),
        (vec!["validate", &min], 2, vec!["error: min.yaml:6: spec.minSize"]),
        (vec!["plan", "missing.yaml"], 1, vec!["error: cannot read missing.yaml"]),
        (
            vec!["run"],
            2,
            vec![
                "error: there is nothing to run\n  = give a file, `quorate run hello.yaml`, or a command",
            ],
        ),
        (
            vec!["run", "-N", "2", "hello.yaml"],
            2,
            vec![
                "error: -N, -n, -c, -l, -e, --mpi, --image and --script describe a cluster, and hello.yaml does so already\n",
            ],
        ),
        (
            vec!["run", "-N", "0", "--", "x"],
            2,
            vec!["error: invalid value '0' for '--nodes <PODS>'"],
        ),
        (
            vec!["run", "-N", "2", "--name", "Bad_Name", "--", "x"],
            2,
            vec!["error: metadata.name: "],
        ),
        (vec!["run", "-N", "2", "--name", &long, "--", "x"], 2, vec!["error: metadata.name: "]),
        (vec!["run", "-e", "=x", "--", "x"], 2, vec!["it must be NAME=VALUE"]),
        (
            vec!["exec", "nobody", "--", "true"],
            2,
            vec![
                "error: there is no cluster or pod nobody: no cluster runs here\n  = start one that stays",
            ],
        ),
        (vec!["shell"], 2, vec!["error: no cluster runs on this machine\n"]),
        (vec!["logs"], 2, vec!["error: no cluster runs on this machine\n"]),
        (vec!["ls", "nobody"], 2, vec!["error: there is no cluster nobody\n  = no cluster runs"]),
        (vec!["delete", "nobody"], 1, vec!["error: there is no cluster nobody\n"]),
        (
            vec!["run", "-n", "0", "--", "x"],
            2,
            vec!["error: -n 0 is no number of ranks\n  = give a number from 1 on"],
        ),
        (
            vec!["run", "--mpi", "pmi3", "--", "x"],
            2,
            vec!["possible values: auto, pmi1, pmi2, pmix, none"],
        ),
        (
            vec!["run", "--context", "lab", "-N", "2", "--", "x"],
            2,
            vec!["error: --image is missing", "= name the image that has the program, `--image"],
        ),
        (
            vec!["run", "-n", "hpc", "--sandbox", "none", "--image", "i", "--", "x"],
            2,
            vec!["error: --sandbox is for clusters on this machine\n"],
        ),
        (
            vec!["ls", "--kubeconfig", "/no/such/file"],
            2,
            vec!["error: there is no usable kubeconfig: ", "name one with --kubeconfig FILE"],
        ),
        (vec!["ls", "--context="], 0, vec!["no clusters on this machine\n"]),
        (vec!["frobnicate"], 2, vec!["error: unrecognized subcommand 'frobnicate'"]),
    ];
    for (args, code, words) in cases {
        let ran = stage.run(&args, "exit 0", STAY);
        assert_eq!(ran.code, code, "{args:?}: {}", ran.err);
        for word in words {
            assert!(ran.err.contains(word), "{args:?}: {:?} is not in:\n{}", word, ran.err);
        }
        assert_eq!(ran.out, "", "{args:?}");
    }
    stage.expect_nothing_left();
}

#[test]
fn a_missing_agent_is_told_with_all_three_places() {
    let stage = Stage::ordinary();
    // Beside the program of the build there may be an agent.
    let stage_program = stage.program();
    let mut command = Command::new(&stage_program);
    let output = command
        .args(["run", "--", "x"])
        .env("XDG_STATE_HOME", stage.path("state"))
        .env_remove("QUORATE_AGENT")
        .env("PATH", "/nowhere")
        .output()
        .unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    let beside = stage_program.with_file_name("quorate-agent");
    assert_eq!(output.status.code(), Some(1));
    assert!(
        err.starts_with(&format!(
            "error: the agent quorate-agent was not found: not at {}, QUORATE_AGENT is not set, and \
             it is not in PATH\n  = put quorate-agent beside quorate, or set QUORATE_AGENT",
            beside.display()
        )),
        "{err}"
    );
}

#[test]
fn without_a_place_for_state_nothing_starts() {
    let stage = Stage::new();
    let mut command = stage.quorate(&["run", "--", "x"], "", "");
    let output = command.env_remove("XDG_STATE_HOME").env_remove("HOME").output().unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{err}");
    assert!(err.contains("neither XDG_STATE_HOME nor HOME is set"), "{err}");
}

/// `quorate` where no further user namespaces may be made, as a user without rights.
fn forbidden(stage: &Stage, args: &str) -> std::process::Output {
    let script = format!(
        "echo 0 > /proc/sys/user/max_user_namespaces && \
         exec setpriv --bounding-set=-all --inh-caps=-all {} {args}",
        stage.program().display()
    );
    let mut command = Command::new("unshare");
    command
        .args(["--user", "--map-root-user", "sh", "-c", &script])
        .env("XDG_STATE_HOME", stage.path("state"))
        .env("QUORATE_AGENT", stage.path("agent"))
        .env("LAUNCHER", "echo ran")
        .env("WORKER", STAY)
        .output()
        .unwrap()
}

#[test]
fn where_namespaces_are_forbidden_the_error_names_the_bar_and_the_way_round() {
    let stage = Stage::new();
    let output = forbidden(&stage, "run -N 2 -- x");
    let err = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{err}");
    assert_eq!(
        err,
        "error: no MPI program can start: this machine forbids user namespaces \
         (user.max_user_namespaces = 0)\n  = run as root, allow them, or use --sandbox none (pods \
         share this machine's network and processes)\n"
    );
    let doctor = forbidden(&stage, "doctor");
    let out = String::from_utf8(doctor.stdout).unwrap();
    assert_eq!(doctor.status.code(), Some(1), "{out}");
    assert!(out.contains("forbids user namespaces (user.max_user_namespaces = 0)"), "{out}");
    assert!(out.contains("= as root: sysctl -w user.max_user_namespaces="), "{out}");
    let plain = forbidden(&stage, "run --sandbox none -N 2 -- x");
    assert_eq!(String::from_utf8(plain.stdout).unwrap(), "ran\n");
    stage.expect_nothing_left();
}

/// Forbids what the filters of container runtimes forbid, then becomes a command: `unshare` and
/// `clone` with flags of namespaces are refused, and `clone3`, whose flags a filter cannot see, is
/// said not to exist (seccomp(2)).
const FILTER: &str = r#"
import ctypes, os, platform, struct, sys
unshare, clone = {"x86_64": (272, 56), "aarch64": (97, 220)}[platform.machine()]
LD, JEQ, JSET, RET = 0x20, 0x15, 0x45, 0x06
program = [
    (LD, 0, 0, 0),               # the call's number
    (JEQ, 5, 0, unshare),        # refused
    (JEQ, 5, 0, 435),            # clone3: not there
    (JEQ, 0, 2, clone),          # anything else: allowed
    (LD, 0, 0, 16),              # the low half of the first argument
    (JSET, 1, 0, 0x7e020000),    # namespaces: refused
    (RET, 0, 0, 0x7fff0000),     # allowed
    (RET, 0, 0, 0x00050001),     # EPERM
    (RET, 0, 0, 0x00050026),     # ENOSYS
]
code = b"".join(struct.pack("HBBI", *step) for step in program)
buffer = ctypes.create_string_buffer(code)
filter = struct.pack("HxxxxxxP", len(program), ctypes.addressof(buffer))
libc = ctypes.CDLL(None, use_errno=True)
assert libc.prctl(38, 1, 0, 0, 0) == 0          # PR_SET_NO_NEW_PRIVS
assert libc.prctl(22, 2, filter, 0, 0) == 0, ctypes.get_errno()   # PR_SET_SECCOMP
os.execv(sys.argv[1], sys.argv[1:])
"#;

#[test]
fn the_doctor_recognises_a_filter_of_system_calls() {
    let stage = Stage::new();
    let output = Command::new("python3")
        .args(["-c", FILTER, stage.program().to_str().unwrap(), "doctor"])
        .env("QUORATE_AGENT", stage.path("agent"))
        .output()
        .unwrap();
    let out = String::from_utf8(output.stdout).unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{out}{err}");
    assert!(out.contains("a system-call filter forbids namespaces"), "{out}{err}");
}

#[test]
fn the_doctor_finds_namespaces_and_the_agent() {
    let stage = Stage::new();
    let ran = stage.run(&["doctor"], "", "");
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    assert!(ran.out.contains("namespaces") && ran.out.contains("not static"), "{}", ran.out);
    let json = stage.run(&["doctor", "-o", "json"], "", "");
    let checks: serde_json::Value = serde_json::from_str(&json.out).unwrap();
    let names: Vec<_> = checks.as_array().unwrap().iter().map(|c| c["name"].clone()).collect();
    assert_eq!(names, ["namespaces", "agent", "MPI"]);
}

#[test]
fn plans_come_as_yaml_json_and_names_without_the_seed() {
    let stage = Stage::new();
    stage.file(
        "c.yaml",
        "apiVersion: quorate.dev/v1alpha1\nkind: MiniCluster\nmetadata: {name: c}\n\
         spec: {size: 2, image: i, program: {command: [x]}}\n",
    );
    let names = stage.run(&["plan", "c.yaml", "-o", "name"], "", "");
    assert_eq!(names.code, 0, "{}", names.err);
    assert!(names.out.contains("jobset.jobset.x-k8s.io/c\n"), "{}", names.out);
    assert!(names.out.contains("secret/c-"), "{}", names.out);
    let yaml = stage.run(&["plan", "c.yaml"], "", "").out;
    assert!(yaml.contains("kind: JobSet") && yaml.contains("redacted"), "{yaml}");
    let json = stage.run(&["plan", "c.yaml", "-o", "json"], "", "").out;
    let list: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(list["kind"], "List");
    assert!(list["items"].as_array().unwrap().len() >= 3);
}

#[test]
fn completions_and_manual_pages_are_written() {
    let stage = Stage::new();
    for shell in ["bash", "zsh", "fish"] {
        let ran = stage.run(&["completions", shell], "", "");
        assert!(ran.code == 0 && ran.out.contains("quorate"), "{shell}: {}", ran.err);
    }
    let dir = stage.path("man");
    assert_eq!(stage.run(&["man", dir.to_str().unwrap()], "", "").code, 0);
    assert!(dir.join("quorate.1").exists() && dir.join("quorate-run.1").exists());
}
