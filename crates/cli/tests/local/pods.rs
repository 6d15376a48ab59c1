//! A pod is a pod: names, addresses, users, processes, memory, mounts.

use super::stage::{STAY, Stage};

/// What the launcher finds out about its pod, one fact a line.
const FACTS: &str = r#"
echo "host $(hostname) $(cat /etc/hostname)"
echo "full $(hostname -f)"
echo "pid $$"
echo "uid $(id -u) gid $(id -g)"
echo "ip $QUORATE_POD_IP $(hostname -I)"
echo "short $(getent hosts facts-worker-0-0 | cut -d' ' -f1)"
echo "service $(getent hosts facts-worker-0-0.facts | cut -d' ' -f1)"
echo "fqdn $(getent hosts facts-worker-0-0.facts.default.svc.cluster.local | cut -d' ' -f1)"
echo "links $(ls /sys/class/net | tr '\n' ' ')"
echo "pod $QUORATE_POD_NAME attempt $QUORATE_ATTEMPT index $JOB_COMPLETION_INDEX"
echo "seed $(wc -c < /quorate/config/seed)"
echo "config $(grep -c '"name": "facts"' /quorate/config/agent.json)"
touch /quorate/config/x 2>/dev/null || echo "config is read-only"
touch /quorate/run/x && echo "run is writable"
echo "run $(stat -f -c %T /quorate/run) shm $(stat -f -c %T /dev/shm)"
echo "agent $(test -x /quorate/bin/quorate-agent && echo there)"
echo "dir $(pwd)"
"#;

fn facts(stage: &Stage, uid: u32) {
    let ran = stage.run(&["run", "-N", "2", "--name", "facts", "--", "x"], FACTS, STAY);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let pod = ran.out.lines().find_map(|l| l.strip_prefix("pod facts-launcher-0-0-")).unwrap();
    let (suffix, rest) = pod.split_at(5);
    assert!(suffix.bytes().all(|b| b.is_ascii_alphanumeric()), "{suffix}");
    assert_eq!(rest, " attempt 0 index 0");
    let here = stage.dir.path().display();
    let expected = format!(
        "host facts-launcher-0-0 facts-launcher-0-0\n\
         full facts-launcher-0-0.facts.default.svc.cluster.local\n\
         pid 1\nuid {uid} gid {uid}\nip 10.244.0.2 10.244.0.2 \nshort 10.244.0.3\n\
         service 10.244.0.3\nfqdn 10.244.0.3\nlinks eth0 lo \nseed 32\nconfig 1\n\
         config is read-only\nrun is writable\nrun tmpfs shm tmpfs\nagent there\ndir {here}"
    );
    let found: Vec<&str> = ran.out.lines().filter(|l| !l.starts_with("pod ")).collect();
    assert_eq!(found, expected.lines().collect::<Vec<_>>());
    stage.expect_nothing_left();
}

#[test]
fn a_pod_has_name_address_user_memory_and_mounts_of_its_own() {
    let uid = nix::unistd::geteuid().as_raw();
    facts(&Stage::new(), uid);
}

#[test]
fn an_ordinary_user_gets_the_same_pods_and_keeps_the_own_uid() {
    let uid = if Stage::is_root() { 65534 } else { nix::unistd::geteuid().as_raw() };
    facts(&Stage::ordinary(), uid);
}

#[test]
fn pods_reach_each_other_by_name_from_the_first_packet_on() {
    let stage = Stage::new();
    // The connection must not wait for a lost packet, which costs a second.
    let launcher = r#"exec python3 -c '
import socket, time
while True:
    try:
        begin = time.monotonic()
        peer = socket.create_connection(("net-worker-0-0.net", 7000), 5)
        break
    except ConnectionRefusedError:
        time.sleep(0.01)
print(peer.recv(100).decode(), time.monotonic() - begin < 0.5)'"#;
    let worker = r#"exec python3 -c '
import signal, socket, sys
signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
server = socket.create_server(("", 7000))
peer, address = server.accept()
peer.send(("hello " + address[0]).encode()); peer.close()
signal.pause()'"#;
    let ran = stage.run(&["run", "-N", "2", "--name", "net", "--", "x"], launcher, worker);
    assert_eq!((ran.code, ran.out.as_str()), (0, "hello 10.244.0.2 True\n"), "{}", ran.err);
}

