//! Who leads: a total function of what was seen, by whom, when.
//!
//! Must not: read a clock or talk to anybody.

use std::time::Duration;

/// A moment of this process's own steady clock, counted from its start.
pub type Moment = Duration;

/// How long a term lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// A Lease that does not change for this long is free.
    pub duration: Duration,
    /// A leader that could not renew for this long stops; less than `duration`.
    pub renew_deadline: Duration,
}

/// A timing that would allow two leaders, or none for long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TimingError {
    /// The leader would stop after its follower has begun.
    #[error(
        "the renew deadline ({deadline:?}) must be less than the lease duration ({duration:?})"
    )]
    DeadlineTooLong {
        /// The deadline asked for.
        deadline: Duration,
        /// The duration asked for.
        duration: Duration,
    },
    /// One late answer would end a term.
    #[error(
        "the renew deadline ({deadline:?}) must be more than a third of the lease duration \
         ({duration:?}), which is how often the lease is renewed"
    )]
    DeadlineTooShort {
        /// The deadline asked for.
        deadline: Duration,
        /// The duration asked for.
        duration: Duration,
    },
}

impl Timing {
    /// Checks that a leader stops before its follower begins, and has more than one try to renew.
    pub fn new(duration: Duration, renew_deadline: Duration) -> Result<Self, TimingError> {
        let deadline = renew_deadline;
        if deadline >= duration {
            return Err(TimingError::DeadlineTooLong { deadline, duration });
        }
        if deadline <= duration / 3 {
            return Err(TimingError::DeadlineTooShort { deadline, duration });
        }
        Ok(Self { duration, renew_deadline })
    }

    /// A leader renews this often.
    pub fn renew_every(&self) -> Duration {
        self.duration / 3
    }

    /// What a write may take that passed the fence in its last moment.
    pub fn grace(&self) -> Duration {
        self.duration.saturating_sub(self.renew_deadline)
    }
}

/// What a Lease says of its holder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Holder {
    /// `spec.holderIdentity`; `None` or empty if the Lease was given up.
    pub identity: Option<String>,
    /// `spec.leaseDurationSeconds`; the holder's own, since it may differ from the reader's.
    pub duration: Option<Duration>,
}

/// A Lease as it was last read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sight {
    /// `metadata.resourceVersion`.
    pub version: String,
    /// Who holds it.
    pub holder: Holder,
    /// When this reader first saw this version.
    pub since: Moment,
}

/// A term of this process as leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Term {
    /// When the last confirmed acquire or renewal was *sent*.
    pub sent: Moment,
}

/// What a candidate knows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct View {
    /// The Lease; `None` if there is none.
    pub lease: Option<Sight>,
    /// This process's term; `None` for a follower.
    pub term: Option<Term>,
}

/// What to do now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Take the Lease: create it, or replace the version that was seen.
    Acquire,
    /// Replace the Lease with a new renew time.
    Renew,
    /// Nothing until then, or until the Lease changes.
    Wait {
        /// When to decide again.
        until: Moment,
    },
    /// The term is over: stop the work, then go on as a follower.
    Lost {
        /// Why, for people.
        why: Loss,
    },
}

/// Why a term ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Loss {
    /// No renewal was confirmed within the deadline.
    Deadline,
    /// Another holds the Lease.
    Taken {
        /// Who.
        by: String,
    },
    /// The Lease was given up in this process's name.
    Released,
    /// The Lease was deleted.
    Deleted,
}

impl Loss {
    /// One word for logs and metrics.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Deadline => "RenewDeadline",
            Self::Taken { .. } => "Taken",
            Self::Released => "Released",
            Self::Deleted => "Deleted",
        }
    }
}

/// What `me` does at `now`.
///
/// A Lease found in one's own name at the start is a former life's in the same pod, which the
/// kubelet has seen end: it is taken at once. Two live processes must not share an identity.
pub fn decide(view: &View, me: &str, timing: &Timing, now: Moment) -> Decision {
    match view.term {
        Some(term) => lead(view.lease.as_ref(), term, me, timing, now),
        None => follow(view.lease.as_ref(), me, timing, now),
    }
}

