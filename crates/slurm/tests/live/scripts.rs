//! Batch scripts that sbatch refuses: what it says and its exit code, on both. Where the fault is in a
//! directive, or we know a way out, we say more, in lines behind Slurm's.

use super::lab::Lab;
use super::refusal_of_script;
use std::fs;

/// What stands behind `#SBATCH` in line 4.
const DIRECTIVES: &[&str] = &[
    "--frobnicate",
    "-Y",
    "-n x",
    "-n 0",
    "--nodes",
    "-N 4-2",
    "-t 1:2:3:4",
    "--mem=1x",
    "-J 'unclosed",
    "--export",
    "x",
    "-n 2 --hold=3",
    "--array=x",
    "--array=5-1",
    "--begin=x",
    "-d afterok:x",
    "--signal=NOSUCH",
    "--open-mode=x",
];

/// Whole scripts.
const SCRIPTS: &[&str] = &["true\n", "", "#!/bin/sh\r\ntrue\r\n", "#!/bin/sh\n\0\n"];

/// What differs.
pub(crate) fn differences(lab: &Lab) -> Vec<String> {
    let mut different = Vec::new();
    let directives = DIRECTIVES
        .iter()
        .map(|words| (format!("#!/bin/sh\n\n#SBATCH -J fine\n#SBATCH {words}\ntrue\n"), true));
    let whole = SCRIPTS.iter().map(|text| ((*text).to_owned(), false));
    for (text, line) in directives.chain(whole) {
        fs::write(lab.path("work").join("bad.sh"), &text).unwrap();
        let output = lab.output(&["sbatch", "bad.sh"]);
        let theirs = String::from_utf8(output.stderr).unwrap();
        let (lines, code) = refusal_of_script("bad.sh", &text);
        let same = lines.iter().map(String::as_str).take(theirs.lines().count());
        let named = !line || lines.iter().any(|said| said.contains("line 4"));
        if !same.eq(theirs.lines()) || output.status.code() != Some(code.into()) || !named {
            different.push(format!(
                "{text:?}\n ours   {lines:?} {code}\n theirs {theirs:?} {}",
                output.status
            ));
        }
    }
    different
}
