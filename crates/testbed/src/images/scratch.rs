//! Images with little in them: our own binaries, one static program, busybox.
//!
//! Owns: their content and the user they run as. Must not: add anything that a program has not asked
//! for; an image without a shell is what the tests need it for.

use super::{Config, Image, ImagesError, Layer, Name, ROOT, Recipe, debian, key, programs, read};
use crate::build;
use std::path::Path;

/// The user of images that need none of their own: not root, and known to no one else.
const NOBODY: &str = "65532:65532";
const STATIC: &str = "tests/programs/static.c";

/// The tools that a shell script of a test may call; the others stay callable as `busybox TOOL`.
const APPLETS: &[&str] = &[
    "awk", "cat", "chmod", "cp", "cut", "date", "dd", "df", "dirname", "echo", "env", "false",
    "find", "grep", "head", "hostname", "httpd", "id", "ip", "kill", "ln", "ls", "mkdir", "mktemp",
    "mount", "mv", "nc", "nslookup", "od", "ping", "printf", "ps", "pwd", "rm", "rmdir", "sed",
    "seq", "sh", "sleep", "sort", "stat", "sync", "tail", "tar", "tee", "test", "timeout", "touch",
    "tr", "true", "uname", "uniq", "vi", "wc", "wget", "which", "xargs", "yes",
];

/// An image with one of our static binaries at the root, under the image's name.
pub(super) fn program(name: Name, binary: &Path) -> Result<Recipe<'_>, ImagesError> {
    if !binary.is_file() {
        let remedy = "cargo xtask dist";
        return Err(ImagesError::Missing { path: binary.to_path_buf(), remedy });
    }
    let content = read(binary)?;
    if goblin::elf::Elf::parse(&content).is_ok_and(|elf| elf.interpreter.is_some()) {
        return Err(ImagesError::Dynamic { path: binary.to_path_buf() });
    }
    Ok(Recipe {
        key: key(&[SELF, &content]),
        make: Box::new(move |_| {
            let path = format!("/{name}");
            let mut layer = Layer::new();
            layer.file(&path, 0o755, content);
            let config =
                Config { entrypoint: vec![path], user: NOBODY.into(), ..Config::default() };
            Ok(Image { name: name.full(), config, layer })
        }),
    })
}

/// The image without shell and library.
pub(super) fn static_program() -> Result<Recipe<'static>, ImagesError> {
    let source = build::workspace_root().join(STATIC);
    let text = read(&source)?;
    Ok(Recipe {
        key: key(&[SELF, &text]),
        make: Box::new(move |_| {
            let folder = tempfile::tempdir().map_err(|error| ImagesError::Write {
                path: std::env::temp_dir(),
                source: error,
            })?;
            let program = folder.path().join("program");
            programs::compile_static(&source, &program)?;
            let mut layer = Layer::new();
            layer.file("program", 0o755, read(&program)?);
            let config = Config {
                entrypoint: vec!["/program".into()],
                user: NOBODY.into(),
                ..Config::default()
            };
            Ok(Image { name: Name::StaticProgram.full(), config, layer })
        }),
    })
}

/// Busybox under the names of its tools.
pub(super) fn busybox() -> Recipe<'static> {
    Recipe {
        key: key(&[SELF, debian::key().as_bytes()]),
        make: Box::new(|say| {
            let root = debian::root(say)?;
            let mut layer = Layer::new();
            layer
                .copy("bin/busybox", 0o755, root.join("usr/bin/busybox"))
                .file("etc/passwd", 0o644, "root:x:0:0:root:/:/bin/sh\n")
                .file("etc/group", 0o644, "root:x:0:\n")
                .folder("tmp", 0o1777, ROOT);
            for applet in APPLETS {
                layer.link(&format!("bin/{applet}"), "busybox");
            }
            let config = Config {
                command: vec!["/bin/sh".into()],
                environment: vec!["PATH=/bin".into()],
                user: NOBODY.into(),
                ..Config::default()
            };
            Ok(Image { name: Name::Busybox.full(), config, layer })
        }),
    }
}

/// What decides the content beside the inputs: this file and those that write images.
const SELF: &[u8] = concat!(
    include_str!("scratch.rs"),
    include_str!("layer.rs"),
    include_str!("archive.rs"),
    include_str!("programs.rs"),
)
.as_bytes();

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn the_agents_image_is_the_agent_alone_and_not_roots() {
        let folder = tempfile::tempdir().unwrap();
        let binary = folder.path().join("built");
        fs::write(&binary, "agent").unwrap();
        let recipe = program(Name::Agent, &binary).unwrap();
        let first = recipe.key.clone();
        let image = (recipe.make)(&mut |_| {}).unwrap();
        assert_eq!(image.config.entrypoint, ["/quorate-agent"]);
        assert_eq!(image.config.user, "65532:65532");
        let mut only = Layer::new();
        only.file("quorate-agent", 0o755, "agent");
        assert_eq!(image.layer, only);
        fs::write(&binary, "another agent").unwrap();
        assert_ne!(program(Name::Agent, &binary).unwrap().key, first);
    }

    #[test]
    fn a_dynamic_agent_is_refused() {
        // The test itself is one.
        let error = program(Name::Agent, &std::env::current_exe().unwrap()).err().unwrap();
        assert_eq!(error.reason(), "BinaryDynamic");
    }

    #[test]
    fn the_static_program_needs_no_interpreter() {
        let image = (static_program().unwrap().make)(&mut |_| {}).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("image.tar");
        let digest = image.write(&path).unwrap();
        let again = (static_program().unwrap().make)(&mut |_| {}).unwrap();
        assert_eq!(again.write(&path).unwrap(), digest);

        let program = folder.path().join("program");
        programs::compile_static(&build::workspace_root().join(STATIC), &program).unwrap();
        let bytes = fs::read(&program).unwrap();
        let elf = goblin::elf::Elf::parse(&bytes).unwrap();
        assert_eq!(elf.interpreter, None);
        assert!(elf.libraries.is_empty());
    }
}
