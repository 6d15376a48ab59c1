//! The image for real MPI programs: Debian's Open MPI, MPICH of its wheel, LAMMPS, and the test
//! programs compiled for both.
//!
//! Owns: which of their files the image has. Must not: have sshd, ssh or Python: that no user needs
//! them is what the tests show.
//!
//! Programs are in `/opt/tests/openmpi` and `/opt/tests/mpich`, LAMMPS's input in
//! `/opt/tests/in.melt`, MPICH in `/opt/mpich`; `mpirun` and `mpiexec` are Open MPI's.

use super::pick::Picker;
use super::programs::{self, Mpi};
use super::{Config, Image, ImagesError, Layer, Name, ROOT, Recipe, debian, key, read, run};
use crate::build;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The MPICH of the cache, as `cargo xtask mpi` names it.
const MPICH: &str = "mpich-5.0.2";
/// Where MPICH is in the image.
const PLACE: &str = "/opt/mpich";
const TESTS: &str = "opt/tests";
/// A library for networks of the past, which Open MPI's libraries are linked with all the same.
const PSM: &str = "usr/lib/libpsm1/libpsm_infinipath.so.1.16";
/// The user; a pod may run the image as any other.
const USER: u32 = 1000;

/// Programs of Debian that scripts of users call.
const PROGRAMS: &[&str] = &[
    "bash",
    "cat",
    "chmod",
    "cp",
    "cut",
    "date",
    "dirname",
    "basename",
    "echo",
    "env",
    "expr",
    "false",
    "find",
    "grep",
    "head",
    "hostname",
    "id",
    "kill",
    "ln",
    "ls",
    "mawk",
    "mkdir",
    "mktemp",
    "mv",
    "nproc",
    "printf",
    "ps",
    "pwd",
    "readlink",
    "rm",
    "sed",
    "seq",
    "sh",
    "sleep",
    "sort",
    "stat",
    "stty",
    "tail",
    "tee",
    "test",
    "timeout",
    "touch",
    "tr",
    "true",
    "uname",
    "uniq",
    "wc",
    "whoami",
    "xargs",
    "lmp",
    "mpirun.openmpi",
    "mpiexec.openmpi",
    "ompi_info",
    "orted",
    "orterun",
];

/// What Open MPI and its libraries load by name: plug-ins, texts of their messages, settings.
fn loaded() -> Vec<String> {
    let libraries = format!("usr/lib/{}-linux-gnu", std::env::consts::ARCH);
    ["openmpi/lib/openmpi3", "pmix2/lib/pmix", "ucx", "libibverbs"]
        .map(|folder| format!("{libraries}/{folder}"))
        .into_iter()
        .chain(
            ["usr/share/openmpi", "etc/openmpi", "etc/libibverbs.d", "etc/os-release"]
                .map(Into::into),
        )
        .collect()
}

/// How to build the image.
pub(super) fn recipe() -> Result<Recipe<'static>, ImagesError> {
    let root = build::workspace_root();
    let mut parts = vec![SELF.to_vec(), debian::key().into_bytes(), MPICH.as_bytes().to_vec()];
    for source in programs::SOURCES.iter().chain(&[MATRIX, MELT]) {
        parts.push(read(&root.join(source))?);
    }
    let parts: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
    Ok(Recipe { key: key(&parts), make: Box::new(make) })
}

const MATRIX: &str = "tests/programs/matrix.sh";
const MELT: &str = "examples/lammps/in.melt";