fn lead(lease: Option<&Sight>, term: Term, me: &str, timing: &Timing, now: Moment) -> Decision {
    if now >= term.sent + timing.renew_deadline {
        return Decision::Lost { why: Loss::Deadline };
    }
    let Some(lease) = lease else { return Decision::Lost { why: Loss::Deleted } };
    match lease.holder.identity.as_deref() {
        Some(holder) if holder == me => {}
        None | Some("") => return Decision::Lost { why: Loss::Released },
        Some(other) => return Decision::Lost { why: Loss::Taken { by: other.to_owned() } },
    }
    let next = term.sent + timing.renew_every();
    if now >= next { Decision::Renew } else { Decision::Wait { until: next } }
}

fn follow(lease: Option<&Sight>, me: &str, timing: &Timing, now: Moment) -> Decision {
    let Some(lease) = lease else { return Decision::Acquire };
    match lease.holder.identity.as_deref() {
        None | Some("") => return Decision::Acquire,
        Some(holder) if holder == me => return Decision::Acquire,
        Some(_) => {}
    }
    // The longer of both, so that neither a holder with longer terms nor one that wrote no
    // duration is cut short.
    let lasts = lease.holder.duration.unwrap_or_default().max(timing.duration);
    let free = lease.since + lasts;
    if now >= free { Decision::Acquire } else { Decision::Wait { until: free } }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMING: Timing =
        Timing { duration: Duration::from_secs(15), renew_deadline: Duration::from_secs(10) };

    fn at(seconds: u64) -> Moment {
        Duration::from_secs(seconds)
    }

    fn held(by: &str, since: u64) -> Sight {
        let identity = (!by.is_empty()).then(|| by.to_owned());
        let holder = Holder { identity, duration: Some(Duration::from_secs(15)) };
        Sight { version: "7".into(), holder, since: at(since) }
    }

    #[test]
    fn every_case_has_its_decision() {
        let lost = |why| Decision::Lost { why };
        let taken = || Loss::Taken { by: "b".into() };
        let term = |sent| Some(Term { sent: at(sent) });
        let cases = [
            ("no lease yet", None, None, 0, Decision::Acquire),
            ("given up", Some(held("", 100)), None, 100, Decision::Acquire),
            ("own former life", Some(held("a", 100)), None, 100, Decision::Acquire),
            (
                "another's, fresh",
                Some(held("b", 100)),
                None,
                101,
                Decision::Wait { until: at(115) },
            ),
            (
                "another's, just not free",
                Some(held("b", 100)),
                None,
                114,
                Decision::Wait { until: at(115) },
            ),
            ("another's, free", Some(held("b", 100)), None, 115, Decision::Acquire),
            (
                "leader, early",
                Some(held("a", 100)),
                term(100),
                101,
                Decision::Wait { until: at(105) },
            ),
            ("leader, a third gone", Some(held("a", 100)), term(100), 105, Decision::Renew),
            ("leader, last moment", Some(held("a", 100)), term(100), 109, Decision::Renew),
            ("leader, too late", Some(held("a", 100)), term(100), 110, lost(Loss::Deadline)),
            ("leader, robbed", Some(held("b", 104)), term(100), 104, lost(taken())),
            ("leader, released", Some(held("", 104)), term(100), 104, lost(Loss::Released)),
            ("leader, lease deleted", None, term(100), 104, lost(Loss::Deleted)),
        ];
        for (name, lease, term, now, expected) in cases {
            assert_eq!(decide(&View { lease, term }, "a", &TIMING, at(now)), expected, "{name}");
        }
    }

    #[test]
    fn a_holder_with_longer_terms_is_not_cut_short() {
        let mut lease = held("b", 100);
        lease.holder.duration = Some(Duration::from_mins(1));
        let view = View { lease: Some(lease), term: None };
        assert_eq!(decide(&view, "a", &TIMING, at(150)), Decision::Wait { until: at(160) });
    }

    #[test]
    fn timings_that_allow_two_leaders_are_refused() {
        let seconds = Duration::from_secs;
        assert!(Timing::new(seconds(15), seconds(10)).is_ok());
        for (duration, deadline) in [(15, 15), (15, 20), (15, 5), (15, 0), (0, 0)] {
            assert!(Timing::new(seconds(duration), seconds(deadline)).is_err());
        }
    }
}
