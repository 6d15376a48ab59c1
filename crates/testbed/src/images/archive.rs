//! Images as archives that a container runtime imports without any daemon.
//!
//! Owns: the documents of an image (configuration, manifest, index) and their archive. Must not:
//! know what is in an image.
//!
//! Formats: OCI image specification 1.1 (image layout, image configuration, manifest, index), in one
//! tar; the annotation `io.containerd.image.name` is what containerd calls the image after import.

use super::ImagesError;
use super::layer::Layer;
use flate2::{Compression, GzBuilder};
use ring::digest::{self, Context, SHA256};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process;

const LAYER: &str = "application/vnd.oci.image.layer.v1.tar+gzip";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const INDEX: &str = "application/vnd.oci.image.index.v1+json";

/// How containers of an image start unless the pod says otherwise.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Config {
    /// The program and its first arguments.
    pub entrypoint: Vec<String>,
    /// Arguments that a pod's `args` replace.
    pub command: Vec<String>,
    /// `NAME=value`.
    pub environment: Vec<String>,
    /// `uid:gid`, by number: kubelet cannot prove that a named user is not root.
    pub user: String,
    /// Where the program starts; empty for `/`.
    pub working_dir: String,
}

/// An image of one layer, ready to be written.
#[derive(Clone, Debug)]
pub struct Image {
    /// Its whole name, such as `localhost/busybox:v1`.
    pub name: String,
    /// How it starts.
    pub config: Config,
    /// What is in it.
    pub layer: Layer,
}

impl Image {
    /// Writes the archive and answers the digest of its manifest (`sha256:…`). Equal images give
    /// equal bytes. The file appears whole or not at all.
    pub fn write(&self, path: &Path) -> Result<String, ImagesError> {
        let (archive, digest) = self.archive()?;
        let failed = |source| ImagesError::Write { path: path.to_path_buf(), source };
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(failed)?;
        }
        let new = partial(path);
        let outcome = fs::write(&new, archive).and_then(|()| fs::rename(&new, path));
        if outcome.is_err() {
            // What remains of the attempt is of no use; the first error is the one to tell.
            let _ = fs::remove_file(&new);
        }
        outcome.map_err(failed)?;
        Ok(digest)
    }

    /// The archive and the digest of its manifest.
    fn archive(&self) -> Result<(Vec<u8>, String), ImagesError> {
        let mut tar =
            Hashing::new(GzBuilder::new().mtime(0).write(Vec::new(), Compression::new(6)));
        self.layer.write(&mut tar)?;
        let (compressor, diff_id) = tar.finish();
        let layer = compressor.finish().map_err(ImagesError::Compress)?;

        let mut blobs = BTreeMap::new();
        let layer = Blob::put(&mut blobs, LAYER, layer);
        let config = Blob::put(&mut blobs, CONFIG, document(&self.configuration(&diff_id)));
        let manifest = Blob::put(
            &mut blobs,
            MANIFEST,
            document(&json!({
                "schemaVersion": 2,
                "mediaType": MANIFEST,
                "config": config.descriptor(),
                "layers": [layer.descriptor()],
            })),
        );
        let mut entry = manifest.descriptor();
        entry["annotations"] = json!({
            "io.containerd.image.name": self.name,
            "org.opencontainers.image.ref.name": self.name.rsplit_once(':').map_or("", |(_, tag)| tag),
        });
        let index = json!({ "schemaVersion": 2, "mediaType": INDEX, "manifests": [entry] });

        let mut files = Layer::new();
        files.file("oci-layout", 0o644, document(&json!({ "imageLayoutVersion": "1.0.0" }))).file(
            "index.json",
            0o644,
            document(&index),
        );
        for (digest, content) in blobs {
            files.file(&format!("blobs/sha256/{digest}"), 0o644, content);
        }
        let mut archive = Vec::new();
        files.write(&mut archive)?;
        Ok((archive, format!("sha256:{}", manifest.digest)))
    }

    /// The image configuration. Without `created`: a time would make two builds differ.
    fn configuration(&self, diff_id: &str) -> Value {
        let mut config = json!({});
        let mut set = |name: &str, value: Value, empty: bool| {
            if !empty {
                config[name] = value;
            }
        };
        let Config { entrypoint, command, environment, user, working_dir } = &self.config;
        set("Entrypoint", json!(entrypoint), entrypoint.is_empty());
        set("Cmd", json!(command), command.is_empty());
        set("Env", json!(environment), environment.is_empty());
        set("User", json!(user), user.is_empty());
        set("WorkingDir", json!(working_dir), working_dir.is_empty());
        json!({
            "architecture": architecture(),
            "os": "linux",
            "config": config,
            "rootfs": { "type": "layers", "diff_ids": [format!("sha256:{diff_id}")] },
        })
    }
}