fn make(say: &mut dyn FnMut(&str)) -> Result<Image, ImagesError> {
    let root = debian::root(say)?;
    let mpich = mpich(say)?;
    let mut layer = Layer::new();

    // MPICH first: its own libraries stand before Debian's of the same names.
    let mut foreign = Vec::new();
    for name in ["mpiexec.hydra", "hydra_pmi_proxy"] {
        foreign.push((format!("{PLACE}/bin/{name}"), mpich.join("bin").join(name)));
    }
    foreign.push((format!("{PLACE}/lib/libmpi.so.12"), mpich.join("lib/libmpi.so.12")));
    for (path, file) in libraries(&mpich.join("lib/mpich"))? {
        foreign.push((format!("{PLACE}/lib/mpich/{path}"), file));
    }
    for (path, file) in &foreign {
        layer.copy(path, 0o755, file);
    }
    layer.link(&format!("{PLACE}/bin/mpiexec"), "mpiexec.hydra");
    layer.link(&format!("{PLACE}/bin/mpirun"), "mpiexec.hydra");

    let folder = tempfile::tempdir()
        .map_err(|source| ImagesError::Write { path: std::env::temp_dir(), source })?;
    for (name, mpi) in [
        ("openmpi", Mpi::OpenMpi { root: &root }),
        ("mpich", Mpi::Mpich { root: &root, prefix: &mpich, place: PLACE }),
    ] {
        for source in programs::SOURCES {
            let source = build::workspace_root().join(source);
            let stem = source.file_stem().unwrap_or_default().to_string_lossy();
            let program = folder.path().join(format!("{stem}-{name}"));
            programs::compile(&mpi, &source, &program)?;
            let path = format!("{TESTS}/{name}/{stem}");
            layer.file(&path, 0o755, read(&program)?);
            foreign.push((path, program));
        }
    }

    // A link that the package's script would have made.
    let libraries = format!("usr/lib/{}-linux-gnu", std::env::consts::ARCH);
    layer.link(&format!("{libraries}/libpsm_infinipath.so.1"), format!("/{PSM}"));

    let mut picker = Picker::new(&root, &mut layer);
    picker.pick(PSM)?;
    for name in PROGRAMS {
        picker.pick(&format!("usr/bin/{name}"))?;
    }
    for path in loaded() {
        picker.pick(&path)?;
    }
    for (path, file) in &foreign {
        picker.libraries_of(path, &read(file)?)?;
    }
    furnish(&mut layer)?;
    let config = Config {
        command: vec!["/bin/bash".into()],
        environment: vec![
            "PATH=/usr/local/bin:/usr/bin:/bin".into(),
            "HOME=/home/mpi".into(),
            "LANG=C.UTF-8".into(),
            // Over TCP MPICH's other choice, UCX, hangs in some patterns across nodes.
            "MPIR_CVAR_CH4_NETMOD=ofi".into(),
        ],
        user: format!("{USER}:{USER}"),
        working_dir: "/home/mpi".into(),
        ..Config::default()
    };
    Ok(Image { name: Name::MpiDebian.full(), config, layer })
}

/// What packages would have set up, and the files of the tests.
fn furnish(layer: &mut Layer) -> Result<(), ImagesError> {
    let root = build::workspace_root();
    layer
        .link("usr/bin/awk", "mawk")
        .link("usr/bin/mpirun", "mpirun.openmpi")
        .link("usr/bin/mpiexec", "mpiexec.openmpi")
        .file(
            "etc/passwd",
            0o644,
            format!(
                "root:x:0:0:root:/root:/bin/bash\nmpi:x:{USER}:{USER}:mpi:/home/mpi:/bin/bash\n"
            ),
        )
        .file("etc/group", 0o644, format!("root:x:0:\nmpi:x:{USER}:\n"))
        .file("etc/nsswitch.conf", 0o644, "passwd: files\ngroup: files\nhosts: files dns\n")
        .folder("home/mpi", 0o755, USER)
        .folder("root", 0o700, ROOT)
        .folder("tmp", 0o1777, ROOT)
        .folder("var/tmp", 0o1777, ROOT)
        .file(&format!("{TESTS}/matrix.sh"), 0o755, read(&root.join(MATRIX))?)
        .file(&format!("{TESTS}/in.melt"), 0o644, read(&root.join(MELT))?);
    Ok(())
}

/// The unpacked MPICH; the chore that knows its wheel gets it where it is missing.
fn mpich(say: &mut dyn FnMut(&str)) -> Result<PathBuf, ImagesError> {
    let cache = build::cache_dir();
    let prefix = cache.parent().unwrap_or(&cache).join("mpi").join(MPICH);
    if !prefix.is_dir() {
        say(&format!("fetching {MPICH}"));
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut command = Command::new(cargo);
        command.current_dir(build::workspace_root()).args(["xtask", "mpi", "setup", MPICH]);
        run(&mut command, "cargo xtask mpi setup", "install Rust's cargo")?;
    }
    Ok(prefix)
}

/// The libraries in a folder, by name. Its folders hold plug-ins for networks that no test has.
fn libraries(folder: &Path) -> Result<Vec<(String, PathBuf)>, ImagesError> {
    let failed = |source| ImagesError::Layer { path: folder.to_path_buf(), source };
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.is_file() {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            found.push((name, path));
        }
    }
    found.sort();
    Ok(found)
}

/// What decides the content beside the inputs: this file and those that write images.
const SELF: &[u8] = concat!(
    include_str!("mpi.rs"),
    include_str!("pick.rs"),
    include_str!("layer.rs"),
    include_str!("archive.rs"),
    include_str!("programs.rs"),
)
.as_bytes();
