//! `quorate run` on Kubernetes: creates the MiniCluster, follows it, and ends with its program's
//! code.

use super::exec;
use super::follow::{Departure, Following};
use super::objects;
use super::refuse::Asked;
use super::session::Session;
use super::target;
use crate::args::{Loudness, Place, RunArgs, SandboxArg, SummaryFormat};
use crate::progress::{Marks, Progress, summary};
use crate::refusal::{Findings, Refusal};
use crate::terminal::{Style, print, write_stderr};
use crate::verbs::guest;
use crate::verbs::wanted::{self, Wanted};
use kube::api::PostParams;
use quorate_api::validate::{ValidatedParallel, ValidatedProgram};
use quorate_api::{MiniCluster, Target, ValidatedMiniCluster, validate};
use quorate_contract::paths;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Runs a MiniCluster on Kubernetes.
pub fn run(args: &RunArgs, place: &Place, loudness: Loudness) -> anyhow::Result<i32> {
    let started = Instant::now();
    let epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64;
    if args.sandbox == SandboxArg::None {
        return Err(Refusal::usage("--sandbox is for clusters on this machine")
            .hint("leave it out: pods on Kubernetes have containers")
            .into());
    }
    let Wanted { object, cluster, file } = wanted::cluster(args, Target::Kubernetes)?;
    for warning in &cluster.warnings {
        if !loudness.quiet {
            write_stderr(&format!("{}\n", warning.render(file.as_deref())));
        }
    }
    super::block_on(async {
        let session = Session::open(place).await?;
        let session = in_its_namespace(session, &object, place)?;
        // A cluster that stays runs its first program as a guest, so that it outlives it.
        let (object, program) = if args.keep { without_program(object) } else { (object, None) };
        let created = create(&session, object).await?;
        let run = Run { args, loudness, session: &session, valid: &cluster, started, epoch };
        run.follow(&created, program).await
    })
}

struct Run<'a> {
    args: &'a RunArgs,
    loudness: Loudness,
    session: &'a Session,
    valid: &'a ValidatedMiniCluster,
    started: Instant,
    epoch: u64,
}

