//! A command line read as getopt_long(3) reads it: long names may be shortened, letters may share a
//! dash, and the first word that is no option ends them.

use super::error::OptionError;
use super::table::{Argument, Opt, TABLE, Tool};

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
    let mut parsed = Parsed::default();
    let mut rest = words.iter();
    while let Some(word) = rest.next() {
        if word == "--" {
            parsed.operands.extend(rest.by_ref().cloned());
        } else if let Some(long) = word.strip_prefix("--") {
            let (name, given) = match long.split_once('=') {
                Some((name, value)) => (name, Some(value.to_owned())),
                None => (long, None),
            };
            let option = find(tool, name, word)?;
            let value = match (option.argument, given) {
                (Argument::No, Some(_)) => {
                    return Err(OptionError::Surplus { option: option.name });
                }
                (Argument::Required, None) => match rest.next() {
                    Some(value) => Some(value.clone()),
                    None => return Err(OptionError::Missing { option: option.name }),
                },
                (_, given) => given,
            };
            parsed.options.push((option, value));
        } else if word.len() > 1 && word.starts_with('-') {
            let mut letters = word[1..].chars();
            while let Some(letter) = letters.next() {
                let option = TABLE
                    .iter()
                    .find(|option| option.of(tool) && option.short == Some(letter))
                    .ok_or(OptionError::Letter { letter })?;
                let behind = letters.as_str();
                let value = match option.argument {
                    Argument::No => None,
                    Argument::Optional => (!behind.is_empty()).then(|| behind.to_owned()),
                    Argument::Required if behind.is_empty() => match rest.next() {
                        Some(value) => Some(value.clone()),
                        None => return Err(OptionError::LetterMissing { letter }),
                    },
                    Argument::Required => Some(behind.to_owned()),
                };
                parsed.options.push((option, value));
                if option.argument != Argument::No {
                    break;
                }
            }
        } else {
            parsed.operands.push(word.clone());
            parsed.operands.extend(rest.by_ref().cloned());
        }
    }
    Ok(parsed)
}

/// The option of that name, or the only one whose name begins with it.
fn find(tool: Tool, name: &str, word: &str) -> Result<&'static Opt, OptionError> {
    let all = || TABLE.iter().filter(|option| option.of(tool));
    if let Some(option) = all().find(|option| option.name == name) {
        return Ok(option);
    }
    let candidates: Vec<&'static Opt> =
        all().filter(|option| !name.is_empty() && option.name.starts_with(name)).collect();
    match candidates.as_slice() {
        [] => Err(OptionError::Unrecognized { option: word.to_owned() }),
        [option] => Ok(option),
        several => {
            let names: Vec<String> =
                several.iter().map(|option| format!("'--{}'", option.name)).collect();
            Err(OptionError::Ambiguous { option: word.to_owned(), possibilities: names.join(" ") })
        }
    }
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
