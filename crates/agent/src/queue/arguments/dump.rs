//! `quorate-agent queue dump` and `queue restore`.

use super::print;
use crate::query::Where;
use crate::queue::client::{self, Own};
use crate::queue::protocol::{Put, Question};
use anyhow::Context;
use clap::Args;
use quorate_contract::exit;
use quorate_queue::JobId;
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

/// Which file.
#[derive(Debug, Args)]
pub struct DumpArgs {
    /// The file; - is standard output or standard input. It holds the environments of all jobs
    #[arg(value_name = "FILE")]
    file: PathBuf,
    #[command(flatten)]
    place: Where,
}

impl DumpArgs {
    /// Writes the queue to the file, which is whole or not there; gives the code to exit with.
    pub fn dump(&self) -> anyhow::Result<i32> {
        let hello = client::hello(&Question::Dump, Own::default());
        if self.file.as_os_str() == "-" {
            let mut out = std::io::stdout().lock();
            return client::ask(&self.place.path(), &hello, |piece| Ok(out.write_all(&piece)?));
        }
        let shown = self.file.display();
        let mut draft = self.file.clone().into_os_string();
        draft.push(".draft");
        let written = (|| -> anyhow::Result<i32> {
            let mut options = OpenOptions::new();
            options.create(true).write(true).truncate(true).mode(0o600);
            let mut file = options.open(&draft).with_context(|| format!("cannot write {shown}"))?;
            let failed = || format!("cannot write {shown}");
            let code = client::ask(&self.place.path(), &hello, |piece| {
                file.write_all(&piece).with_context(failed)
            })?;
            if code == exit::OK {
                file.sync_all().with_context(failed)?;
                std::fs::rename(&draft, &self.file).with_context(failed)?;
            }
            Ok(code)
        })();
        if !matches!(written, Ok(exit::OK)) {
            let _ = std::fs::remove_file(&draft);
        }
        written
    }

    /// Puts the file into the queue; gives the code to exit with.
    pub fn restore(&self) -> anyhow::Result<i32> {
        let mut reader: Box<dyn Read> = if self.file.as_os_str() == "-" {
            Box::new(std::io::stdin().lock())
        } else {
            let shown = self.file.display();
            Box::new(File::open(&self.file).with_context(|| format!("cannot read {shown}"))?)
        };
        let put = client::send(&self.place.path(), &Question::Restore, &mut reader)?;
        let Put { jobs, failed, begun_again, next } = match put {
            Ok(put) => put,
            Err((code, error)) => {
                crate::sys::complain(&error);
                return Ok(code);
            }
        };
        for (ids, what) in [(&failed, "have failed"), (&begun_again, "begin again")] {
            if !ids.is_empty() {
                let line = format!("jobs that had nodes {what}: {}", listed(ids));
                crate::sys::complain(&line);
            }
        }
        print(&format!("{jobs} jobs are restored; the next number is {next}\n"))?;
        Ok(exit::OK)
    }
}

fn listed(ids: &[JobId]) -> String {
    ids.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}
