//! Finding the agent's binary, which every pod runs.

use crate::refusal::Refusal;
use quorate_contract::paths;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

/// The file's name.
const NAME: &str = "quorate-agent";
/// The variable that names another binary.
const VARIABLE: &str = "QUORATE_AGENT";

/// Finds the agent: the one that the user names, the one beside this program, the one in `PATH`.
pub fn find(
    variable: impl Fn(&str) -> Option<String>,
    this: Option<&Path>,
) -> Result<PathBuf, Refusal> {
    if let Some(named) = variable(VARIABLE).filter(|named| !named.is_empty()) {
        let path = PathBuf::from(&named);
        // Pods start in other directories than this program.
        let path = std::path::absolute(&path).unwrap_or(path);
        return if is_executable(&path) {
            Ok(path)
        } else {
            Err(Refusal::new(format!("{VARIABLE} names {named}, which is not an executable file"))
                .hint(format!("correct {VARIABLE} or unset it")))
        };
    }
    let beside = this.and_then(Path::parent).map(|dir| dir.join(NAME));
    let path = variable("PATH").unwrap_or_default();
    let on_path = std::env::split_paths(&path).map(|dir| dir.join(NAME));
    beside.clone().into_iter().chain(on_path).find(|path| is_executable(path)).ok_or_else(|| {
        let beside = beside.map_or_else(|| NAME.to_owned(), |path| path.display().to_string());
        Refusal::new(format!(
            "the agent {NAME} was not found: not at {beside}, {VARIABLE} is not set, and it is not in PATH"
        ))
        .hint(format!("put {NAME} beside quorate, or set {VARIABLE} to its path"))
        .hint("in a source tree: cargo build -p quorate-agent")
    })
}

/// Whether a binary needs no dynamic loader, so that it runs in any pod: it has no interpreter
/// (`PT_INTERP`, elf(5)).
pub fn is_static(path: &Path) -> std::io::Result<bool> {
    const PT_INTERP: u32 = 3;
    let bytes = std::fs::read(path)?;
    let number = |at: usize, size: usize| -> Option<u64> {
        let part = bytes.get(at..at + size)?;
        Some(part.iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte)))
    };
    // 64-bit little-endian ELF: every machine that the agent is built for.
    if bytes.get(..6) != Some(&[0x7f, b'E', b'L', b'F', 2, 1]) {
        return Ok(false);
    }
    let (Some(offset), Some(size), Some(count)) = (number(32, 8), number(54, 2), number(56, 2))
    else {
        return Ok(false);
    };
    let interpreter = (0..count).any(|n| {
        let at = offset + n * size;
        number(at as usize, 4) == Some(u64::from(PT_INTERP))
    });
    Ok(!interpreter)
}

fn is_executable(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
}

/// The agent's path inside a pod.
pub fn in_pod(sandboxed: bool, agent: &Path) -> PathBuf {
    if sandboxed { PathBuf::from(paths::AGENT) } else { agent.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn executable(dir: &Path, name: &str) -> PathBuf {
        let path = dir.join(name);
        std::fs::write(&path, "#!/bin/sh\n").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    #[test]
    fn the_variable_wins_then_the_neighbour_then_the_path() {
        let (a, b) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let on_path = executable(b.path(), NAME);
        let this = a.path().join("quorate");
        let path = |name: &str| (name == "PATH").then(|| b.path().display().to_string());
        assert_eq!(find(path, Some(&this)).unwrap(), on_path);
        let beside = executable(a.path(), NAME);
        assert_eq!(find(path, Some(&this)).unwrap(), beside);
        let named = executable(a.path(), "other");
        let variable = |name: &str| (name == VARIABLE).then(|| named.display().to_string());
        assert_eq!(find(variable, Some(&this)).unwrap(), named);
    }

    #[test]
    fn a_missing_agent_names_all_three_places() {
        let error = find(|_| None, Some(Path::new("/nowhere/quorate"))).unwrap_err().to_string();
        for place in ["/nowhere/quorate-agent", VARIABLE, "PATH"] {
            assert!(error.contains(place), "{error}");
        }
    }

    #[test]
    fn scripts_are_not_static_binaries() {
        let dir = tempfile::tempdir().unwrap();
        assert!(!is_static(&executable(dir.path(), "x")).unwrap());
    }
}
