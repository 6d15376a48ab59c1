//! Verbs that ask the broker of this pod and print what it says.

pub mod overlay;
pub mod ready;
mod table;

use crate::local::{Hello, LocalError, connect};
use clap::Args;
use quorate_contract::{env, exit, paths};
use std::path::{Path, PathBuf};

/// Where the broker is.
#[derive(Clone, Debug, Args)]
pub struct Where {
    /// The broker's local socket
    #[arg(long, value_name = "PATH", env = env::SOCKET)]
    pub socket: Option<PathBuf>,
}

impl Where {
    /// The socket's path.
    pub fn path(&self) -> PathBuf {
        self.socket.clone().unwrap_or_else(|| Path::new(paths::RUN_DIR).join(paths::SOCKET))
    }
}

/// Runs a client's conversation to its end.
pub fn block_on<T>(work: impl Future<Output = T>) -> anyhow::Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    Ok(runtime.block_on(work))
}

/// Makes a call whose answer is values and an end; prints the end's error. Gives the values and
/// the code.
pub(crate) async fn ask(
    path: &Path,
    verb: &str,
    args: serde_json::Value,
) -> anyhow::Result<(Vec<bytes::Bytes>, i32)> {
    let hello = Hello { verb: verb.to_owned(), args };
    let connection = match connect(path, &hello).await {
        Ok(connection) => connection,
        Err(error @ LocalError::Connect { .. }) => {
            crate::sys::complain(&format!("{:#}", anyhow::Error::from(error)));
            return Ok((Vec::new(), exit::UNAVAILABLE));
        }
        Err(error) => return Err(error.into()),
    };
    let (values, end) = connection.finish().await?;
    if let Some(error) = end.error {
        crate::sys::complain(&error);
    }
    Ok((values, end.code))
}
