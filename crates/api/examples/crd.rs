//! Writes the generated files below a root, or with `--check` says which are old:
//! `crd ROOT [--check]`. `cargo xtask crd` runs it.

use std::path::Path;
use std::process::ExitCode;

#[expect(clippy::print_stdout, reason = "what it did is its output")]
fn main() -> Result<ExitCode, Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let root = args.next().ok_or("usage: crd ROOT [--check]")?;
    let check = args.next().is_some_and(|arg| arg == "--check");
    let mut code = ExitCode::SUCCESS;
    for file in quorate_api::generated_files() {
        let path = Path::new(&root).join(file.path);
        if std::fs::read_to_string(&path).is_ok_and(|old| old == file.content) {
            continue;
        }
        if check {
            println!("{} differs from the types; run `cargo xtask crd` and commit it", file.path);
            code = ExitCode::FAILURE;
            continue;
        }
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder)?;
        }
        std::fs::write(&path, file.content)?;
        println!("written: {}", file.path);
    }
    Ok(code)
}
