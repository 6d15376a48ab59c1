//! Making pods: from the player's wish to processes with links.

use super::running::RunningPod;
use super::start::{VOLATILE, VOLUMES, chain};
use super::{Keeper, Sandbox};
use crate::control::Notice;
use crate::player::PodId;
use crate::pods::{LocalPod, PodFacts};
use crate::sandbox::{self, Place, PodAddress, PodRoot, PodSandbox};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use quorate_contract::paths;
use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Letters and digits of pod names' random part, as Kubernetes uses them: no vowels, no words.
const SUFFIX: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

/// How long pods wait for the bridge. Later it still works, only the first packets are late.
const BRIDGE_LIMIT: Duration = Duration::from_secs(1);

impl Keeper {
    pub(super) fn volatile(&self, name: &str) -> PathBuf {
        self.input.dir.join(VOLATILE).join(name)
    }

    /// Files that all pods share.
    pub(super) fn write_files(&self) -> io::Result<()> {
        let objects = &self.input.objects;
        let hosts = objects.hosts_file(|ordinal| self.address(ordinal as u32));
        fs::write(self.volatile("hosts"), hosts)?;
        fs::write(self.volatile("resolv.conf"), objects.resolver_file())?;
        if self.input.sandbox == Sandbox::None {
            self.write_book()?;
        }
        Ok(())
    }

    /// Without a sandbox nothing is mounted: the agent is told where its files are.
    fn write_book(&self) -> io::Result<()> {
        let private = |name: &str, bytes: &[u8]| {
            let path = self.volatile(name);
            let mut file = OpenOptions::new()
                .write(true)
                .create(true)
                .truncate(true)
                .mode(0o600)
                .open(path)?;
            io::Write::write_all(&mut file, bytes)
        };
        let objects = &self.input.objects;
        let config =
            objects.secrets.iter().find_map(|s| s.string_data.as_ref()?.get(paths::CONFIG_KEY));
        let seed = objects.secrets.iter().find_map(|s| s.data.as_ref()?.get(paths::SEED_KEY));
        private(paths::CONFIG_KEY, config.map(String::as_bytes).unwrap_or_default())?;
        private(paths::SEED_KEY, seed.map(|s| s.0.as_slice()).unwrap_or_default())?;
        let port = config
            .and_then(|text| quorate_contract::AgentConfig::parse(text.as_bytes()).ok())
            .map_or(paths::DEFAULT_PORT, |config| config.bootstrap.port);
        let book: Vec<String> = (0..self.hosts.len() as u32)
            .map(|rank| format!("{rank} {}:{port}", self.address(rank)))
            .collect();
        private("book", book.join("\n").as_bytes())
    }

    /// Starts pods, links them all at once, and lets them go.
    pub(super) fn create_pods(&mut self, ids: Vec<PodId>) -> Result<(), String> {
        let mut links = Vec::new();
        let mut created = Vec::new();
        for id in ids {
            let (pid, address) = self.create_pod(&id)?;
            links.extend(address.map(|address| (pid, address)));
            created.push(pid.as_raw());
        }
        if let Some(network) = &mut self.network {
            network.attach(&links).map_err(|e| chain(&e))?;
            self.release(&created);
            for pid in &created {
                if let Some(pod) = self.pods.get_mut(pid) {
                    pod.process.wait_for_link();
                }
            }
            let addresses: Vec<_> = links.iter().map(|(_, address)| *address).collect();
            self.wait_for_bridge(&addresses)?;
            self.release(&created);
        }
        Ok(())
    }

    fn release(&mut self, pids: &[i32]) {
        for pid in pids {
            if let Some(pod) = self.pods.get_mut(pid) {
                pod.process.release();
            }
        }
    }

    /// The kernel takes a moment to open the bridge's ports after the links are up.
    fn wait_for_bridge(&mut self, addresses: &[PodAddress]) -> Result<(), String> {
        let Some(network) = &mut self.network else { return Ok(()) };
        let deadline = Instant::now() + BRIDGE_LIMIT;
        while !network.forwards(addresses).map_err(|e| chain(&e))? && Instant::now() < deadline {
            std::thread::sleep(Duration::from_micros(500));
        }
        Ok(())
    }

