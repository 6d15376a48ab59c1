//! The matrix of options in docs/slurm.md is the table of options.

#![allow(clippy::unwrap_used, reason = "a test says by a panic what is wrong")]

use quorate_slurm::options::{Argument, Opt, TABLE, Tool, Treatment};
use std::fmt::Write as _;
use std::path::Path;

const START: &str = "<!-- options: written by `cargo xtask golden` -->\n";
const END: &str = "<!-- end of options -->\n";
const TOOLS: [Tool; 3] = [Tool::Sbatch, Tool::Srun, Tool::Salloc];

fn row(option: &Opt) -> String {
    let argument = match option.argument {
        Argument::No => "",
        Argument::Required => "=…",
        Argument::Optional => "[=…]",
    };
    let short = option.short.map_or_else(String::new, |short| format!("`-{short}` "));
    let tools: Vec<&str> =
        TOOLS.into_iter().filter(|tool| option.of(*tool)).map(Tool::name).collect();
    let tools = if tools.len() == 3 { "all".to_owned() } else { tools.join(", ") };
    let variables: Vec<String> = TOOLS
        .into_iter()
        .filter(|tool| option.of(*tool))
        .flat_map(|tool| option.variables(tool))
        .map(|name| format!("`{name}`"))
        .collect();
    let (what, text) = match option.treatment {
        Treatment::Supported(text) => ("yes", text),
        Treatment::NoEffect(text) => ("no effect", text),
        Treatment::Refused(text) => ("refused", text),
    };
    let text = text.replace('|', "\\|");
    format!(
        "| {short}`--{}{argument}` | {tools} | {} | {what} | {text} |",
        option.name,
        variables.join(" ")
    )
}

#[test]
fn the_matrix_is_that_of_the_table() {
    let mut matrix = String::new();
    let count = |wanted: fn(&Treatment) -> bool| {
        TABLE.iter().filter(|option| wanted(&option.treatment)).count()
    };
    writeln!(
        matrix,
        "{} supported, {} without effect, {} refused.\n",
        count(|each| matches!(each, Treatment::Supported(_))),
        count(|each| matches!(each, Treatment::NoEffect(_))),
        count(|each| matches!(each, Treatment::Refused(_))),
    )
    .unwrap();
    matrix.push_str("| option | commands | variables | here | remark, reason or way out |\n");
    matrix.push_str("| --- | --- | --- | --- | --- |\n");
    for option in TABLE {
        writeln!(matrix, "{}", row(option)).unwrap();
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/slurm.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = page.split_once(START).unwrap();
    let (there, after) = rest.split_once(END).unwrap();
    if std::env::var("INSTA_UPDATE").is_ok_and(|update| update == "always") {
        std::fs::write(&path, format!("{before}{START}{matrix}{END}{after}")).unwrap();
        return;
    }
    assert_eq!(there, matrix, "`cargo xtask golden` writes docs/slurm.md anew");
}
