//! `quorate-agent overlay status|lookup|trace`.

use super::{Where, ask, block_on, table};
use crate::broker::verbs::{self, Found, Hop, StatusArgs, TargetArgs};
use crate::local::{Hello, LocalError, connect, kind};
use crate::version::Output;
use anyhow::Context;
use clap::{Args, Subcommand};
use quorate_contract::exit;
use quorate_contract::status::ClusterStatus;
use std::io::Write;
use std::path::Path;
use std::time::Duration;

/// How long `--watch` waits for a broker that is not there yet.
const ARRIVAL: Duration = Duration::from_secs(30);
/// The pause between two looks at a socket that is not there yet.
const ARRIVAL_STEP: Duration = Duration::from_millis(10);

/// Ask about the brokers of the cluster
#[derive(Debug, Subcommand)]
#[expect(missing_docs, reason = "the arguments' own documentation is the help text")]
pub enum Verb {
    Status(Status),
    Lookup(Lookup),
    Trace(Trace),
}

/// Show who is connected, who is missing and why
#[derive(Debug, Args)]
pub struct Status {
    #[command(flatten)]
    place: Where,
    /// Go on, with each change; waits for a broker that is not there yet
    #[arg(short, long)]
    watch: bool,
    /// How to print it; JSON is one object a line
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
}

/// Show which broker a rank, name or address means
#[derive(Debug, Args)]
pub struct Lookup {
    /// A rank, a pod's name in any form, or an address
    target: String,
    #[command(flatten)]
    place: Where,
    /// How to print it
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
}

/// Show the way through the tree to a broker, with round-trip times from here
#[derive(Debug, Args)]
pub struct Trace {
    /// A rank, a pod's name in any form, or an address
    target: String,
    #[command(flatten)]
    place: Where,
    /// How to print it
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
}

/// Runs a verb.
pub fn run(verb: Verb) -> anyhow::Result<i32> {
    match verb {
        Verb::Status(args) => block_on(status(args))?,
        Verb::Lookup(args) => lookup(&args),
        Verb::Trace(args) => trace(&args),
    }
}

async fn status(args: Status) -> anyhow::Result<i32> {
    let path = args.place.path();
    let asked = StatusArgs { watch: args.watch };
    let hello = Hello { verb: verbs::STATUS.to_owned(), args: serde_json::to_value(&asked)? };
    let opened =
        if args.watch { arrive(&path, &hello).await } else { connect(&path, &hello).await };
    let mut connection = match opened {
        Ok(connection) => connection,
        Err(error) => {
            crate::sys::complain(&format!("{:#}", anyhow::Error::from(error)));
            return Ok(exit::UNAVAILABLE);
        }
    };
    loop {
        match connection.recv().await {
            Ok(Some((kind::END, payload))) => {
                let end: crate::local::End = serde_json::from_slice(&payload)?;
                if let Some(error) = end.error {
                    crate::sys::complain(&error);
                }
                return Ok(end.code);
            }
            Ok(Some((_, payload))) => {
                if !print_status(&payload, args.output)? {
                    return Ok(exit::OK);
                }
            }
            // A broker that ends takes the watch with it.
            Ok(None) | Err(LocalError::Broken(_)) if args.watch => return Ok(exit::OK),
            Ok(None) => return Err(LocalError::NoEnd.into()),
            Err(error) => return Err(error.into()),
        }
    }
}

/// Waits for a broker that is not there yet.
async fn arrive(path: &Path, hello: &Hello) -> Result<crate::local::Connection, LocalError> {
    let deadline = tokio::time::Instant::now() + ARRIVAL;
    loop {
        match connect(path, hello).await {
            Err(LocalError::Connect { .. }) if tokio::time::Instant::now() < deadline => {
                tokio::time::sleep(ARRIVAL_STEP).await;
            }
            outcome => return outcome,
        }
    }
}

/// Prints one status; false when nobody reads any more.
fn print_status(payload: &[u8], output: Output) -> anyhow::Result<bool> {
    let mut text = match output {
        Output::Json => payload.to_vec(),
        Output::Text => {
            let status: ClusterStatus =
                serde_json::from_slice(payload).context("the broker's status is unreadable")?;
            table::status(&status).into_bytes()
        }
    };
    if output == Output::Json {
        text.push(b'\n');
    }
    print(&text)
}

/// Writes to stdout; false when nobody reads any more.
fn print(text: &[u8]) -> anyhow::Result<bool> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text).and_then(|()| out.flush()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(false),
        outcome => outcome.map(|()| true).context("cannot write to stdout"),
    }
}

fn lookup(args: &Lookup) -> anyhow::Result<i32> {
    let asked = serde_json::to_value(TargetArgs { target: args.target.clone() })?;
    let (values, code) = block_on(ask(&args.place.path(), verbs::LOOKUP, asked))??;
    for value in values {
        let text = match args.output {
            Output::Json => [&value[..], b"\n"].concat(),
            Output::Text => {
                let found: Found = serde_json::from_slice(&value)?;
                table::found(&found).into_bytes()
            }
        };
        print(&text)?;
    }
    Ok(code)
}

fn trace(args: &Trace) -> anyhow::Result<i32> {
    let asked = serde_json::to_value(TargetArgs { target: args.target.clone() })?;
    let (values, code) = block_on(ask(&args.place.path(), verbs::TRACE, asked))??;
    for value in values {
        let text = match args.output {
            Output::Json => [&value[..], b"\n"].concat(),
            Output::Text => {
                let hop: Hop = serde_json::from_slice(&value)?;
                table::hop(&hop).into_bytes()
            }
        };
        print(&text)?;
    }
    Ok(code)
}
