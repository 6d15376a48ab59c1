//! Named queues: what they take, whether they take and start jobs, and on which nodes.

use super::{Queue, QueueError};
use crate::constraint::{Compiled, Constraint};
use crate::event::Event;
use crate::jobspec::Jobspec;
use crate::time::Time;
use serde::{Deserialize, Serialize};

/// A named queue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Lane {
    /// Its name.
    pub name: String,
    /// Whether it takes jobs.
    pub enabled: bool,
    /// Whether its jobs are started.
    pub started: bool,
    /// Why it is disabled or stopped, in the words of who did it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// The nodes it has; `None` is all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requires: Option<Constraint>,
    /// What a job of it may ask for.
    #[serde(default)]
    pub limits: Limits,
}

/// What a job may ask for; `None` is as much as it likes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Limits {
    /// Nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nodes: Option<u32>,
    /// Tasks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tasks: Option<u32>,
    /// Cores in all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cores: Option<u64>,
    /// Accelerators in all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpus: Option<u64>,
    /// Seconds of time limit: a job without one gets the default or is refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time: Option<u64>,
    /// Seconds of time limit of a job that says none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default_time: Option<u64>,
}

impl Lane {
    /// A queue that takes and starts everything.
    pub fn named(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            enabled: true,
            started: true,
            reason: String::new(),
            requires: None,
            limits: Limits::default(),
        }
    }

    /// Whether a job may ask for what it asks for; answers the time limit that it gets.
    pub(super) fn admit(&self, spec: &Jobspec) -> Result<Option<u64>, QueueError> {
        if !self.enabled {
            let (name, reason) = (self.name.clone(), self.reason.clone());
            return Err(QueueError::Disabled { name, reason });
        }
        let request = &spec.request;
        let tasks = u64::from(request.tasks);
        let most = |field, value: u64, limit: Option<u64>| match limit {
            Some(limit) if value > limit => {
                Err(QueueError::OverLimit { field, value, limit, lane: self.name.clone() })
            }
            _ => Ok(()),
        };
        let limits = &self.limits;
        let nodes = request.nodes.map_or(1, |(fewest, _)| fewest);
        most("request.nodes", nodes.into(), limits.nodes.map(u64::from))?;
        most("request.tasks", tasks, limits.tasks.map(u64::from))?;
        most("the number of cores", tasks * u64::from(request.cores_per_task), limits.cores)?;
        most("the number of accelerators", tasks * u64::from(request.gpus_per_task), limits.gpus)?;
        match (spec.time_limit.or(limits.default_time), limits.time) {
            (None, Some(limit)) => Err(QueueError::NoTimeLimit { lane: self.name.clone(), limit }),
            (time, limit) => most("timeLimit", time.unwrap_or(0), limit).map(|()| time),
        }
    }
}

/// A queue with its condition read.
#[derive(Debug)]
pub(super) struct LaneState {
    pub(super) lane: Lane,
    pub(super) condition: Option<Compiled>,
}

impl LaneState {
    pub(super) fn new(lane: Lane) -> Result<Self, QueueError> {
        let condition = match &lane.requires {
            Some(constraint) => Some(constraint.compile().map_err(|source| {
                QueueError::LaneConstraint { lane: lane.name.clone(), source }
            })?),
            None => None,
        };
        Ok(Self { lane, condition })
    }
}

impl Queue {
    /// Makes a queue as said: enables, disables, starts or stops it, or changes its limits. Jobs that it
    /// has already stay as they are.
    pub fn set_lane(&mut self, now: Time, lane: Lane) -> Result<(), QueueError> {
        let state = LaneState::new(lane.clone())?;
        self.lanes.insert(lane.name.clone(), state);
        self.restless = true;
        self.record(now, None, Event::Lane(Box::new(lane)));
        Ok(())
    }

    pub(super) fn lane_of(&self, spec: &Jobspec) -> Result<&LaneState, QueueError> {
        let name = spec.queue.as_ref().unwrap_or(&self.first_lane);
        self.lanes.get(name).ok_or_else(|| QueueError::UnknownLane {
            name: name.clone(),
            known: self.lanes.keys().map(String::as_str).collect::<Vec<_>>().join(", "),
        })
    }
}
