//! Commands of `docs/install.md`, so that what is documented is what was run.

use std::path::PathBuf;
use std::process::Command;

/// The words of the one command of the page that begins so, with its example's placeholders filled in.
pub(crate) fn command(begins: &str) -> Vec<String> {
    let commands = all();
    let found: Vec<&String> =
        commands.iter().filter(|command| command.starts_with(begins)).collect();
    let [command] = found[..] else {
        panic!("docs/install.md has not one command `{begins}`: {commands:#?}")
    };
    let filled = command
        .replace("REGISTRY/", "localhost/")
        .replace("=TAG", "=v1")
        .replace("charts/quorate", &crate::chart())
        .replace("config/default", &crate::path("config/default").display().to_string());
    filled.split_whitespace().map(str::to_owned).collect()
}

/// Runs it with kubectl or Helm of the test cluster; `more` is added.
pub(crate) fn run(stand: &crate::Stand, begins: &str, more: &[&str]) -> String {
    let words = command(begins);
    let mut arguments: Vec<&str> = words[1..].iter().map(String::as_str).collect();
    arguments.extend(more);
    match words[0].as_str() {
        "helm" => stand.lab.helm(&arguments),
        "kubectl" => stand.lab.kubectl(&arguments),
        other => panic!("{other} is not known here"),
    }
    .unwrap_or_else(|error| panic!("{}: {error}", words.join(" ")))
}

/// Builds the images as the page says; answers where the archives are.
pub(crate) fn images() -> Vec<PathBuf> {
    let words = command("cargo run -p quorate-testbed");
    let at = words.iter().position(|word| word == "--").unwrap();
    let done = Command::new(quorate_testbed::cluster::program().unwrap())
        .args(&words[at + 1..])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{said}");
    String::from_utf8_lossy(&done.stdout).lines().map(PathBuf::from).collect()
}

/// All commands: lines of fenced blocks, joined where they go on, without remarks.
fn all() -> Vec<String> {
    let page = std::fs::read_to_string(crate::path("docs/install.md")).unwrap();
    let blocks = page.split("```").skip(1).step_by(2);
    let mut commands = Vec::new();
    for block in blocks {
        let joined = block.replace("\\\n", " ");
        let lines = joined.lines().map(|line| line.split("  #").next().unwrap_or(line).trim());
        commands.extend(lines.filter(|line| !line.is_empty()).map(str::to_owned));
    }
    commands
}
