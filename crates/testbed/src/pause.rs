//! The image of the container that holds a pod's namespaces: one small static program.

use crate::build::{cache_dir, workspace_root};
use crate::images::{Config, Image, ImagesError, Layer};
use ring::digest::{SHA256, digest};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What containerd calls it.
pub const NAME: &str = "localhost/pause:v1";
/// Its program, from the workspace's root.
const SOURCE: &str = "e2e/kube/pause.c";
/// Who runs it: nobody in particular, but not root.
const USER: &str = "65535:65535";

/// Why there is no such image.
#[derive(Debug, thiserror::Error)]
pub enum PauseError {
    /// A file could not be used.
    #[error("cannot use {}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// No compiler.
    #[error("cannot run cc, which must be in PATH (Debian: gcc libc6-dev)")]
    Compiler(#[source] io::Error),
    /// The compiler refused.
    #[error("{SOURCE} does not compile:\n{output}")]
    Compile {
        /// What it said.
        output: String,
    },
    /// The archive could not be written.
    #[error(transparent)]
    Image(#[from] ImagesError),
}

/// The image's archive, made once for each version of its source.
pub fn archive() -> Result<PathBuf, PauseError> {
    let source = workspace_root().join(SOURCE);
    let file = |path: &Path| {
        let path = path.to_owned();
        move |source| PauseError::File { path, source }
    };
    let text = fs::read(&source).map_err(file(&source))?;
    let hash = digest(&SHA256, &text);
    let (first, _) = hash.as_ref().split_first_chunk().expect("a SHA-256 has 32 bytes");
    let folder = cache_dir().join("images");
    let archive = folder.join(format!("pause-{:08x}.tar", u32::from_be_bytes(*first)));
    if archive.is_file() {
        return Ok(archive);
    }
    fs::create_dir_all(&folder).map_err(file(&folder))?;
    // Not under its final name: another process may do the same.
    let program = folder.join(format!("pause.{}", std::process::id()));
    let output = Command::new("cc")
        .args(["-static", "-Os", "-s", "-Wl,--build-id=none", "-o"])
        .args([&program, &source])
        .output()
        .map_err(PauseError::Compiler)?;
    if !output.status.success() {
        let output = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        return Err(PauseError::Compile { output });
    }
    let binary = fs::read(&program).map_err(file(&program))?;
    fs::remove_file(&program).map_err(file(&program))?;
    let mut layer = Layer::new();
    layer.file("pause", 0o755, binary);
    let config =
        Config { entrypoint: vec!["/pause".into()], user: USER.into(), ..Config::default() };
    Image { name: NAME.into(), config, layer }.write(&archive)?;
    Ok(archive)
}