impl Run<'_> {
    async fn follow(
        &self,
        created: &MiniCluster,
        guest: Option<ValidatedProgram>,
    ) -> anyhow::Result<i32> {
        let session = self.session;
        let name = self.valid.name.as_str();
        let following = Following {
            session,
            cluster: created,
            progress: self.progress(self.args.keep),
            redraw: Style::detect(variable).redraw && !self.loudness.quiet,
            width: Style::detect(variable).width,
            started: self.started,
            leave: self.args.keep,
            tasks: tasks(self.valid),
        };
        let flags = &session.flags;
        match following.follow().await? {
            Departure::Quorate => {
                let code = match guest {
                    None | Some(ValidatedProgram::None) => 0,
                    Some(program) => {
                        let found = target::find(session, Some(name)).await?;
                        guest::hand_over(&program)?;
                        exec::in_pod(session, &found, &guest::command(&program, paths::AGENT), None)
                            .await?
                    }
                };
                self.say(&format!(
                    "{name} stays up: `quorate shell {name}{flags}` enters it, \
                     `quorate delete {name}{flags}` ends it"
                ));
                Ok(code)
            }
            Departure::Left { delete: true, code } => {
                objects::ask(session, created).await?;
                objects::gone(session, created).await?;
                self.say(&format!("{name} deleted"));
                Ok(code)
            }
            Departure::Left { delete: false, code } => {
                self.say(&format!(
                    "`quorate logs -f {name}{flags}` goes on watching, \
                     `quorate delete {name}{flags}` ends it"
                ));
                Ok(code)
            }
            Departure::Ended { finish, report, wall } => {
                if let Some(format) = self.args.output {
                    let size = self.valid.size;
                    let summary = summary(name, size, &finish, report.as_deref(), self.epoch, wall);
                    print(&match format {
                        SummaryFormat::Json => serde_json::to_string_pretty(&summary)? + "\n",
                        SummaryFormat::Yaml => serde_saphyr::to_string(&summary)?,
                    })?;
                }
                // What was made of flags is nobody's once it has done its work; a file's cluster is
                // the user's own, and a failed one has something to tell.
                let made_here = self.args.names_a_command();
                if finish.reason == "Deleted" {
                } else if made_here && finish.completed && finish.code == 0 {
                    objects::ask(session, created).await?;
                } else {
                    self.say(&format!(
                        "{name} is kept: `quorate status {name}{flags}` tells more, \
                         `quorate delete {name}{flags}` removes it"
                    ));
                }
                Ok(finish.code)
            }
        }
    }

    fn progress(&self, keep: bool) -> Progress {
        let style = Style::detect(variable);
        let marks = Marks::of(&style);
        let (name, size) = (self.valid.name.as_str(), self.valid.size);
        let quiet = self.loudness.quiet;
        let progress = Progress::new(name, size, marks, style.redraw, quiet, self.epoch)
            .at(self.session.place());
        match &self.valid.program {
            ValidatedProgram::None => progress.without_program(),
            _ if keep => progress.without_program(),
            ValidatedProgram::Command { argv } => {
                let program = argv.first().map_or("", String::as_str);
                progress.with_command(format!("{program} on launcher-0-0"))
            }
            ValidatedProgram::Script { .. } => {
                progress.with_command("a batch script in the queue".to_owned())
            }
            ValidatedProgram::Jobs(jobs) => {
                progress.with_command(format!("{} jobs in the queue", jobs.len()))
            }
            ValidatedProgram::Parallel(_) => progress,
        }
    }

    fn say(&self, words: &str) {
        if !self.loudness.quiet {
            write_stderr(&format!("{words}\n"));
        }
    }
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// Ranks in all, where the object itself says it.
fn tasks(cluster: &ValidatedMiniCluster) -> Option<u32> {
    let ValidatedProgram::Parallel(ValidatedParallel { tasks, tasks_per_node, .. }) =
        &cluster.program
    else {
        return None;
    };
    let takers = || cluster.groups.iter().filter(|group| group.slots != Some(0));
    tasks.or_else(|| Some(tasks_per_node.as_ref()? * takers().map(|group| group.size).sum::<u32>()))
}

/// The session in the namespace of the file; one that contradicts the flag is refused, as kubectl
/// does.
fn in_its_namespace(
    mut session: Session,
    object: &MiniCluster,
    place: &Place,
) -> anyhow::Result<Session> {
    let Some(own) = &object.metadata.namespace else { return Ok(session) };
    if let Some(flag) = &place.namespace
        && flag != own
    {
        return Err(Refusal::usage(format!(
            "the file is for namespace {own}, and --namespace says {flag}"
        ))
        .hint("leave one of them out")
        .into());
    }
    session.namespace.clone_from(own);
    Ok(session)
}

/// The object without its program, and the program.
fn without_program(mut object: MiniCluster) -> (MiniCluster, Option<ValidatedProgram>) {
    let program = validate(&object, Target::Kubernetes).ok().map(|valid| valid.program);
    object.spec.program = None;
    object.spec.command.clear();
    object.spec.args.clear();
    (object, program)
}

async fn create(session: &Session, mut object: MiniCluster) -> anyhow::Result<MiniCluster> {
    object.status = None;
    object.metadata.namespace = Some(session.namespace.clone());
    if let Err(findings) = validate(&object, Target::Kubernetes) {
        return Err(Findings { file: None, findings }.into());
    }
    let name = object.metadata.name.clone().unwrap_or_default();
    session
        .clusters()
        .create(&PostParams::default(), &object)
        .await
        .map_err(|error| session.refuse(&error, &Asked::clusters("create").named(&name)))
}
