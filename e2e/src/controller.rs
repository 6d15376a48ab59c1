//! A controller that runs as a process of the machine, behind a proxy of its own.
//!
//! It is the binary of the image, so what is killed here is what runs in pods. Pods cannot be reached from
//! here; what their launchers would say is then read from their readiness.

use crate::lab::Lab;
use crate::proxy::{Proxy, Script};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use quorate_testbed::images::Binaries;
use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// A controller that is killed with this value. It also ends with the thread that started it.
pub struct Controller {
    /// What lies between it and the API server.
    pub proxy: Proxy,
    child: Child,
    log: PathBuf,
}

impl Controller {
    /// Starts it for one namespace, in which its lease is too. `name` is its identity there and its user
    /// agent in the audit log. `more` are arguments; without `--agent-image` among them it is the image
    /// of the agent.
    pub fn start(lab: &Lab, name: &str, namespace: &str, more: &[&str], script: Script) -> Self {
        let folder = lab.cluster.folder().path("controllers");
        fs::create_dir_all(&folder).unwrap();
        let proxy = Proxy::start(name, &lab.cluster.kubeconfig(), script);
        let kubeconfig = folder.join(format!("{name}.kubeconfig"));
        fs::write(&kubeconfig, proxy.kubeconfig()).unwrap();
        let log = folder.join(format!("{name}.log"));
        // Appended: a controller of the same name may have been here before.
        let file = File::options().create(true).append(true).open(&log).unwrap();
        let agent = Some("--agent-image=localhost/quorate-agent:v1");
        let child = Command::new("setpriv")
            .args(["--pdeathsig", "KILL"])
            .arg(Binaries::default().controller)
            .args(agent.filter(|_| !more.iter().any(|one| one.starts_with("--agent-image="))))
            .arg("--lease-name=quorate")
            .args(["--health-address=127.0.0.1:0", "--metrics-address=127.0.0.1:0"])
            .arg(format!("--identity={name}"))
            .arg(format!("--watch-namespaces={namespace}"))
            .arg(format!("--lease-namespace={namespace}"))
            .args(more)
            .env("KUBECONFIG", &kubeconfig)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(file)
            .spawn()
            .unwrap();
        Self { proxy, child, log }
    }

    /// Kills it (-9).
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Asks it to end (SIGTERM), and waits.
    pub fn end(&mut self) -> ExitStatus {
        kill(Pid::from_raw(self.child.id().cast_signed()), Signal::SIGTERM).unwrap();
        let deadline = Instant::now() + Duration::from_mins(1);
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(Instant::now() < deadline, "it does not end:\n{}", self.log());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Whether it runs.
    pub fn runs(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// What it and its predecessors of the same name wrote.
    pub fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }
}

impl Drop for Controller {
    fn drop(&mut self) {
        self.kill();
    }
}