/// The machine's architecture, in the words of Go, which the specification uses.
fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

/// The name of a file that is still being written.
fn partial(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{}", process::id()));
    PathBuf::from(name)
}

fn document(value: &Value) -> Vec<u8> {
    value.to_string().into_bytes()
}

/// The SHA-256 of some bytes, in hexadecimal.
pub(super) fn sha256(bytes: &[u8]) -> String {
    hexadecimal(digest::digest(&SHA256, bytes).as_ref())
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing into a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// What a document says of a blob that it refers to.
struct Blob {
    media_type: &'static str,
    digest: String,
    size: usize,
}

impl Blob {
    fn put(
        blobs: &mut BTreeMap<String, Vec<u8>>,
        media_type: &'static str,
        bytes: Vec<u8>,
    ) -> Self {
        let blob = Self { media_type, digest: sha256(&bytes), size: bytes.len() };
        blobs.insert(blob.digest.clone(), bytes);
        blob
    }

    fn descriptor(&self) -> Value {
        json!({
            "mediaType": self.media_type,
            "digest": format!("sha256:{}", self.digest),
            "size": self.size,
        })
    }
}

/// A writer that also takes the digest of what passes.
struct Hashing<W> {
    inner: W,
    hash: Context,
}

impl<W: Write> Hashing<W> {
    fn new(inner: W) -> Self {
        Self { inner, hash: Context::new(&SHA256) }
    }

    fn finish(self) -> (W, String) {
        (self.inner, hexadecimal(self.hash.finish().as_ref()))
    }
}

impl<W: Write> Write for Hashing<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = self.inner.write(bytes)?;
        self.hash.update(&bytes[..taken]);
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    fn image() -> Image {
        let mut layer = Layer::new();
        layer.file("agent", 0o755, "a program").folder("tmp", 0o1777, 0);
        Image {
            name: "localhost/test:v1".into(),
            config: Config {
                entrypoint: vec!["/agent".into()],
                user: "65532:65532".into(),
                ..Config::default()
            },
            layer,
        }
    }

    fn files(archive: &[u8]) -> BTreeMap<String, Vec<u8>> {
        let mut archive = tar::Archive::new(archive);
        let mut files = BTreeMap::new();
        for entry in archive.entries().unwrap() {
            let mut entry = entry.unwrap();
            let path = entry.path().unwrap().display().to_string();
            let mut content = Vec::new();
            entry.read_to_end(&mut content).unwrap();
            files.insert(path, content);
        }
        files
    }

    #[test]
    fn an_image_built_twice_has_one_digest() {
        let folder = tempfile::tempdir().unwrap();
        let (one, two) = (folder.path().join("one.tar"), folder.path().join("two.tar"));
        let digest = image().write(&one).unwrap();
        assert_eq!(digest, image().write(&two).unwrap());
        assert_eq!(fs::read(&one).unwrap(), fs::read(&two).unwrap());
        let mut other = image();
        other.layer.file("agent", 0o755, "another program");
        assert_ne!(digest, other.write(&two).unwrap());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    }

    #[test]
    fn every_document_points_to_what_is_there() {
        let (archive, digest) = image().archive().unwrap();
        let files = files(&archive);
        let blob = |descriptor: &Value| {
            let digest = descriptor["digest"].as_str().unwrap().strip_prefix("sha256:").unwrap();
            let bytes = &files[&format!("blobs/sha256/{digest}")];
            assert_eq!(descriptor["size"], bytes.len());
            assert_eq!(sha256(bytes), digest);
            bytes
        };
        let index: Value = serde_json::from_slice(&files["index.json"]).unwrap();
        let entry = &index["manifests"][0];
        assert_eq!(entry["digest"], digest);
        assert_eq!(entry["annotations"]["io.containerd.image.name"], "localhost/test:v1");
        let manifest: Value = serde_json::from_slice(blob(entry)).unwrap();
        let config: Value = serde_json::from_slice(blob(&manifest["config"])).unwrap();
        assert_eq!(config["config"]["User"], "65532:65532");
        assert_eq!(config["config"].get("Cmd"), None);
        let mut layer = Vec::new();
        flate2::read::GzDecoder::new(blob(&manifest["layers"][0]).as_slice())
            .read_to_end(&mut layer)
            .unwrap();
        assert_eq!(config["rootfs"]["diff_ids"][0], format!("sha256:{}", sha256(&layer)));
    }
}
