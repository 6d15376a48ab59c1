//! `quorate-agent hosts`: the cluster's pods as a host file.

use super::files::{self, Format};
use crate::broker::{Overlay, Services};
use crate::job::client;
use crate::job::protocol::body;
use crate::local::{self, Call, Hello};
use bytes::Bytes;
use clap::{Args, ValueEnum};
use quorate_contract::exit;
use std::io::Write;
use std::path::{Path, PathBuf};

const VERB: &str = "hosts";

/// Request service on rank 0, which alone knows all pods.
const SERVICE: &str = "hosts";

/// Print the cluster's pods as a host file.
#[derive(Debug, Args)]
pub struct HostsArgs {
    /// Whose format (default: the cluster's, Open MPI's when it has none)
    #[arg(short = 'f', long, value_enum)]
    flavor: Option<Flavor>,
    /// The broker's socket
    #[arg(long, value_name = "FILE")]
    socket: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Flavor {
    /// name slots=N
    Openmpi,
    /// name:N
    Mpich,
    /// name:N
    Intel,
    /// name, once for each slot
    Plain,
}

/// Adds the verb and the service behind it.
pub(super) fn register(overlay: &Overlay, services: &mut Services) {
    let node = overlay.clone();
    services.on_request(SERVICE, move |_, format| {
        let node = node.clone();
        async move {
            let format = match &format[..] {
                b"openmpi" => Format::OpenMpi,
                b"mpich" | b"intel" => Format::Hydra,
                b"plain" => Format::Plain,
                _ => Format::of(node.config().mpi),
            };
            Ok(body(&files::render(format, &super::connected(&node))))
        }
    });
    let node = overlay.clone();
    services.on_verb(VERB, move |call| serve(node.clone(), call));
}

/// The host file of all pods, as rank 0 knows them.
pub(super) async fn file(overlay: &Overlay, format: Format) -> Result<String, String> {
    let text = overlay.request(0, SERVICE, Bytes::from_static(word(format).as_bytes())).await;
    let text = text.map_err(|error| error.to_string())?;
    serde_json::from_slice(&text).map_err(|error| error.to_string())
}

/// The word for a format in a question.
fn word(format: Format) -> &'static str {
    match format {
        Format::OpenMpi => "openmpi",
        Format::Hydra => "mpich",
        Format::Plain => "plain",
    }
}

/// The host file of the cluster that a socket leads to.
pub(super) async fn ask(socket: &Path, format: Format) -> anyhow::Result<String> {
    let hello = Hello { verb: VERB.to_string(), args: word(format).into() };
    let (payloads, end) = local::connect(socket, &hello).await?.finish().await?;
    let why = || end.error.unwrap_or_else(|| "no answer".to_owned());
    let text = payloads.first().ok_or_else(|| anyhow::Error::msg(why()))?;
    Ok(serde_json::from_slice(text)?)
}

async fn serve(overlay: Overlay, mut call: Call) {
    let format = call.hello.args.as_str().unwrap_or_default().to_string();
    let end = match overlay.request(0, SERVICE, format.into()).await {
        Ok(text) => call.connection.send(1, &text).await.map(|()| (exit::OK, None)),
        Err(error) => Ok((exit::UNAVAILABLE, Some(error.to_string()))),
    };
    if let Ok((code, error)) = end {
        let _ = call.end(code, error).await;
    }
}

impl HostsArgs {
    /// Prints the file; gives the code to exit with.
    pub fn run(self) -> i32 {
        let flavor = self.flavor.and_then(|flavor| flavor.to_possible_value());
        let format = flavor.map_or_else(String::new, |value| value.get_name().to_string());
        let hello = Hello { verb: VERB.to_string(), args: format.into() };
        let socket = client::socket(self.socket);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let answer = runtime.map_err(local::LocalError::Broken).and_then(|runtime| {
            runtime.block_on(async { local::connect(&socket, &hello).await?.finish().await })
        });
        match answer {
            Ok((payloads, end)) => {
                for payload in payloads {
                    let text: String = serde_json::from_slice(&payload).unwrap_or_default();
                    if std::io::stdout().write_all(text.as_bytes()).is_err() {
                        return exit::signaled(libc::SIGPIPE);
                    }
                }
                client::conclude(Ok(end), exit::UNAVAILABLE)
            }
            Err(error) => client::conclude(Err(error), exit::UNAVAILABLE),
        }
    }
}
