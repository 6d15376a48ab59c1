//! What the tasks of a pod need before the first of them is started.
//!
//! Owns: a job's script and directory, the server that its ranks meet by, and which accelerators each
//! task is told of. Each fails with the end that the tasks then have.

use super::FILES;
use super::tasks::Tasks;
use crate::job::protocol::{Script, kind, message};
use crate::launch::outcome::TaskEnd;
use crate::launch::{accelerators, text};
use crate::process_management::{OverOverlay, Server, Ways};
use quorate_pmi::{JobSpec, Layout, Offer};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

/// In a job's directory: its script.
const SCRIPT: &str = "script";

impl Tasks<'_> {
    /// Which accelerators each task of this pod is told of: of a job of the queue, its own.
    pub(super) fn accelerators(&self, tasks: u32) -> Vec<Vec<(&'static str, String)>> {
        let membership = self.overlay.membership().borrow().clone();
        let member = membership.online.get(&self.overlay.rank());
        let share = self.launch.shares.get(self.node as usize);
        let (Some(member), Some(share)) = (member, share) else { return Vec::new() };
        let given = share.gpus.parse().unwrap_or_default();
        let nested = self.overlay.settings().outer_marks.is_some();
        let gpus = &member.inventory.gpus;
        (0..tasks)
            .map(|local| accelerators::visible(gpus, &given, (local, tasks), nested))
            .collect()
    }

    /// Writes a job's script; gives the command that runs it.
    pub(super) fn write(&self, script: &Script) -> Result<Vec<String>, TaskEnd> {
        let path = self.dir.join(SCRIPT);
        let failed = |error: std::io::Error| {
            TaskEnd::NotStarted(format!("the script cannot be written: {error}"))
        };
        std::fs::create_dir_all(&self.dir).map_err(failed)?;
        let mut file = std::fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o700)
            .open(&path)
            .map_err(failed)?;
        file.write_all(script.text.as_bytes()).map_err(failed)?;
        Ok(script.command(&text::encode(&path)))
    }

    /// The directory of the tasks.
    pub(super) async fn directory(&self) -> Result<PathBuf, TaskEnd> {
        let own = match &self.launch.command.files {
            Some(_) => self.dir.join(FILES),
            None => self.jobs.pod().cwd.clone(),
        };
        let Some(wanted) = &self.launch.command.cwd else { return Ok(own) };
        let wanted = PathBuf::from(text::decode(wanted));
        if wanted.is_dir() {
            return Ok(wanted);
        }
        let shown = wanted.display();
        if self.launch.command.cwd_required {
            return Err(TaskEnd::NotStarted(format!("the directory {shown} does not exist")));
        }
        if wanted != own {
            let pod = self.overlay.settings().display_name();
            let notice =
                format!("{pod} has no directory {shown}; its tasks start in {}", own.display());
            self.uplink.tell(message(kind::NOTICE, notice.as_bytes())).await;
        }
        Ok(own)
    }

    pub(super) fn open_server(&mut self) -> Result<(), TaskEnd> {
        let command = &self.launch.command;
        let offer: Offer = command.mpi.parse().unwrap_or_default();
        if offer == Offer::None {
            return Ok(());
        }
        let failed = |why: String| TaskEnd::NotStarted(format!("no way to offer MPI: {why}"));
        let config = self.overlay.config();
        let hosts = self
            .launch
            .placement
            .brokers
            .iter()
            .map(|(broker, _)| {
                config.host_name(*broker).unwrap_or_else(|| format!("rank-{broker}"))
            })
            .collect();
        let spec = JobSpec {
            namespace: self.launch.namespace.clone(),
            id: self.launch.job.to_string(),
            hosts,
            node_of: self.launch.placement.node_of_rank(),
            app: 0,
            universe: self.launch.universe,
        };
        let job = quorate_pmi::Job::new(spec).map_err(|error| failed(error.to_string()))?;
        let layout = Layout::new(job, self.node, self.dir.to_string_lossy())
            .map_err(|error| failed(error.to_string()))?
            .with_topology(self.jobs.topology(&self.overlay.settings().run_dir));
        let exchanger = OverOverlay {
            overlay: self.overlay.clone(),
            job: self.launch.job,
            node: self.node,
            brokers: self.launch.placement.brokers.iter().map(|(broker, _)| *broker).collect(),
        };
        let ways = Ways { offer, pmi_port: command.pmi_port };
        let server = Server::open(layout, ways, Box::new(exchanger), self.pmi_events.clone())
            .map_err(|error| failed(error.to_string()))?;
        self.jobs.serves(self.launch.job, server.clone());
        self.server = Some(server);
        Ok(())
    }
}
