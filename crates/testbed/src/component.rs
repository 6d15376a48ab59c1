//! A program of the control plane: how it is started, when it is ready, how it ends.

use crate::api::Prober;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// A component that is not ready by then will not be.
const START_LIMIT: Duration = Duration::from_mins(2);
/// How many lines of a log go into an error.
const TAIL: usize = 12;

/// Why a component does not run.
#[derive(Debug, thiserror::Error)]
pub enum ComponentError {
    /// Its log or program could not be opened.
    #[error("cannot start {name}")]
    Start {
        /// Which.
        name: &'static str,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// It ended before it was ready.
    #[error("{name} ended ({status}) before it was ready; its log ends with:\n{log}")]
    Ended {
        /// Which.
        name: &'static str,
        /// How.
        status: ExitStatus,
        /// Its last lines.
        log: String,
    },
    /// It is not ready in time.
    #[error("{name} is not ready after {} s ({url}); its log ends with:\n{log}", START_LIMIT.as_secs())]
    Late {
        /// Which.
        name: &'static str,
        /// What does not answer.
        url: String,
        /// Its last lines.
        log: String,
    },
    /// It is running already.
    #[error("{name} is running already")]
    Running {
        /// Which.
        name: &'static str,
    },
}

/// How to start a component.
#[derive(Clone, Debug)]
pub struct Recipe {
    /// What people call it, and its log.
    pub name: &'static str,
    /// The program.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// Variables added to the keeper's environment.
    pub environment: Vec<(&'static str, String)>,
    /// Answers 200 once it is ready.
    pub ready: String,
}

/// A component.
#[derive(Debug)]
pub struct Component {
    recipe: Recipe,
    log: PathBuf,
    child: Mutex<Option<Child>>,
}

/// What a component does now.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// Runs, under this number in the cluster's PID namespace.
    Running(u32),
    /// Was stopped on request.
    Stopped,
    /// Ended by itself.
    Ended(String),
}

impl Component {
    /// One that does not run yet.
    pub fn new(recipe: Recipe, log: PathBuf) -> Self {
        Self { recipe, log, child: Mutex::new(None) }
    }

    /// Its name.
    pub fn name(&self) -> &'static str {
        self.recipe.name
    }

    /// What it does now.
    pub fn state(&self) -> State {
        match &mut *self.lock() {
            None => State::Stopped,
            Some(child) => match child.try_wait() {
                Ok(Some(status)) => State::Ended(status.to_string()),
                Ok(None) => State::Running(child.id()),
                Err(error) => State::Ended(error.to_string()),
            },
        }
    }

    /// Starts it and waits until it is ready.
    pub fn start(&self, prober: &Prober) -> Result<(), ComponentError> {
        self.spawn()?;
        let name = self.recipe.name;
        let deadline = Instant::now() + START_LIMIT;
        let mut pause = Duration::from_millis(10);
        while !prober.healthy(&self.recipe.ready) {
            if let Some(child) = &mut *self.lock()
                && let Ok(Some(status)) = child.try_wait()
            {
                return Err(ComponentError::Ended { name, status, log: self.tail() });
            }
            if Instant::now() > deadline {
                let url = self.recipe.ready.clone();
                return Err(ComponentError::Late { name, url, log: self.tail() });
            }
            thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(80));
        }
        Ok(())
    }

    fn spawn(&self) -> Result<(), ComponentError> {
        let name = self.recipe.name;
        let failed = |source| ComponentError::Start { name, source };
        let mut child = self.lock();
        if let Some(running) = &mut *child
            && matches!(running.try_wait(), Ok(None))
        {
            return Err(ComponentError::Running { name });
        }
        let log = File::options().create(true).append(true).open(&self.log).map_err(failed)?;
        let errors = log.try_clone().map_err(failed)?;
        let mut command = Command::new(&self.recipe.program);
        command
            .args(&self.recipe.arguments)
            .envs(self.recipe.environment.iter().map(|(name, value)| (*name, value)))
            .current_dir("/")
            .stdin(Stdio::null())
            .stdout(log)
            .stderr(errors);
        *child = Some(command.spawn().map_err(failed)?);
        Ok(())
    }

    /// Kills it: there is nothing that it should save. One that does not run stays so.
    pub fn stop(&self) {
        if let Some(mut child) = self.lock().take() {
            // One that has ended already needs no signal; either way it is reaped.
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    fn tail(&self) -> String {
        tail(&self.log)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Child>> {
        self.child.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The last lines of a log.
pub fn tail(log: &Path) -> String {
    let text = fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(TAIL)..].join("\n")
}