    fn create_pod(&mut self, id: &PodId) -> Result<(Pid, Option<PodAddress>), String> {
        let display = id.display_name();
        let ordinal =
            self.hosts
                .iter()
                .position(|h| h.group == id.group && h.job == id.job && h.index == id.index)
                .ok_or_else(|| format!("pod {display} is not in the plan"))? as u32;
        let host = self.hosts[ordinal as usize].host_name.clone();
        let random = |e| format!("no random numbers: {e}");
        let facts = PodFacts {
            name: format!("{host}-{}", suffix().map_err(random)?),
            uid: crate::identity::uid().map_err(random)?,
            ip: self.address(ordinal),
            id: id.clone(),
        };
        let scratch = self.input.dir.join(VOLUMES).join(&display);
        let mut pod = self.input.objects.pod(&facts, &scratch).map_err(|e| e.to_string())?;
        if let Sandbox::None = self.input.sandbox {
            pod = pod.unmounted();
        }
        let io = |what: &'static str| move |e: io::Error| format!("cannot make {what}: {e}");
        // A replaced pod starts with empty volumes.
        let _ = fs::remove_dir_all(&scratch);
        for directory in &pod.directories {
            fs::create_dir_all(directory).map_err(io("a volume"))?;
        }
        let termination_log = self.volatile(&format!("{display}.end"));
        File::create(&termination_log).map_err(io("the termination log"))?;
        let (stdio, front_ends) = self.stdio(id, &display).map_err(io("the pod's output"))?;
        let address = match self.input.sandbox {
            Sandbox::Namespaces => Some(
                PodAddress::new(ordinal)
                    .ok_or_else(|| format!("no address is left for pod {display}"))?,
            ),
            Sandbox::None => None,
        };
        if id.attempt > 0 || id.number > 0 {
            self.free_address(address)?;
        }
        let process = self.spawn(&pod, &display, &host, address, &termination_log, &stdio)?;
        let pid = process.pid;
        let grace = Duration::from_secs(pod.grace_seconds);
        let running = RunningPod::new(
            id.clone(),
            ordinal,
            process,
            pod.env,
            pod.working_dir,
            termination_log,
            grace,
            address.is_some(),
        );
        self.pods.insert(pid.as_raw(), running);
        if let Some([out, err]) = front_ends {
            self.notify(&Notice::Output { attempt: id.attempt }, &[out.as_fd(), err.as_fd()]);
        }
        Ok((pid, address))
    }

    /// Removes the link of the pod that had this place before. The kernel does so as well, but
    /// takes its time; only a successor has reason to wait for it.
    fn free_address(&mut self, address: Option<PodAddress>) -> Result<(), String> {
        match (&mut self.network, address) {
            (Some(network), Some(address)) => network.detach(address).map_err(|e| chain(&e)),
            _ => Ok(()),
        }
    }

    fn spawn(
        &self,
        pod: &LocalPod,
        display: &str,
        host: &str,
        address: Option<PodAddress>,
        termination_log: &Path,
        stdio: &[OwnedFd; 3],
    ) -> Result<sandbox::PodProcess, String> {
        let place = match address {
            Some(address) => {
                let name = self.volatile(&format!("{display}.hostname"));
                fs::write(&name, format!("{host}\n"))
                    .map_err(|e| format!("cannot write the host name: {e}"))?;
                Place::Own(PodRoot {
                    host_name: host.to_owned(),
                    address,
                    mounts: pod.mounts.clone(),
                    files: vec![
                        (self.volatile("hosts"), "/etc/hosts".into()),
                        (self.volatile("resolv.conf"), "/etc/resolv.conf".into()),
                        (name, "/etc/hostname".into()),
                    ],
                    termination_log: termination_log.to_owned(),
                })
            }
            None => Place::Plain,
        };
        let argv = match place {
            Place::Plain => self.plain_command(display, termination_log)?,
            _ => pod.argv.clone(),
        };
        let pod =
            PodSandbox { place, argv, env: pod.env.clone(), working_dir: pod.working_dir.clone() };
        let [input, output, error] = stdio;
        sandbox::spawn_pod(self.input.identity, &pod, [input, output, error]).map_err(|e| chain(&e))
    }

    /// The agent's command where nothing is mounted.
    fn plain_command(&self, display: &str, log: &Path) -> Result<Vec<String>, String> {
        let run = self.volatile(display);
        fs::create_dir_all(&run).map_err(|e| format!("cannot make the run directory: {e}"))?;
        let text = |path: &Path| path.to_string_lossy().into_owned();
        Ok(vec![
            text(&self.input.objects.agent),
            "broker".into(),
            "--config".into(),
            text(&self.volatile(paths::CONFIG_KEY)),
            "--seed-file".into(),
            text(&self.volatile(paths::SEED_KEY)),
            "--run-dir".into(),
            text(&run),
            "--termination-log".into(),
            text(log),
            "--shared-host".into(),
            "--hosts".into(),
            text(&self.volatile("book")),
        ])
    }

