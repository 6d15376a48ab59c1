//! Takes what programs need out of an unpacked distribution, and leaves the rest.
//!
//! Owns: following symbolic links and the libraries that programs name. Must not: run anything of
//! the distribution, or take a file from the machine itself.
//!
//! What a program loads by name at run time is not seen here; its recipe lists such folders.
//! Format: ELF dynamic sections as in `ld.so(8)`: DT_NEEDED, DT_RUNPATH with `$ORIGIN`, PT_INTERP.

use super::ImagesError;
use super::layer::Layer;
use goblin::elf::Elf;
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path, PathBuf};

/// Links of a merged `/usr`: what they stand for begins with `usr/`.
const MERGED: [&str; 4] = ["bin", "lib", "lib64", "sbin"];

/// Picks files of a root into a layer.
pub(super) struct Picker<'a> {
    root: &'a Path,
    layer: &'a mut Layer,
    seen: BTreeSet<PathBuf>,
}

impl<'a> Picker<'a> {
    /// A picker; the layer gets the links of a merged `/usr` at once.
    pub(super) fn new(root: &'a Path, layer: &'a mut Layer) -> Self {
        for name in MERGED {
            layer.link(name, format!("usr/{name}"));
            layer.folder(&format!("usr/{name}"), 0o755, 0);
        }
        Self { root, layer, seen: BTreeSet::new() }
    }

    /// Picks a file, a link and what it leads to, or a folder with all below; `path` is as inside
    /// the image.
    pub(super) fn pick(&mut self, path: &str) -> Result<(), ImagesError> {
        self.take(&inside(Path::new(path)))
    }

    /// Picks the libraries that a program from elsewhere needs of this root, the program itself
    /// being added at `path` by whoever has it.
    pub(super) fn libraries_of(&mut self, path: &str, program: &[u8]) -> Result<(), ImagesError> {
        self.libraries(&inside(Path::new(path)), program)
    }

    fn take(&mut self, path: &Path) -> Result<(), ImagesError> {
        if !self.seen.insert(path.to_path_buf()) {
            return Ok(());
        }
        let host = self.root.join(path);
        let failed = |source| ImagesError::Layer { path: host.clone(), source };
        let meta = fs::symlink_metadata(&host).map_err(failed)?;
        let name = path.to_string_lossy();
        if meta.is_symlink() {
            let target = fs::read_link(&host).map_err(failed)?;
            let parent = path.parent().unwrap_or(Path::new(""));
            self.layer.link(&name, target.to_string_lossy());
            return self.take(&inside(&parent.join(target)));
        }
        if meta.is_dir() {
            self.layer.folder(&name, 0o755, 0);
            for entry in fs::read_dir(&host).map_err(failed)? {
                self.take(&path.join(entry.map_err(failed)?.file_name()))?;
            }
            return Ok(());
        }
        // Whoever may run it may read it; set-uid bits have no place in a test image.
        let mode = if meta.permissions().mode() & 0o111 == 0 { 0o644 } else { 0o755 };
        self.layer.copy(&name, mode, &host);
        let bytes = fs::read(&host).map_err(failed)?;
        self.libraries(path, &bytes)
    }

    /// Follows what an ELF file names; anything else names nothing.
    fn libraries(&mut self, path: &Path, bytes: &[u8]) -> Result<(), ImagesError> {
        if !bytes.starts_with(b"\x7fELF") {
            return Ok(());
        }
        let elf = Elf::parse(bytes).map_err(|source| ImagesError::Elf {
            path: path.to_path_buf(),
            reason: source.to_string(),
        })?;
        let origin = path.parent().unwrap_or(Path::new(""));
        let mut folders: Vec<PathBuf> = elf
            .runpaths
            .iter()
            .chain(&elf.rpaths)
            .flat_map(|list| list.split(':'))
            .map(|folder| match folder.strip_prefix("$ORIGIN") {
                Some(rest) => inside(&origin.join(rest.trim_start_matches('/'))),
                None => inside(Path::new(folder)),
            })
            .collect();
        folders.push(PathBuf::from(format!("usr/lib/{}-linux-gnu", std::env::consts::ARCH)));
        folders.push(PathBuf::from("usr/lib"));
        for name in elf
            .interpreter
            .iter()
            .map(|path| path.rsplit('/').next().unwrap_or(path))
            .chain(elf.libraries.iter().copied())
        {
            // What stands in the layer already came from elsewhere, with what it needs.
            let known =
                |folder: &PathBuf| self.layer.contains(&folder.join(name).to_string_lossy());
            if folders.iter().any(known) {
                continue;
            }
            let found = folders
                .iter()
                .map(|folder| folder.join(name))
                .find(|library| fs::symlink_metadata(self.root.join(library)).is_ok());
            let Some(found) = found else {
                return Err(ImagesError::Layer {
                    path: path.to_path_buf(),
                    source: io::Error::new(
                        io::ErrorKind::NotFound,
                        format!("it needs the library {name}, which the root does not have"),
                    ),
                });
            };
            self.take(&found)?;
        }
        // The path by which the kernel finds the loader may be a link of its own.
        if let Some(loader) = elf.interpreter {
            self.take(&inside(Path::new(loader)))?;
        }
        Ok(())
    }
}

/// A path of the image as it is kept: relative, without `..`, below `usr` where `/usr` is merged.
fn inside(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::Normal(name) => plain.push(name),
            Component::ParentDir => {
                plain.pop();
            }
            Component::RootDir => plain.clear(),
            Component::CurDir | Component::Prefix(_) => {}
        }
    }
    match plain.components().next() {
        Some(Component::Normal(first)) if MERGED.iter().any(|name| first == *name) => {
            Path::new("usr").join(plain)
        }
        _ => plain,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn paths_stay_inside_and_below_usr() {
        let is = |path: &str| inside(Path::new(path)).display().to_string();
        assert_eq!(is("/bin/sh"), "usr/bin/sh");
        assert_eq!(is("usr/lib/x/../y/./z"), "usr/lib/y/z");
        assert_eq!(is("/../../etc/passwd"), "etc/passwd");
        assert_eq!(is("usr/bin//bin/sh"), "usr/bin/bin/sh");
    }

    #[test]
    fn links_bring_what_they_lead_to_and_nothing_beside_it() {
        let root = tempfile::tempdir().unwrap();
        let bin = root.path().join("usr/bin");
        fs::create_dir_all(&bin).unwrap();
        fs::write(bin.join("dash"), "#!").unwrap();
        fs::write(bin.join("other"), "#!").unwrap();
        symlink("/bin/dash", bin.join("sh")).unwrap();
        let mut layer = Layer::new();
        Picker::new(root.path(), &mut layer).pick("/bin/sh").unwrap();
        assert!(layer.contains("usr/bin/sh") && layer.contains("usr/bin/dash"));
        assert!(!layer.contains("usr/bin/other"));
    }

    #[test]
    fn a_missing_library_is_named_with_the_program_that_needs_it() {
        let root = tempfile::tempdir().unwrap();
        // The test itself is a dynamic program; the empty root has none of its libraries.
        let program = fs::read(std::env::current_exe().unwrap()).unwrap();
        let mut layer = Layer::new();
        let error = Picker::new(root.path(), &mut layer)
            .libraries_of("/opt/program", &program)
            .unwrap_err();
        let ImagesError::Layer { path, source } = error else { panic!("{error}") };
        assert_eq!(path, Path::new("opt/program"));
        assert!(source.to_string().contains("which the root does not have"), "{source}");
    }
}
