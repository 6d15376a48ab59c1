//! `quorate-agent version`: what this binary is and which formats it speaks.

use serde::Serialize;
use std::io::Write;

/// Print the version
#[derive(Debug, clap::Args)]
pub struct Args {
    /// How to print it
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
}

/// Forms of output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Output {
    /// For people
    #[default]
    Text,
    /// For programs
    Json,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Version {
    version: &'static str,
    config_version: u32,
}

/// Runs the verb.
pub fn run(args: &Args) -> anyhow::Result<i32> {
    let version = Version {
        version: env!("CARGO_PKG_VERSION"),
        config_version: quorate_contract::config::VERSION,
    };
    let mut out = std::io::stdout().lock();
    match args.output {
        Output::Text => writeln!(out, "quorate-agent {}", version.version)?,
        Output::Json => writeln!(out, "{}", serde_json::to_string(&version)?)?,
    }
    Ok(quorate_contract::exit::OK)
}
