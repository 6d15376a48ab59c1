//! Verbs for people outside of the cluster (`docs/spec/outside.md`).
//!
//! ```text
//!   quorate ──port-forward──▶ kubelet ──127.0.0.1──▶ brokers' port of the launcher ──▶ session ──▶ verb
//! ```
//!
//! Owns: who is heard, and how many at once. A connection carries no proof of anything; it is heard
//! because only the kubelet, for somebody who may forward ports, and processes of this very pod can
//! make one that comes from the loopback interface of the pod's network. What a verb does is no
//! business of this module.

mod peer;
mod session;

use crate::broker::{Overlay, Services};
use crate::job::Jobs;
use crate::settings::Settings;
use peer::Peer;
use std::sync::Arc;
use tokio::net::TcpStream;
use tokio::sync::Semaphore;

/// Callers at once. More are told so.
const CALLERS: usize = 64;

/// Why a caller is not heard.
#[derive(Debug, thiserror::Error)]
enum OutsideError {
    /// It does not come through the loopback interface.
    #[error("it comes from another host")]
    NotLoopback,
    /// The kernel does not say whose the other end is.
    #[error("its owner is not known")]
    UnknownOwner(#[source] std::io::Error),
    /// Another user of this pod.
    #[error("it belongs to uid {uid}, this broker to uid {own}")]
    OtherUser {
        /// Whose it is.
        uid: u32,
        /// Whose this broker is.
        own: u32,
    },
}

/// Adds the service, where there is somebody for whom it can be.
pub fn register(jobs: &Jobs, overlay: &Overlay, services: &mut Services) {
    if !offered(overlay.settings()) {
        return;
    }
    let room = Arc::new(Semaphore::new(CALLERS));
    let (jobs, overlay) = (jobs.clone(), overlay.clone());
    services.on_outsider(move |stream| {
        let (jobs, overlay, room) = (jobs.clone(), overlay.clone(), room.clone());
        async move {
            if let Err(error) = admit(&stream) {
                tracing::warn!(error = crate::logs::chain(&error), "a caller was turned away");
                return;
            }
            session::serve(jobs, overlay, stream, room.try_acquire_owned().ok()).await;
        }
    });
}

/// Whether this is a launcher with a network of its own: where a host's loopback interface is shared,
/// every process of the host could call.
fn offered(settings: &Settings) -> bool {
    settings.rank == 0
        && !settings.config.bootstrap.port_per_rank
        && settings.book.is_none()
        && !settings.shared_host
        && settings.outer_marks.is_none()
}

fn admit(stream: &TcpStream) -> Result<(), OutsideError> {
    let ends = stream.local_addr().and_then(|here| Ok((here, stream.peer_addr()?)));
    let (here, there) = ends.map_err(OutsideError::UnknownOwner)?;
    let peer = Peer { there, here };
    if !peer.is_loopback() {
        return Err(OutsideError::NotLoopback);
    }
    let uid = peer.owner().map_err(OutsideError::UnknownOwner)?;
    let own = nix::unistd::geteuid().as_raw();
    let rootless = std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    if peer::may_call(uid, own, &rootless) {
        return Ok(());
    }
    Err(OutsideError::OtherUser { uid, own })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::settings;

    #[test]
    fn only_a_launcher_with_a_network_of_its_own_answers() {
        let groups = [("launcher", 1), ("worker", 1)];
        assert!(offered(&settings(&groups, 0)));
        assert!(!offered(&settings(&groups, 1)), "a worker");
        let mut shared = settings(&groups, 0);
        shared.config.bootstrap.port_per_rank = true;
        assert!(!offered(&shared), "the host's network");
        let mut book = settings(&groups, 0);
        book.book = Some(std::collections::BTreeMap::default().into_iter().collect());
        assert!(!offered(&book), "without a sandbox");
        let mut nested = settings(&groups, 0);
        nested.outer_marks = Some("m".into());
        assert!(!offered(&nested), "an instance within another cluster");
    }

    #[tokio::test]
    async fn a_caller_of_this_user_on_the_loopback_interface_is_heard() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let caller = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (taken, _) = listener.accept().await.unwrap();
        admit(&taken).unwrap();
        drop(caller);
    }
}
