//! News for the senders of packets that cannot be delivered.

use super::Node;
use crate::frame::{Dest, Frame, Notice, Why};
use crate::{BootId, Failure, FailureCode, Rank};

impl Node {
    /// Tells the sender of a packet that it cannot be delivered.
    pub(super) fn notify(&mut self, sender: Rank, boot: BootId, dest: &Dest, why: Why) {
        let notice = Notice {
            to: sender,
            to_boot: boot,
            about: dest.rank,
            about_boot: dest.boot,
            epoch: dest.epoch,
            why,
        };
        if sender == self.config.rank {
            self.notice(Box::new(notice), false);
        } else {
            self.forward(sender, Frame::Notice(Box::new(notice)), false);
        }
    }

    /// A notice came in: for this broker, or to pass on.
    pub(super) fn notice(&mut self, notice: Box<Notice>, from_parent: bool) {
        if notice.to != self.config.rank {
            self.forward(notice.to, Frame::Notice(notice), from_parent);
            return;
        }
        if notice.to_boot != self.config.boot {
            return;
        }
        let peer = notice.about;
        let Some(session) = self.sessions.get_mut(peer) else { return };
        if session.boot != notice.about_boot && notice.about_boot.is_known() {
            return;
        }
        if notice.why == Why::Replaced {
            self.forget_peer(peer, notice.about_boot, "was started anew");
        } else if (!session.boot.is_known() || session.boot == notice.about_boot)
            && session.epoch() == notice.epoch
        {
            let failure = if notice.why == Why::Forgotten {
                let text = format!("rank {peer} was told that this broker is lost");
                Failure::new(FailureCode::PeerLost, text)
            } else {
                let text = format!("rank {peer} is not connected");
                Failure::new(FailureCode::NotConnected, text)
            };
            self.fail_session(peer, &failure);
        }
    }
}
