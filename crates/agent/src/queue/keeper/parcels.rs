//! The files that were sent along with jobs: forgotten with the last job that needs them.
//!
//! Owns: which parcels are needed. The parcels themselves are [`crate::files`]'.

use super::{Keeper, opening};
use crate::files::Parcels;
use crate::queue::runner::FILES;
use quorate_queue::{Job, JobId, State};

impl Keeper {
    /// The parcel of a job's files.
    pub(super) fn parcel_of(&self, id: JobId) -> Option<&str> {
        self.queue.job(id)?.spec().options.get(FILES).map(String::as_str)
    }

    pub(super) fn parcels(&self) -> Parcels {
        Parcels::beside(&opening::directory(&self.overlay))
    }

    /// Forgets the files of a job that is over, unless another of its submission still needs them.
    pub(super) fn forget_parcel_of(&self, id: JobId) {
        let Some(parcel) = self.parcel_of(id) else { return };
        let needs = |job: &Job| {
            job.state != State::Inactive
                && job.spec().options.get(FILES).is_some_and(|its| its == parcel)
        };
        if !self.queue.jobs().any(needs) {
            self.parcels().forget(parcel);
        }
    }

    /// Forgets the files that no job needs, which a former life of this broker left.
    pub(super) fn sweep_parcels(&self) {
        let unfinished = self.queue.jobs().filter(|job| job.state != State::Inactive);
        let parcels = unfinished.filter_map(|job| job.spec().options.get(FILES).cloned());
        self.parcels().sweep(&parcels.collect());
    }
}
