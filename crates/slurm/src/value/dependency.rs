//! Dependencies on other jobs, and how people name jobs.

use super::{ValueError, digits};
use quorate_queue::{ArrayElement, Condition, JobId};

const EXPECTED: &str = "a list of dependencies such as afterok:17:18,afterany:20 or singleton";

/// A job as people name it: `17` (an array as a whole too) or `17_3`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct JobRef {
    /// The number of the job, or of the array.
    pub job: JobId,
    /// The index in the array.
    pub index: Option<u32>,
}

impl JobRef {
    /// Whether it means a job of this number and this place in an array: one that is in none, a job of
    /// an array by its index, or each job of the array.
    pub fn means(self, id: JobId, element: Option<ArrayElement>) -> bool {
        match (self.index, element) {
            (Some(index), Some(element)) => element.array == self.job && element.index == index,
            (Some(_), None) => false,
            (None, Some(element)) => element.array == self.job,
            (None, None) => id == self.job,
        }
    }
}

impl std::fmt::Display for JobRef {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.index {
            Some(index) => write!(f, "{}_{index}", self.job),
            None => self.job.fmt(f),
        }
    }
}

/// What a job waits for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dependencies {
    /// All of these must hold. A reference to an array stands for each of its jobs.
    pub on: Vec<(Condition, JobRef)>,
    /// No other active job of the user has its name.
    pub singleton: bool,
}

/// Reads `17` or `17_3`.
pub fn job_ref(text: &str) -> Option<JobRef> {
    let (job, index) = match text.split_once('_') {
        Some((job, index)) => (job, Some(u32::try_from(digits(index)?).ok()?)),
        None => (text, None),
    };
    Some(JobRef { job: job.parse().ok()?, index })
}

/// Reads `type:id[:id...][,type:id...]`. A number without a type is `afterany`, as in Slurm.
///
/// Refused, with the way out: `?` (any of several), `after:id+minutes`, `aftercorr`,
/// `afterburstbuffer`.
pub fn dependencies(text: &str) -> Result<Dependencies, ValueError> {
    let wrong = || ValueError::form(text, EXPECTED);
    let unsupported =
        |why, instead| ValueError::Unsupported { text: text.to_owned(), why, instead };
    if text.contains('?') {
        return Err(unsupported(
            "this queue cannot wait for any of several jobs, only for all",
            "part them with `,`",
        ));
    }
    let mut read = Dependencies::default();
    for part in text.split(',') {
        if part.eq_ignore_ascii_case("singleton") {
            read.singleton = true;
            continue;
        }
        let mut words = part.split(':');
        let first = words.next().unwrap_or("");
        let on = match first.to_ascii_lowercase().as_str() {
            "after" => Condition::AfterStart,
            "afterany" => Condition::AfterAny,
            "afterok" => Condition::AfterOk,
            "afternotok" => Condition::AfterNotOk,
            "aftercorr" => {
                return Err(unsupported(
                    "elements of arrays cannot wait for each other one by one",
                    "use afterok on the whole array",
                ));
            }
            "afterburstbuffer" => {
                return Err(unsupported("there are no burst buffers here", "use afterany"));
            }
            _ => {
                words = part.split(':');
                Condition::AfterAny
            }
        };
        let before = read.on.len();
        for word in words {
            if word.contains('+') {
                return Err(unsupported(
                    "a delay after the start of another job is not known to this queue",
                    "use after:id, or --begin",
                ));
            }
            read.on.push((on, job_ref(word).ok_or_else(wrong)?));
        }
        if read.on.len() == before {
            return Err(wrong());
        }
    }
    Ok(read)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dependencies_of_every_type() {
        let read =
            dependencies("afterok:17:18_3,afterany:20,singleton,after:5,afternotok:6").unwrap();
        let text: Vec<String> = read.on.iter().map(|(on, job)| format!("{on:?} {job}")).collect();
        assert_eq!(
            text,
            ["AfterOk 17", "AfterOk 18_3", "AfterAny 20", "AfterStart 5", "AfterNotOk 6"]
        );
        assert!(read.singleton);
        assert_eq!(dependencies("42").unwrap().on, [(Condition::AfterAny, job_ref("42").unwrap())]);
    }

    #[test]
    fn what_the_queue_cannot_wait_for_is_refused_with_the_way_out() {
        for (text, words) in [
            ("afterok:1?afterany:2", "part them with `,`"),
            ("after:1+5", "use after:id, or --begin"),
            ("aftercorr:1", "use afterok on the whole array"),
            ("afterburstbuffer:1", "use afterany"),
        ] {
            let error = dependencies(text).unwrap_err().to_string();
            assert!(error.ends_with(words), "{error}");
        }
        for text in
            ["", "afterok", "afterok:", "afterok:x", "sometime:3", "afterok:1,", "afterok:0", "1_"]
        {
            assert!(matches!(dependencies(text), Err(ValueError::Form { .. })), "{text}");
        }
    }

    #[test]
    fn a_reference_means_a_job_a_task_of_an_array_or_all_of_it() {
        let element =
            |index| Some(ArrayElement { array: JobId(17), index, limit: None, span: None });
        let means = |text: &str, id, element| job_ref(text).unwrap().means(JobId(id), element);
        assert!(means("17", 17, None) && !means("17", 18, None) && !means("17_1", 17, None));
        assert!(means("17", 18, element(1)) && means("17_1", 18, element(1)));
        assert!(!means("17_2", 18, element(1)) && !means("18", 18, element(1)));
    }
}
