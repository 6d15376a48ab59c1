//! Ranks that end with success while others wait for them: the job ends with the reason, whichever
//! protocol they wait in.

use crate::typing::{cluster, code, run, stderr};

/// Says what a rank of each protocol says up to its first fence, and waits there for the answer.
/// Rank 1 ends at once with 0.
const WAIT_FOR_RANK_1: &str = r#"
import os, socket, struct, sys
rank = int(os.environ["QUORATE_TASK_RANK"])
if rank == 1:
    sys.exit(0)

def pmi1():
    s = socket.socket(fileno=int(os.environ["PMI_FD"]))
    s.sendall(b"cmd=init pmi_version=1 pmi_subversion=1\n")
    assert b"rc=0" in s.recv(4096)
    s.sendall(b"cmd=barrier_in\n")
    return s

def pmi2():
    s = socket.socket(fileno=int(os.environ["PMI_FD"]))
    s.sendall(b"cmd=init pmi_version=2 pmi_subversion=0\n")
    assert b"rc=0" in s.recv(4096)
    s.sendall(b"14    cmd=kvs-fence;")
    return s

def pmix():
    uri = os.environ["PMIX_SERVER_URI41"]
    name = os.environ["PMIX_NAMESPACE"].encode() + b"\0"
    s = socket.create_connection(("127.0.0.1", int(uri.rsplit(":", 1)[1])))
    hello = b"native\0" + struct.pack(">I", 8) + bytes(9) + name
    hello += struct.pack(">I", rank) + b"5.0.11rc1\0v41\0\x01hash\0"
    s.sendall(b"\xff" * 8 + struct.pack("<Q", len(hello)) + hello)
    assert s.recv(4096)[:4] == bytes(4)
    fence = b"\x02\x03\x02\x01\x02" + bytes([2 * len(name)]) + name + b"\xfe\xff\xff\xff\x0f\x02\x00"
    s.sendall(struct.pack(">III", 1, 100, len(fence)) + bytes(4) + fence)
    return s

s = {"pmi1": pmi1, "pmi2": pmi2, "pmix": pmix}[sys.argv[1]]()
sys.exit(4 if s.recv(4096) else 5)
"#;

#[test]
fn ranks_that_wait_for_one_that_never_initialized_do_not_hang() {
    let pods = cluster(3);
    for protocol in ["pmi1", "pmi2", "pmix"] {
        // On one pod, and on three.
        for (pods_wanted, where_it_was) in [("-N1", "launcher-0-0"), ("-N3", "worker-0-0")] {
            let tasks = if pods_wanted == "-N1" { "-n2" } else { "-n3" };
            let mpi = format!("--mpi={protocol}");
            let words =
                ["run", pods_wanted, tasks, &mpi, "python3", "-c", WAIT_FOR_RANK_1, protocol];
            let output = run(&pods, 0, &words);
            let said = stderr(&output);
            assert_eq!(code(&output), 1, "{protocol} {pods_wanted}: {said}");
            let wanted = format!(
                "rank 1 on {where_it_was} ended with code 0 without initializing MPI while other \
                 ranks waited for it"
            );
            assert!(said.contains(&wanted), "{protocol} {pods_wanted}: {said}");
        }
    }
}