#[test]
fn shared_memory_processes_and_semaphores_are_apart() {
    let stage = Stage::new();
    let done = stage.path("seen");
    let launcher = format!(
        "echo secret > /dev/shm/x; ipcmk -Q >/dev/null; sleep 600 & \
         touch {0}.go; while [ ! -s {0} ]; do sleep 0.01; done; cat {0}",
        done.display()
    );
    let worker = format!(
        "while [ ! -e {0}.go ]; do sleep 0.01; done; \
         echo \"$(ls /dev/shm | wc -l) $(ipcs -q | grep -c 0x) $(ps -e -o comm= | grep -c sleep)\" > {0}.tmp; \
         mv {0}.tmp {0}; {STAY}",
        done.display()
    );
    let ran = stage.run(&["run", "-N", "2", "--", "x"], &launcher, &worker);
    assert_eq!((ran.code, ran.out.as_str()), (0, "0 0 0\n"), "{}", ran.err);
}

#[test]
fn programs_of_equal_pids_on_two_pods_do_not_meet_in_temporary_files() {
    let stage = Stage::new();
    let done = stage.path("seen");
    // What Open MPI 5 does: a directory named by the PID, removed at the end. Both are PID 1.
    let launcher = format!(
        "mkdir $TMPDIR/ompi.$$ && touch {0}.go; while [ ! -s {0} ]; do sleep 0.01; done; \
         cat {0}; rmdir $TMPDIR/ompi.$$ && echo whole",
        done.display()
    );
    let worker = format!(
        "while [ ! -e {0}.go ]; do sleep 0.01; done; \
         mkdir $TMPDIR/ompi.$$ && rmdir $TMPDIR/ompi.$$ && echo $TMPDIR > {0}.tmp; \
         mv {0}.tmp {0}; {STAY}",
        done.display()
    );
    let ran = stage.run(&["run", "-N", "2", "--", "x"], &launcher, &worker);
    assert_eq!((ran.code, ran.out.as_str()), (0, "/quorate/tmp\nwhole\n"), "{}", ran.err);
    stage.expect_nothing_left();
}

#[test]
fn volumes_are_mounted_where_this_machine_has_no_such_directory() {
    let stage = Stage::new();
    let file = stage.file(
        "volumes.yaml",
        "apiVersion: quorate.dev/v1alpha1\nkind: MiniCluster\nmetadata: {name: volumes}\nspec:\n  \
         template:\n    spec:\n      containers:\n      - name: main\n        volumeMounts:\n        \
         - {name: scratch, mountPath: /usr/quorate-test/deep/scratch}\n        \
         - {name: scratch, mountPath: /quorate-test-top}\n        \
         - {name: small, mountPath: /small}\n      volumes:\n      \
         - {name: scratch, emptyDir: {}}\n      \
         - {name: small, emptyDir: {medium: Memory, sizeLimit: 1Mi}}\n  program: {command: [x]}\n",
    );
    let launcher = "echo here > /quorate-test-top/file; cat /usr/quorate-test/deep/scratch/file; \
                    ls -d /usr/bin/env; head -c 2000000 /dev/zero > /small/file || echo full";
    let ran = stage.run(&["run", file.to_str().unwrap()], launcher, STAY);
    assert_eq!((ran.code, ran.out.as_str()), (0, "here\n/usr/bin/env\nfull\n"), "{}", ran.err);
    assert!(!std::path::Path::new("/usr/quorate-test").exists());
    assert!(!std::path::Path::new("/quorate-test-top").exists());
    stage.expect_nothing_left();
}

#[test]
fn without_a_sandbox_pods_are_told_their_files_and_addresses() {
    let stage = Stage::new();
    let launcher = r#"
echo "$* $QUORATE_POD_IP" | tr ' ' '\n'
while [ $# -gt 1 ]; do [ "$1" = --hosts ] && cat "$2" && echo; shift; done"#;
    let args = ["run", "--sandbox", "none", "-N", "2", "--name", "plain", "--", "x"];
    let ran = stage.run(&args, launcher, STAY);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(
        ran.err.starts_with("warning: no sandbox: pods share this machine's name"),
        "{}",
        ran.err
    );
    let words: Vec<&str> = ran.out.lines().collect();
    for flag in ["--config", "--seed-file", "--run-dir", "--termination-log", "--hosts"] {
        assert!(words.contains(&flag), "{flag} is not in {words:?}");
    }
    let ip = words.iter().find(|w| w.starts_with("127.")).unwrap();
    assert!(!ip.starts_with("127.0.0."), "{ip}");
    let book: Vec<_> = words.iter().filter(|w| w.ends_with(":8117")).collect();
    assert_eq!(book.len(), 2);
    assert!(book[0].starts_with(&format!("0 {ip}:")), "{book:?}");
    stage.expect_nothing_left();
}
