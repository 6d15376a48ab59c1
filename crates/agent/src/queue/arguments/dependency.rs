//! What a job waits for, as people write it: `afterok:17`, `afterany:17:18`, `singleton`, joined by commas.
//!
//! Owns: the words, which are those of Slurm and of Flux RFC 26. Pure.

use quorate_queue::{Condition, Dependency, JobId};

/// Dependencies, and whether jobs of one name wait for each other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Depends {
    pub(crate) on: Vec<Dependency>,
    pub(crate) singleton: bool,
}

/// Reads them.
pub(crate) fn dependencies(text: &str) -> Result<Depends, String> {
    let mut depends = Depends::default();
    for part in text.split(',') {
        if part == "singleton" {
            depends.singleton = true;
            continue;
        }
        let (word, jobs) = part.split_once(':').unwrap_or((part, ""));
        let on = match word {
            "after" | "afterstart" => Condition::AfterStart,
            "afterany" => Condition::AfterAny,
            "afterok" => Condition::AfterOk,
            "afternotok" => Condition::AfterNotOk,
            _ => {
                return Err(format!(
                    "`{part}` is no dependency: write after, afterany, afterok or afternotok with \
                     a job's number, as in afterok:17, or singleton"
                ));
            }
        };
        if jobs.is_empty() {
            return Err(format!("`{part}` names no job: write {word}:17"));
        }
        for job in jobs.split(':') {
            let job: JobId = job.parse().map_err(|error| format!("`{part}`: {error}"))?;
            depends.on.push(Dependency { on, job });
        }
    }
    Ok(depends)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_numbers() {
        let depends = dependencies("afterok:17:18,after:3,singleton").unwrap();
        let on = |on, job| Dependency { on, job: JobId(job) };
        assert!(depends.singleton);
        assert_eq!(
            depends.on,
            [on(Condition::AfterOk, 17), on(Condition::AfterOk, 18), on(Condition::AfterStart, 3)]
        );
        for (text, words) in [
            ("17", "is no dependency"),
            ("afterok", "names no job"),
            ("afterok:x", "`x` is not a job id"),
            ("before:3", "is no dependency"),
        ] {
            let error = dependencies(text).unwrap_err();
            assert!(error.contains(words), "{text}: {error}");
        }
    }
}