    /// Input, output and error of a pod. The launcher's output goes to the front while there is
    /// one, which writes the log as well; all else goes to the log directly.
    fn stdio(&self, id: &PodId, display: &str) -> io::Result<([OwnedFd; 3], Option<[OwnedFd; 2]>)> {
        let null = || File::open("/dev/null").map(OwnedFd::from);
        if self.is_launcher(id) && self.input.wants_output && self.input.front.is_some() {
            let (out, out_end) = io::pipe()?;
            let (err, err_end) = io::pipe()?;
            let input = self.input.stdin.try_clone()?;
            return Ok(([input, out_end.into(), err_end.into()], Some([out.into(), err.into()])));
        }
        let path = self.input.dir.join(format!("{display}.log"));
        let log = OpenOptions::new().create(true).append(true).open(path)?;
        Ok(([null()?, log.try_clone()?.into(), log.into()], None))
    }

    /// Starts the process in the launcher that writes live status to the front.
    pub(super) fn watch_status(&mut self, launcher: i32) {
        let Some(pod) = self.pods.get(&launcher).filter(|_| self.input.front.is_some()) else {
            return;
        };
        let (socket, agent) = match self.input.sandbox {
            Sandbox::Namespaces => {
                (Path::new(paths::RUN_DIR).to_owned(), PathBuf::from(paths::AGENT))
            }
            Sandbox::None => {
                (self.volatile(&pod.id.display_name()), self.input.objects.agent.clone())
            }
        };
        let socket = socket.join(paths::SOCKET).to_string_lossy().into_owned();
        let mut argv = vec![agent.to_string_lossy().into_owned()];
        argv.extend(["overlay", "status", "--watch", "-o", "json", "--socket"].map(String::from));
        argv.push(socket);
        let started = (|| {
            let (read, write) = io::pipe()?;
            let null: OwnedFd = File::options().read(true).write(true).open("/dev/null")?.into();
            let place = match self.input.sandbox {
                Sandbox::Namespaces => Place::Beside(pod.process.pidfd.try_clone()?),
                Sandbox::None => Place::Plain,
            };
            let process = PodSandbox {
                place,
                argv,
                env: pod.env.clone(),
                working_dir: pod.working_dir.clone(),
            };
            let write = OwnedFd::from(write);
            let process = sandbox::spawn_pod(self.input.identity, &process, [&null, &write, &null])
                .map_err(io::Error::other)?;
            io::Result::Ok((read, process))
        })();
        // Status is a comfort: without it the program still runs and its end is still reported.
        if let Ok((read, process)) = started {
            self.watcher = Some(process.pid.as_raw());
            self.notify(&Notice::Status, &[read.as_fd()]);
        }
    }
}

/// The address of a pod without a sandbox: a block of the loop-back network by cluster.
pub(super) fn loopback(block: u16, ordinal: u32) -> Ipv4Addr {
    // 127.0.0.x is left to everybody else; the last byte is never 0 or 255.
    let host = u32::from(block % 0xfe00 + 0x100) * 256 + ordinal / 254 * 256 + ordinal % 254 + 1;
    let [_, b, c, d] = host.to_be_bytes();
    Ipv4Addr::new(127, b, c, d)
}

fn suffix() -> Result<String, getrandom::Error> {
    let mut bytes = [0; 5];
    getrandom::fill(&mut bytes)?;
    Ok(bytes.iter().map(|b| char::from(SUFFIX[usize::from(*b) % SUFFIX.len()])).collect())
}

/// Kills whatever descends from this process, which adopts orphans: the end of pods without a
/// sandbox.
pub(crate) fn end_descendants() {
    loop {
        let family = descendants(std::process::id());
        if family.is_empty() {
            return;
        }
        for pid in &family {
            let _ = kill(Pid::from_raw(pid.cast_signed()), Signal::SIGKILL);
        }
        // Each pass reaps at least one of them, so the loop ends with the family.
        if nix::sys::wait::wait().is_err() {
            return;
        }
    }
}

fn descendants(root: u32) -> BTreeSet<u32> {
    let parents: Vec<(u32, u32)> = fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| {
            let pid: u32 = entry.file_name().to_str()?.parse().ok()?;
            let stat = fs::read_to_string(entry.path().join("stat")).ok()?;
            // The name is in parentheses and may hold anything; after it come state and parent.
            let parent = stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()?;
            Some((pid, parent))
        })
        .collect();
    let mut family = BTreeSet::from([root]);
    loop {
        let before = family.len();
        family.extend(
            parents
                .iter()
                .filter(|(_, p)| family.contains(p))
                .map(|(pid, _)| *pid)
                .collect::<Vec<_>>(),
        );
        if family.len() == before {
            break;
        }
    }
    family.remove(&root);
    family
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_addresses_are_distinct_and_leave_the_first_block_alone() {
        let mut seen = BTreeSet::new();
        for ordinal in 0..600 {
            let ip = loopback(0, ordinal);
            assert!(ip.octets()[1] > 0 && ip.octets()[3] != 0 && ip.octets()[3] != 255, "{ip}");
            assert!(seen.insert(ip));
        }
        assert_eq!(loopback(u16::MAX, 0).octets()[0], 127);
    }
}
