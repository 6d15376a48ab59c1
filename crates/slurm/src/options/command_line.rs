//! A command line of the commands that make jobs: the first word that is no option ends the options.

use super::error::OptionError;
use super::table::{Opt, TABLE, Tool};
use crate::flags::{self, Flag};

/// What a command line says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Parsed {
    /// Options with their arguments, in order.
    pub options: Vec<(&'static Opt, Option<String>)>,
    /// What follows them: a script or command, and its arguments.
    pub operands: Vec<String>,
}

/// Reads the words behind the command's name.
pub fn parse(tool: Tool, words: &[String]) -> Result<Parsed, OptionError> {
    let all = || TABLE.iter().filter(|option| option.of(tool));
    let flags: Vec<Flag> =
        all().map(|&Opt { name, short, argument, .. }| Flag { name, short, argument }).collect();
    let (given, operands) = flags::read(&flags, words, false)?;
    let options = given
        .into_iter()
        .map(|(name, value)| {
            let option = all().find(|option| option.name == name);
            (option.expect("every flag is from the table"), value)
        })
        .collect();
    Ok(Parsed { options, operands })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_owned).collect()
    }

    fn read(tool: Tool, text: &str) -> String {
        match parse(tool, &words(text)) {
            Ok(parsed) => {
                let mut out: Vec<String> = parsed
                    .options
                    .iter()
                    .map(|(option, value)| match value {
                        Some(value) => format!("{}={value}", option.name),
                        None => option.name.to_owned(),
                    })
                    .collect();
                out.push("|".into());
                out.extend(parsed.operands);
                out.join(" ")
            }
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn words_are_read_as_getopt_reads_them() {
        for (text, expected) in [
            ("-n4 job.sh -n 5", "ntasks=4 | job.sh -n 5"),
            ("-n 4 --nodes=2 --time 5 x", "ntasks=4 nodes=2 time=5 | x"),
            ("-HQ -vv x", "hold quiet verbose verbose | x"),
            ("-Hn4 x", "hold ntasks=4 | x"),
            ("--nice --nice=5 5", "nice nice=5 | 5"),
            ("--part=a --job j x", "partition=a job-name=j | x"),
            ("-- -n 4", "| -n 4"),
            ("- x", "| - x"),
            ("--wrap=a=b", "wrap=a=b |"),
            ("-J=x", "job-name==x |"),
        ] {
            assert_eq!(read(Tool::Sbatch, text), expected, "{text}");
        }
        assert_eq!(
            read(Tool::Srun, "-K0 -l -I -W 5 x"),
            "kill-on-bad-exit=0 label immediate wait=5 | x"
        );
        assert_eq!(read(Tool::Sbatch, "-W x"), "wait | x");
    }

    #[test]
    fn errors_are_those_of_slurm() {
        for (tool, text, error, code) in [
            (Tool::Sbatch, "--frobnicate", "unrecognized option '--frobnicate'", 255),
            (Tool::Sbatch, "--frobnicate=3", "unrecognized option '--frobnicate=3'", 255),
            (Tool::Sbatch, "-Y", "invalid option -- 'Y'", 255),
            (Tool::Sbatch, "--hold=3", "option '--hold' doesn't allow an argument", 255),
            (Tool::Sbatch, "--ntasks", "option '--ntasks' requires an argument", 255),
            (Tool::Sbatch, "-n", "option requires an argument -- 'n'", 255),
            (
                Tool::Salloc,
                "--n",
                "option '--n' is ambiguous; possibilities: '--network' '--nice' '--no-bell' \
                 '--no-kill' '--no-shell' '--nodefile' '--nodelist' '--nodes' '--ntasks' \
                 '--ntasks-per-core' '--ntasks-per-gpu' '--ntasks-per-node' '--ntasks-per-socket' \
                 '--ntasks-per-tres'",
                255,
            ),
            (Tool::Salloc, "--export=ALL", "unrecognized option '--export=ALL'", 255),
        ] {
            let wrong = parse(tool, &words(text)).unwrap_err();
            assert_eq!(wrong.to_string(), error);
            assert_eq!(wrong.exit_code(), code);
        }
        let wrong = parse(Tool::Srun, &words("-Y")).unwrap_err();
        assert_eq!(
            wrong.lines(Tool::Srun),
            ["srun: invalid option -- 'Y'", "Try \"srun --help\" for more information"]
        );
    }
}
