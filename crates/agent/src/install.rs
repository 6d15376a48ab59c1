//! `quorate-agent install DEST`: copies this binary into a directory, usually the volume that an
//! init container shares with the user's containers.

use anyhow::Context;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// The file's name in the directory.
pub const NAME: &str = "quorate-agent";

/// Copy this binary into a directory, for the containers that share it
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The directory, such as /quorate/bin; made if it is missing
    dest: PathBuf,
}

/// Runs the verb.
pub fn run(args: &Args) -> anyhow::Result<i32> {
    install(Path::new("/proc/self/exe"), &args.dest)?;
    Ok(quorate_contract::exit::OK)
}

/// Copies `source` to `dest/quorate-agent`, executable for all. Whoever looks sees the whole old
/// file or the whole new one; a second call finds its work done.
pub fn install(source: &Path, dest: &Path) -> anyhow::Result<()> {
    let way_out = || format!("cannot install into {}: it must be writable", dest.display());
    fs::create_dir_all(dest).with_context(way_out)?;
    let target = dest.join(NAME);
    if same(source, &target).unwrap_or(false) {
        return Ok(());
    }
    let draft = dest.join(format!(".{NAME}.{}", std::process::id()));
    let copied = copy(source, &draft).and_then(|()| fs::rename(&draft, &target));
    if copied.is_err() {
        let _ = fs::remove_file(&draft);
    }
    copied.with_context(way_out)
}

fn copy(source: &Path, draft: &Path) -> io::Result<()> {
    let mut input = File::open(source)?;
    let mut output =
        OpenOptions::new().write(true).create(true).truncate(true).mode(0o755).open(draft)?;
    io::copy(&mut input, &mut output)?;
    // The umask may have taken bits away, and other containers may run with another uid.
    output.set_permissions(fs::Permissions::from_mode(0o755))?;
    output.flush()
}

/// Whether both files have the same bytes and the target can be executed by all.
fn same(source: &Path, target: &Path) -> io::Result<bool> {
    let (mut a, mut b) = (File::open(source)?, File::open(target)?);
    let (of_a, of_b) = (a.metadata()?, b.metadata()?);
    if of_a.len() != of_b.len() || of_b.permissions().mode() & 0o777 != 0o755 {
        return Ok(false);
    }
    let (mut left, mut right) = (vec![0; 1 << 16], vec![0; 1 << 16]);
    loop {
        let count = a.read(&mut left)?;
        if count == 0 {
            return Ok(true);
        }
        b.read_exact(&mut right[..count])?;
        if left[..count] != right[..count] {
            return Ok(false);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn a_second_install_leaves_the_file_alone_and_a_new_version_replaces_it() {
        let dir = tempfile::tempdir().unwrap();
        let (source, dest) = (dir.path().join("agent"), dir.path().join("deep/bin"));
        fs::write(&source, "one").unwrap();
        install(&source, &dest).unwrap();
        let first = fs::metadata(dest.join(NAME)).unwrap();
        assert_eq!(first.permissions().mode() & 0o777, 0o755);
        install(&source, &dest).unwrap();
        assert_eq!(fs::metadata(dest.join(NAME)).unwrap().ino(), first.ino());
        fs::write(&source, "two").unwrap();
        install(&source, &dest).unwrap();
        assert_eq!(fs::read_to_string(dest.join(NAME)).unwrap(), "two");
        assert_eq!(fs::read_dir(&dest).unwrap().count(), 1, "no draft is left behind");
    }

    #[test]
    fn a_destination_that_is_a_file_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let (source, dest) = (dir.path().join("agent"), dir.path().join("taken"));
        fs::write(&source, "one").unwrap();
        fs::write(&dest, "").unwrap();
        let error = install(&source, &dest).unwrap_err().to_string();
        assert!(error.contains("taken"), "{error}");
    }
}
