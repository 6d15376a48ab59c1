//! One file system layer of an image, as a tar whose bytes depend on nothing but its content.
//!
//! Owns: entries sorted by path, no time stamps, owners by number only, parents always before
//! their children. Must not: take modes, owners or times from the machine that builds.
//!
//! Format: the layer part of the OCI image specification, in ustar with GNU long names.

use super::ImagesError;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use tar::{EntryType, Header};

/// The owner of an entry, by number: an image has no need of names for that.
pub type Owner = u32;

/// Root, the owner of everything that a program must not change.
pub const ROOT: Owner = 0;

/// What stands at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Node {
    Folder {
        mode: u32,
        owner: Owner,
    },
    Bytes {
        mode: u32,
        content: Vec<u8>,
    },
    /// A file of the building machine, read when the layer is written.
    Copy {
        mode: u32,
        from: PathBuf,
    },
    Link {
        target: String,
    },
}

/// A layer; see the module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layer {
    nodes: BTreeMap<String, Node>,
}

impl Layer {
    /// An empty layer.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a folder with its permission bits. Folders that only lead to something are added by
    /// themselves, 0755 and root's.
    pub fn folder(&mut self, path: &str, mode: u32, owner: Owner) -> &mut Self {
        self.put(path, Node::Folder { mode, owner })
    }

    /// Adds a file of root's with this content.
    pub fn file(&mut self, path: &str, mode: u32, content: impl Into<Vec<u8>>) -> &mut Self {
        self.put(path, Node::Bytes { mode, content: content.into() })
    }

    /// Adds a file of root's with the content of a file of this machine.
    pub fn copy(&mut self, path: &str, mode: u32, from: impl Into<PathBuf>) -> &mut Self {
        self.put(path, Node::Copy { mode, from: from.into() })
    }

    /// Adds a symbolic link, its target as it will be read inside the image.
    pub fn link(&mut self, path: &str, target: impl Into<String>) -> &mut Self {
        self.put(path, Node::Link { target: target.into() })
    }

    /// Whether something stands at the path.
    pub fn contains(&self, path: &str) -> bool {
        self.nodes.contains_key(key(path))
    }

    fn put(&mut self, path: &str, node: Node) -> &mut Self {
        let path = key(path);
        for (at, _) in path.match_indices('/') {
            self.nodes
                .entry(path[..at].to_owned())
                .or_insert(Node::Folder { mode: 0o755, owner: ROOT });
        }
        self.nodes.insert(path.to_owned(), node);
        self
    }

    /// Writes the tar. Equal layers give equal bytes.
    pub(super) fn write(&self, out: impl Write) -> Result<(), ImagesError> {
        let mut tar = tar::Builder::new(out);
        for (path, node) in &self.nodes {
            append(&mut tar, path, node).map_err(|source| ImagesError::Layer {
                path: match node {
                    Node::Copy { from, .. } => from.clone(),
                    _ => Path::new(path).to_path_buf(),
                },
                source,
            })?;
        }
        tar.finish().map_err(|source| ImagesError::Layer { path: PathBuf::from("/"), source })
    }
}

/// Paths are kept without the leading slash, as tar has them.
fn key(path: &str) -> &str {
    path.trim_start_matches('/')
}

fn append(tar: &mut tar::Builder<impl Write>, path: &str, node: &Node) -> io::Result<()> {
    let mut header = Header::new_gnu();
    header.set_uid(u64::from(ROOT));
    header.set_gid(u64::from(ROOT));
    header.set_mtime(0);
    header.set_size(0);
    match node {
        Node::Folder { mode, owner } => {
            header.set_entry_type(EntryType::Directory);
            header.set_mode(*mode);
            header.set_uid(u64::from(*owner));
            header.set_gid(u64::from(*owner));
            tar.append_data(&mut header, format!("{path}/"), io::empty())
        }
        Node::Bytes { mode, content } => {
            header.set_mode(*mode);
            header.set_size(content.len() as u64);
            tar.append_data(&mut header, path, content.as_slice())
        }
        Node::Copy { mode, from } => {
            let file = File::open(from)?;
            header.set_mode(*mode);
            header.set_size(file.metadata()?.len());
            tar.append_data(&mut header, path, file)
        }
        Node::Link { target } => {
            header.set_entry_type(EntryType::Symlink);
            header.set_mode(0o777);
            tar.append_link(&mut header, path, target)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listing(layer: &Layer) -> Vec<(String, u32, u64)> {
        let mut bytes = Vec::new();
        layer.write(&mut bytes).unwrap();
        let mut archive = tar::Archive::new(bytes.as_slice());
        archive
            .entries()
            .unwrap()
            .map(|entry| {
                let entry = entry.unwrap();
                let header = entry.header();
                assert_eq!(header.mtime().unwrap(), 0);
                let path = entry.path().unwrap().display().to_string();
                (path, header.mode().unwrap(), header.uid().unwrap())
            })
            .collect()
    }

    #[test]
    fn parents_come_first_and_order_of_making_does_not_matter() {
        let mut one = Layer::new();
        one.file("/usr/bin/b", 0o755, "b").folder("tmp", 0o1777, ROOT).link("bin", "usr/bin");
        let mut two = Layer::new();
        two.link("bin", "usr/bin").file("usr/bin/b", 0o755, "b").folder("/tmp", 0o1777, ROOT);
        let listed = listing(&one);
        assert_eq!(listed, listing(&two));
        let paths: Vec<&str> = listed.iter().map(|(path, ..)| path.as_str()).collect();
        assert_eq!(paths, ["bin", "tmp/", "usr/", "usr/bin/", "usr/bin/b"]);
        assert_eq!(listed[1].1, 0o1777);
    }

    #[test]
    fn a_folder_made_by_hand_keeps_its_mode_and_owner_when_files_follow() {
        let mut layer = Layer::new();
        layer.folder("home/mpi", 0o750, 1000).file("home/mpi/.profile", 0o644, "");
        assert!(listing(&layer).contains(&("home/mpi/".into(), 0o750, 1000)));
    }

    #[test]
    fn a_long_path_survives() {
        let long = format!("usr/{}/file", "x".repeat(180));
        let mut layer = Layer::new();
        layer.file(&long, 0o644, "content");
        assert!(listing(&layer).iter().any(|(path, ..)| *path == long));
    }

    #[test]
    fn a_missing_file_is_named() {
        let mut layer = Layer::new();
        layer.copy("agent", 0o755, "/nowhere/agent");
        let error = layer.write(io::sink()).unwrap_err().to_string();
        assert!(error.contains("/nowhere/agent"), "{error}");
    }
}
