//! The job control request as far as it is served: files and directories to remove when ranks
//! have ended. Owns the reading of its directives; the shell does the removing.

use super::status;
use super::wire::{Info, Proc, Reader, Value, WireError};
use crate::effect::{Cleanup, CleanupOf};

/// All ranks of a namespace.
pub(crate) const WILDCARD: u32 = u32::MAX - 1;

/// The most paths of one request.
const PATHS_MAX: usize = 1024;

/// What a request says.
#[derive(Clone, Debug)]
pub(crate) struct JobControl<'a> {
    targets: Vec<Proc<'a>>,
    directives: Vec<Info<'a>>,
}

impl<'a> JobControl<'a> {
    /// Reads the rest of a request.
    pub(crate) fn parse(reader: &mut Reader<'a>) -> Result<Self, WireError> {
        Ok(Self { targets: reader.list(Reader::process)?, directives: reader.list(Reader::info)? })
    }

    /// Targets and directives that it names.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.targets.len() + self.directives.len()
    }

    /// What is to be removed, or the status that says why not. `local` tells the ranks of this
    /// node: only their end is seen here.
    pub(crate) fn cleanup(
        &self,
        by: u32,
        namespace: &[u8],
        local: impl Fn(u32) -> bool,
    ) -> Result<Cleanup, i32> {
        let mut cleanup = Cleanup { by, of: self.of(namespace, local)?, ..Cleanup::default() };
        for directive in &self.directives {
            let (paths, flag) = match directive.key {
                b"pmix.reg.cleanup" => (Some(&mut cleanup.files), None),
                b"pmix.reg.cleanupdir" => (Some(&mut cleanup.directories), None),
                b"pmix.clnup.ignore" => (Some(&mut cleanup.ignore), None),
                b"pmix.clnup.recurse" => (None, Some(&mut cleanup.recursive)),
                b"pmix.clnup.empty" => (None, Some(&mut cleanup.only_empty)),
                b"pmix.clnup.lvtop" => (None, Some(&mut cleanup.leave_top)),
                _ => return Err(status::NOT_SUPPORTED),
            };
            if let Some(flag) = flag {
                *flag = directive.value.is_true();
            }
            if let Some(paths) = paths {
                let Value::Str(list) = directive.value else { return Err(status::BAD_PARAMETER) };
                add_paths(paths, list)?;
            }
        }
        let removed = || cleanup.files.iter().chain(&cleanup.directories);
        let contradicts = removed().any(|path| cleanup.ignore.contains(path));
        if contradicts || cleanup.recursive && cleanup.only_empty {
            return Err(status::CONFLICTING_CLEANUP);
        }
        if self.directives.is_empty() {
            return Err(status::NOT_SUPPORTED);
        }
        Ok(cleanup)
    }

    fn of(&self, namespace: &[u8], local: impl Fn(u32) -> bool) -> Result<CleanupOf, i32> {
        if self.targets.iter().any(|target| target.namespace != namespace) {
            return Err(status::BAD_PARAMETER);
        }
        if self.targets.is_empty() || self.targets.iter().any(|t| t.rank == WILDCARD) {
            return Ok(CleanupOf::Job);
        }
        let ranks = self.targets.iter().map(|target| target.rank).filter(|&rank| local(rank));
        Ok(CleanupOf::Ranks(ranks.collect()))
    }
}

/// Adds the paths of a list with commas: absolute, and plain text.
fn add_paths(paths: &mut Vec<String>, list: &[u8]) -> Result<(), i32> {
    let list = std::str::from_utf8(list).map_err(|_| status::BAD_PARAMETER)?;
    for path in list.split(',').filter(|path| !path.is_empty()) {
        if !path.starts_with('/') || path.contains('\0') {
            return Err(status::BAD_PARAMETER);
        }
        if paths.len() >= PATHS_MAX {
            return Err(status::OUT_OF_RESOURCE);
        }
        paths.push(path.to_owned());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const NS: &[u8] = b"ns";

    fn request<'a>(ranks: &[u32], directives: &[(&'a str, Value<'a>)]) -> JobControl<'a> {
        let info = |&(key, value): &(&'a str, Value<'a>)| Info { key: key.as_bytes(), value };
        JobControl {
            targets: ranks.iter().map(|&rank| Proc { namespace: NS, rank }).collect(),
            directives: directives.iter().map(info).collect(),
        }
    }

    fn read(request: &JobControl<'_>) -> Result<Cleanup, i32> {
        request.cleanup(1, NS, |rank| rank < 4)
    }

    #[test]
    fn files_and_directories_are_registered() {
        let cleanup = read(&request(
            &[2, 9],
            &[
                ("pmix.reg.cleanupdir", Value::Str(b"/tmp/a,/tmp/b")),
                ("pmix.clnup.recurse", Value::Bool(true)),
                ("pmix.clnup.lvtop", Value::None),
                ("pmix.reg.cleanup", Value::Str(b"/dev/shm/seg")),
                ("pmix.clnup.ignore", Value::Str(b"/tmp/a/keep")),
            ],
        ))
        .unwrap();
        assert_eq!(cleanup.of, CleanupOf::Ranks(vec![2]));
        assert_eq!(cleanup.directories, ["/tmp/a", "/tmp/b"]);
        assert_eq!(cleanup.files, ["/dev/shm/seg"]);
        assert_eq!(cleanup.ignore, ["/tmp/a/keep"]);
        assert!(cleanup.recursive && cleanup.leave_top && !cleanup.only_empty);
        let file = [("pmix.reg.cleanup", Value::Str(b"/a"))];
        assert_eq!(read(&request(&[], &file)).unwrap().of, CleanupOf::Job);
        assert_eq!(read(&request(&[2, WILDCARD], &file)).unwrap().of, CleanupOf::Job);
    }

    #[test]
    fn requests_that_make_no_sense_are_refused() {
        let file = |path| ("pmix.reg.cleanup", Value::Str(path));
        assert_eq!(read(&request(&[], &[file(b"tmp/a")])), Err(status::BAD_PARAMETER));
        assert_eq!(read(&request(&[], &[file(b"/\xff")])), Err(status::BAD_PARAMETER));
        let kill = ("pmix.jctrl.kill", Value::Bool(true));
        assert_eq!(read(&request(&[], &[file(b"/a"), kill])), Err(status::NOT_SUPPORTED));
        assert_eq!(read(&request(&[], &[])), Err(status::NOT_SUPPORTED));
        let ignore = ("pmix.clnup.ignore", Value::Str(b"/a"));
        assert_eq!(read(&request(&[], &[file(b"/a"), ignore])), Err(status::CONFLICTING_CLEANUP));
    }
}
