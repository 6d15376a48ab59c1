//! Watches with a clock: every event carries the moment at which this process had read it.
//!
//! The API server ends watches when it likes, as after a change of a definition; they go on from where
//! they were.

use anyhow::{Context as _, Result, anyhow, bail};
use quorate_testbed::api::Api;
use quorate_testbed::layout::Folder;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::BufRead;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

/// Names and the like alone, which spares the server, and us, the rest.
const METADATA: &str =
    "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";

/// How much of the objects is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// Names alone.
    Metadata,
    /// The status, too.
    Status,
}

/// A change of an object.
#[derive(Debug)]
pub struct Event {
    /// When it was read.
    pub at: Instant,
    /// What happened.
    pub kind: Kind,
    /// The object after it.
    pub object: Object,
}

/// What happens to objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Kind {
    /// It is new.
    Added,
    /// It is another.
    Modified,
    /// It is gone.
    Deleted,
}

/// What is kept of an object.
#[derive(Debug, Deserialize)]
pub struct Object {
    /// Its name.
    pub metadata: Metadata,
    /// Its status; null with [`Depth::Metadata`].
    #[serde(default)]
    pub status: Value,
}

/// Which object it is.
#[derive(Debug, Deserialize)]
pub struct Metadata {
    /// The name.
    pub name: String,
    /// Where a watch goes on after this event.
    #[serde(rename = "resourceVersion")]
    version: String,
}

/// A line of a watch.
#[derive(Deserialize)]
struct Line {
    #[serde(rename = "type")]
    kind: Kind,
    object: Object,
}

/// A watch that goes on until the process ends.
#[derive(Debug)]
pub struct Watch {
    what: String,
    events: Receiver<Result<Event>>,
}

/// Where events come from.
struct Source {
    api: Api,
    query: String,
    accept: &'static str,
    version: String,
}

impl Source {
    fn open(&self) -> Result<Box<dyn BufRead + Send>> {
        let path = format!("{}{}", self.query, self.version);
        Ok(Box::new(self.api.stream(&path, self.accept)?))
    }

    /// Passes events on until the server ends the watch, or nobody listens any more, which is an error.
    fn read(&mut self, stream: impl BufRead, events: &Sender<Result<Event>>) -> Result<()> {
        for line in stream.lines() {
            let at = Instant::now();
            let line = line.context("read the watch")?;
            let line: Line = serde_json::from_str(&line)
                .with_context(|| format!("an event is not as expected: {line}"))?;
            self.version.clone_from(&line.object.metadata.version);
            let event = Event { at, kind: line.kind, object: line.object };
            events.send(Ok(event)).map_err(|_| anyhow!("nobody listens"))?;
        }
        Ok(())
    }
}

impl Watch {
    /// Watches a collection from now on; what is there already is not told. `path` may have a query.
    pub fn start(folder: &Folder, path: &str, depth: Depth) -> Result<Self> {
        let api = Api::outside(folder)?;
        let mark = if path.contains('?') { '&' } else { '?' };
        let list = api.get(&format!("{path}{mark}limit=1"))?;
        let version = list["metadata"]["resourceVersion"]
            .as_str()
            .with_context(|| format!("{path} gives no resource version"))?;
        let mut source = Source {
            api,
            query: format!("{path}{mark}watch=1&timeoutSeconds=3600&resourceVersion="),
            accept: match depth {
                Depth::Metadata => METADATA,
                Depth::Status => "application/json",
            },
            version: version.to_owned(),
        };
        // The first connection stands when this returns.
        let mut stream = source.open()?;
        let (sender, events) = mpsc::channel();
        thread::spawn(move || {
            loop {
                let ended = source.read(stream, &sender);
                stream = match ended.and_then(|()| source.open()) {
                    Ok(stream) => stream,
                    Err(error) => {
                        // Nobody may be left to tell.
                        let _ = sender.send(Err(error));
                        return;
                    }
                };
            }
        });
        Ok(Self { what: path.to_owned(), events })
    }

    /// The next event, if there is one before `deadline`.
    pub fn next(&self, deadline: Instant) -> Result<Option<Event>> {
        let left = deadline.saturating_duration_since(Instant::now());
        match self.events.recv_timeout(left) {
            Ok(event) => event.map(Some).with_context(|| format!("the watch of {}", self.what)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => bail!("the watch of {} has ended", self.what),
        }
    }

    /// Reads events until one is as wanted.
    pub fn until(
        &self,
        limit: Duration,
        what: &str,
        mut wanted: impl FnMut(&Event) -> bool,
    ) -> Result<Event> {
        let deadline = Instant::now() + limit;
        loop {
            match self.next(deadline)? {
                Some(event) if wanted(&event) => return Ok(event),
                Some(_) => {}
                None => bail!("{what}: not within {limit:?}"),
            }
        }
    }

    /// Drops what was read until now.
    pub fn forget(&self) -> Result<()> {
        while self.next(Instant::now())?.is_some() {}
        Ok(())
    }

    /// Reads events until `count` objects of new names are there; when each was.
    pub fn added(&self, count: usize, limit: Duration) -> Result<BTreeMap<String, Instant>> {
        let mut added = BTreeMap::new();
        let deadline = Instant::now() + limit;
        while added.len() < count {
            let Some(event) = self.next(deadline)? else {
                bail!("{} of {count} objects of {} after {limit:?}", added.len(), self.what);
            };
            if event.kind == Kind::Added {
                added.entry(event.object.metadata.name).or_insert(event.at);
            }
        }
        Ok(added)
    }
}
