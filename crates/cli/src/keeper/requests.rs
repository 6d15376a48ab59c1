//! Requests of later callers: what is this cluster, the way into a pod, end it.

use super::{Keeper, Sandbox};
use crate::control::{Answer, Description, Finish, PodDescription, Request};
use crate::sandbox::PodAddress;
use quorate_contract::{env as names, paths};
use std::os::fd::AsFd;

impl Keeper {
    /// Answers the waiting request of a client; a client that has left is forgotten.
    pub(super) fn serve(&mut self, at: usize) {
        match self.clients[at].receive::<Request>() {
            Ok(Some((request, _))) => self.answer(at, request),
            Ok(None) | Err(_) => drop(self.clients.remove(at)),
        }
    }

    fn answer(&mut self, at: usize, request: Request) {
        let answer = match request {
            Request::Describe => Answer::Cluster(self.describe()),
            Request::Enter { pod } => {
                self.way(at, pod.as_deref());
                return;
            }
            Request::Delete => {
                self.delete();
                Answer::Ending
            }
        };
        let _ = self.clients[at].send(&answer, &[]);
    }

    /// The cluster ends because somebody wants it to.
    pub(super) fn delete(&mut self) {
        self.conclude(Finish {
            code: quorate_contract::exit::TERMINATED,
            completed: false,
            reason: "Deleted".into(),
            message: "the cluster was deleted".into(),
        });
        self.end_pods();
    }

    fn way(&mut self, at: usize, wanted: Option<&str>) {
        let pod = match wanted {
            Some(name) => self.pods.values().find(|pod| pod.id.display_name() == name),
            None => self.pods.values().find(|pod| self.is_launcher(&pod.id)),
        };
        let Some(pod) = pod else {
            let known = self.pods.values().map(|pod| pod.id.display_name()).collect();
            let message = match wanted {
                Some(name) => format!("{} has no running pod {name}", self.input.objects.name()),
                None => format!("the launcher of {} is not running", self.input.objects.name()),
            };
            let _ = self.clients[at].send(&Answer::Refused { message, known }, &[]);
            return;
        };
        let mut env = pod.env.clone();
        let sandboxed = self.input.sandbox == Sandbox::Namespaces;
        if !sandboxed {
            // The pods share one file system: each broker has its socket elsewhere.
            let socket = self.volatile(&pod.id.display_name()).join(paths::SOCKET);
            env.push((names::SOCKET.to_owned(), socket.to_string_lossy().into_owned()));
        }
        let answer = Answer::Way {
            env,
            working_dir: pod.working_dir.to_string_lossy().into_owned(),
            sandboxed,
        };
        // A descriptor of the keeper itself: the caller needs its user namespace first.
        let Ok(me) = crate::sandbox::own_descriptor() else { return };
        let _ = self.clients[at].send(&answer, &[me.as_fd(), pod.process.pidfd.as_fd()]);
    }

    fn describe(&self) -> Description {
        let running = self.pods.values().filter(|pod| pod.started).count() as u32;
        let size = self.hosts.len() as u32;
        let state = if self.ending || self.finish.is_some() {
            "Ending"
        } else if running == size {
            // Without a program of its own it waits for what people bring.
            if self.input.wants_output { "Running" } else { "Ready" }
        } else if self.input.player.attempt() > 0 {
            "Restarting"
        } else {
            "Starting"
        };
        let pods = self.pods.values().map(|pod| {
            let host = self.hosts.get(pod.ordinal as usize);
            PodDescription {
                name: pod.id.display_name(),
                host: host.map(|h| h.host_name.clone()).unwrap_or_default(),
                ip: self.address(pod.ordinal).to_string(),
                state: if pod.started { "Running" } else { "Starting" }.into(),
                rank: pod.ordinal,
            }
        });
        let mut pods: Vec<PodDescription> = pods.collect();
        pods.sort_by_key(|pod| pod.rank);
        Description {
            name: self.input.objects.name().to_owned(),
            size,
            running,
            state: state.into(),
            attempt: self.input.player.attempt(),
            age_seconds: self.started.elapsed().as_secs(),
            sandbox: self.input.sandbox.as_str().into(),
            pods,
        }
    }

    /// The address of the pod with this ordinal.
    pub(super) fn address(&self, ordinal: u32) -> std::net::Ipv4Addr {
        match self.input.sandbox {
            Sandbox::Namespaces => {
                PodAddress::new(ordinal).map_or(std::net::Ipv4Addr::UNSPECIFIED, PodAddress::ip)
            }
            Sandbox::None => super::cluster::loopback(self.loopback_block, ordinal),
        }
    }
}
