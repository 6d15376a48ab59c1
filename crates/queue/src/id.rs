//! Numbers of jobs.

use quorate_hostlist::IdSet;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// The number of a job: 1 for the first of a cluster, never given twice, not even after a purge or
/// a restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct JobId(pub u64);

/// Why a text is not the number of a job.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a job id: a number such as 17 is expected")]
pub struct JobIdError {
    /// The text.
    pub text: String,
}

impl fmt::Display for JobId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

impl FromStr for JobId {
    type Err = JobIdError;

    fn from_str(text: &str) -> Result<Self, JobIdError> {
        match text.parse() {
            Ok(number) if number > 0 && text.bytes().all(|byte| byte.is_ascii_digit()) => {
                Ok(Self(number))
            }
            _ => Err(JobIdError { text: text.to_owned() }),
        }
    }
}

/// The place of a job in an array of jobs. People call it `<array>_<index>`, as in Slurm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ArrayElement {
    /// The number of the array: that of its first job.
    pub array: JobId,
    /// The index of this job.
    pub index: u32,
    /// How many jobs of the array may run at once; `None` as many as fit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// All of the array.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub span: Option<ArraySpan>,
}

/// The indices of an array, as each of its jobs is told of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ArraySpan {
    /// How many there are.
    pub count: u32,
    /// The smallest.
    pub least: u32,
    /// The largest.
    pub most: u32,
    /// From the smallest to the next; 1 where there is only one.
    pub step: u32,
}

impl ArraySpan {
    /// That of a set of indices; `None` of none.
    pub fn of(indices: &IdSet) -> Option<Self> {
        let mut all = indices.iter();
        let least = all.next()?;
        let step = all.next().map_or(1, |second| second - least);
        let count = u32::try_from(indices.len()).unwrap_or(u32::MAX);
        Some(Self { count, least, most: indices.last().unwrap_or(least), step })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_positive_numbers_are_job_ids() {
        assert_eq!("17".parse(), Ok(JobId(17)));
        for text in ["", "0", "-1", "+1", "1.5", "seventeen", "18446744073709551616"] {
            assert_eq!(text.parse::<JobId>(), Err(JobIdError { text: text.into() }), "{text}");
        }
    }
}
