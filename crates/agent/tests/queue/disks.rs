//! A queue on a disk that takes nothing: one that may only be read, and one that is full.

use crate::asking::{ended, job, submit, wait_started};
use crate::durability::restart;
use crate::pods::{Pods, signal};
use crate::typing::{Marks, cluster, code, run, stderr, stdout, wait};
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A small disk in memory, until it is dropped.
struct Disk(PathBuf);

impl Disk {
    fn new(at: &Path, options: &str) -> Self {
        fs::create_dir_all(at).unwrap();
        mount(&["-t", "tmpfs", "-o", options, "none"], at);
        Self(at.to_owned())
    }

    fn writable(&self, writable: bool) {
        mount(&["-o", if writable { "remount,rw" } else { "remount,ro" }], &self.0);
    }

    /// Takes all room that is left.
    fn fill(&self) -> PathBuf {
        let path = self.0.join("filler");
        let mut file = File::create(&path).unwrap();
        while file.write_all(&[0; 512]).is_ok() {}
        path
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // Whoever has files open there goes with its own end.
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

fn mount(words: &[&str], at: &Path) {
    assert!(Command::new("mount").args(words).arg(at).status().unwrap().success());
}

/// A launcher whose log is on a disk of 256 KiB, from its second broker on. As another user than root
/// nobody can mount one: then the test of the store with `/dev/full` is all there is.
fn launcher(options: &str) -> Option<(Pods, Disk)> {
    if !nix::unistd::geteuid().is_root() {
        eprintln!("not run: to mount a small disk needs root");
        return None;
    }
    let pods = cluster(1);
    let (broker, supervisor) = (pods.broker(0), pods.supervisor(0));
    // While nobody is there.
    signal(supervisor, 19);
    signal(broker, 9);
    let disk = Disk::new(&pods.dir(0).join("queue"), options);
    signal(supervisor, 18);
    wait("the next broker", || (pods.broker(0) != broker).then_some(()));
    pods.wait_running();
    Some((pods, disk))
}

/// Takes the room that is left in the log's last page as well; gives the words of the refusal.
fn fill_log(pods: &Pods, held: u64) -> String {
    let name = "n".repeat(300);
    let id = held.to_string();
    let refused = |words: &[&str]| {
        let output = run(pods, 0, words);
        (code(&output) != 0).then(|| stderr(&output))
    };
    wait("a large entry to be refused", || {
        refused(&["submit", "--urgency", "0", "--name", &name, "true"])
    });
    wait("a small entry to be refused", || {
        refused(&["update", "--urgency", "5", &id])
            .or_else(|| refused(&["update", "--urgency", "6", &id]))
    })
}

#[test]
fn a_full_disk_refuses_jobs_with_the_reason_and_takes_them_again_when_there_is_room() {
    let Some((pods, disk)) = launcher("size=256k") else { return };
    let marks = Marks::new();
    let end = marks.path("end").display().to_string();
    let script = format!("while ! test -e {end}; do sleep 0.02; done; exit 7");
    let runs = submit(&pods, 0, &["sh", "-c", &script]);
    wait_started(&pods, runs);
    let waits = submit(&pods, 0, &["-n2", "sh", "-c", "exit 3"]);
    let held = submit(&pods, 0, &["--urgency", "0", "true"]);
    let filler = disk.fill();
    let said = fill_log(&pods, held);
    assert!(said.contains("cannot be written") && said.contains("No space left"), "{said}");
    // Although nothing waits to be written.
    pods.wait_status("told of the full disk", |status| {
        status.queue_trouble.as_ref().is_some_and(|why| why.contains("No space left"))
    });
    // What runs ends as it would, and who waits for it is told; nothing new starts.
    fs::write(&end, "").unwrap();
    assert_eq!(ended(&pods, runs), 7);
    let trouble = pods.status(0).unwrap().queue_trouble.unwrap_or_default();
    assert!(trouble.contains("No space left"), "{trouble}");
    let output = run(&pods, 0, &["submit", "true"]);
    assert!(code(&output) == 1 && stderr(&output).contains("No space left"), "{output:?}");
    assert_eq!(job(&pods, waits)["state"], "SCHED");
    fs::remove_file(filler).unwrap();
    pods.wait_status("without trouble", |status| status.queue_trouble.is_none());
    assert_eq!(ended(&pods, waits), 3);
    let next = submit(&pods, 0, &["true"]);
    assert_eq!(ended(&pods, next), 0);
    // What ended while the disk was full is in the log.
    restart(&pods);
    let standing = |id| job(&pods, id)["code"].clone();
    assert_eq!((standing(runs), standing(waits)), (7.into(), 3.into()));
}

#[test]
fn a_log_that_may_only_be_read_refuses_jobs_with_the_reason_until_it_may_be_written() {
    let Some((pods, disk)) = launcher("size=256k,ro") else { return };
    let output = run(&pods, 0, &["submit", "true"]);
    assert_eq!(code(&output), 1);
    assert!(stderr(&output).contains("Read-only file system"), "{}", stderr(&output));
    pods.wait_status("told of it", |status| {
        status.queue_trouble.as_ref().is_some_and(|why| why.contains("Read-only"))
    });
    disk.writable(true);
    restart(&pods);
    let id = wait("a job to be taken", || {
        let output = run(&pods, 0, &["submit", "true"]);
        (code(&output) == 0).then(|| stdout(&output).trim().parse::<u64>().unwrap())
    });
    assert_eq!((id, ended(&pods, id)), (1, 0));
}
