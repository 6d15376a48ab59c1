//! `quorate status` and `quorate why` on Kubernetes.

use super::gather::{Gathered, gather};
use super::session::Session;
use super::words::{Picture, why_data};
use crate::args::StatusArgs;
use crate::refusal::Refusal;
use crate::terminal::Style;
use crate::verbs::state::show;
use crate::verbs::targets::some;
use k8s_openapi::jiff::Timestamp;
use quorate_observe::Observed;

/// Shows a cluster: its state, its tree of brokers, its start, restarts and last failure.
pub fn status(args: &StatusArgs) -> anyhow::Result<i32> {
    super::block_on(async {
        let session = Session::open(&args.place).await?;
        let Gathered { observed, unseen } = gathered(&session, args.cluster.as_deref()).await?;
        let now = Timestamp::now();
        let why = quorate_observe::why(&observed, now);
        let status = quorate_observe::status(&observed, now);
        let unicode = Style::detect(|name| std::env::var(name).ok()).unicode;
        let picture = Picture {
            observed: &observed,
            why: &why,
            status: &status,
            unseen: &unseen,
            now,
            unicode,
        };
        show(args.output, || picture.text(), || picture.data())
    })
}

/// Says in one sentence why a cluster is not running, or that it is.
pub fn why(args: &StatusArgs) -> anyhow::Result<i32> {
    super::block_on(async {
        let session = Session::open(&args.place).await?;
        let Gathered { observed, unseen } = gathered(&session, args.cluster.as_deref()).await?;
        let now = Timestamp::now();
        let why = quorate_observe::why(&observed, now);
        let text = || {
            let mut text = why.render(name(&observed), now);
            if !unseen.is_empty() {
                text += &format!("\n  not seen  {}", unseen.join(", "));
            }
            text + "\n"
        };
        show(args.output, text, || why_data(&why))
    })
}

fn name(observed: &Observed) -> &str {
    observed.cluster.metadata.name.as_deref().unwrap_or_default()
}

async fn gathered(session: &Session, cluster: Option<&str>) -> anyhow::Result<Gathered> {
    match cluster {
        Some(name) => gather(session, name).await,
        None => gather(session, &only(session).await?).await,
    }
}

/// The only cluster of the namespace.
pub(super) async fn only(session: &Session) -> anyhow::Result<String> {
    let names = session.names().await?;
    let refusal = match names.as_slice() {
        [only] => return Ok(only.clone()),
        [] => Refusal::usage(format!("no cluster runs {}", session.place()))
            .hint(format!("start one: `quorate run{} FILE`", session.flags)),
        many => Refusal::usage(format!("there are {} clusters: name one", many.len()))
            .hint(format!("they are {}", some(many))),
    };
    Err(refusal.into())
}
