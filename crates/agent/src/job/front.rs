//! The broker at which a command was typed: between the client's socket and the leader.
//!
//! Owns: turning what the client tells into a request (its environment into a difference), and
//! copying messages both ways. It looks into none of them but the last.

use super::Jobs;
use super::protocol::{Command, Finished, RUN, Request, Where, body, kind, split};
use crate::broker::{Overlay, Receiver, Sender};
use crate::launch::environment::{Difference, Variables};
use crate::launch::text;
use crate::local::Call;
use quorate_contract::exit;
use serde::{Deserialize, Serialize};

/// The verb of `run` and `exec` on the local socket.
pub const RUN_VERB: &str = "run";

/// What a client tells of itself and its job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClientRequest {
    /// The command; its `env` is filled in by the front.
    pub command: Command,
    /// Where the tasks go.
    pub place: Where,
    /// A failing task leaves the others alone.
    #[serde(default)]
    pub no_kill: bool,
    /// The client's environment; `None` asks for the pods' own.
    #[serde(default)]
    pub env: Option<Vec<(String, String)>>,
    /// Rules of `--env`.
    #[serde(default)]
    pub env_rules: Vec<String>,
}

impl ClientRequest {
    /// The request as the leader wants it, for a client that lives in a pod with this environment.
    pub fn into_request(mut self, pod: &Variables) -> Request {
        let user: Variables = self
            .env
            .iter()
            .flatten()
            .map(|(name, value)| (text::decode(name), text::decode(value)))
            .collect();
        let mut env = match self.env {
            Some(_) => Difference::between(pod, &user),
            None => Difference::default(),
        };
        for rule in &self.env_rules {
            env.rule(rule, &user);
        }
        self.command.env = env;
        let Self { command, place, no_kill, .. } = self;
        Request { command, place, no_kill, instance: false, queued: None, keeps: None }
    }
}

/// Serves one `run` of the local socket.
pub(super) async fn run(jobs: Jobs, overlay: Overlay, call: Call) {
    let request: ClientRequest = match serde_json::from_value(call.hello.args.clone()) {
        Ok(request) => request,
        Err(error) => {
            let _ = call.end(exit::USAGE, Some(format!("unreadable request: {error}"))).await;
            return;
        }
    };
    let request = request.into_request(&jobs.pod().env);
    match overlay.open(0, RUN, body(&request)).await {
        Ok(channel) => {
            relay(call, channel.split(), finished, (exit::BROKER_LOST, None)).await;
        }
        Err(error) => {
            let why = format!("the leader of jobs cannot be reached: {error}");
            let _ = call.end(exit::UNAVAILABLE, Some(why)).await;
        }
    }
}

/// Code and words of a job's last message.
fn finished(last_kind: u8, payload: &[u8]) -> Option<(i32, Option<String>)> {
    if last_kind != kind::FINISHED {
        return None;
    }
    Some(match serde_json::from_slice::<Finished>(payload) {
        Ok(finished) => {
            let message = Some(finished.outcome.message).filter(|text| !text.is_empty());
            (finished.outcome.exit_code, message)
        }
        Err(error) => (exit::INTERNAL, Some(format!("unreadable end of a job: {error}"))),
    })
}

/// Knows a message as the last one, by kind and payload, and what it says: the code to exit with
/// and the words for people.
pub(crate) type IsLast = fn(u8, &[u8]) -> Option<(i32, Option<String>)>;

/// Copies between a client and a channel, until `last` knows a message as the end, or one of them
/// is gone. When the channel breaks, `lost` is the
/// code to exit with and `who` the name to say.
pub(crate) async fn relay(
    call: Call,
    (up, mut down): (Sender, Receiver),
    last: IsLast,
    (lost, who): (i32, Option<String>),
) {
    let (mut client, mut to_client) = call.connection.split();
    let upward = async move {
        loop {
            match client.recv().await {
                Ok(Some((kind, payload))) => {
                    if up.send(super::protocol::message(kind, &payload)).await.is_err() {
                        // What the other side has to say about it comes by the other direction.
                        std::future::pending::<()>().await;
                    }
                }
                // Dropping the channel's both halves tells the other side.
                Ok(None) | Err(_) => return,
            }
        }
    };
    let downward = async move {
        loop {
            let end = match down.recv().await {
                Ok(Some(message)) => {
                    let Some((kind, payload)) = split(message) else { continue };
                    match last(kind, &payload) {
                        Some(end) => {
                            // The client wants the details too.
                            let _ = to_client.send(kind, &payload).await;
                            end
                        }
                        None if to_client.send(kind, &payload).await.is_ok() => continue,
                        None => return,
                    }
                }
                Ok(None) => (lost, Some("the other side ended early".to_string())),
                Err(error) => match who {
                    Some(who) => (lost, Some(format!("{who} cannot be reached: {error}"))),
                    None => (lost, Some(error.to_string())),
                },
            };
            let _ = to_client.end(end.0, end.1).await;
            return;
        }
    };
    tokio::select! {
        () = upward => {}
        () = downward => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variables(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|(n, v)| ((*n).to_string(), (*v).to_string())).collect()
    }

    fn request(env: Option<Vec<(String, String)>>, rules: &[&str]) -> Difference {
        let request = ClientRequest {
            command: Command::default(),
            place: Where::Brokers("all".into()),
            no_kill: false,
            env,
            env_rules: rules.iter().map(|rule| (*rule).to_string()).collect(),
        };
        let pod = [("PATH".into(), "/bin".into()), ("LANG".into(), "C".into())].into();
        request.into_request(&pod).command.env
    }

    #[test]
    fn a_request_carries_what_differs_from_the_clients_pod() {
        let user = variables(&[("PATH", "/bin"), ("COLOUR", "blue")]);
        let difference = request(Some(user), &["SIZE=4"]);
        assert_eq!(difference.set, variables(&[("COLOUR", "blue"), ("SIZE", "4")]));
        assert_eq!(difference.unset, ["LANG"]);
    }

    #[test]
    fn a_request_without_environment_leaves_the_pods_alone() {
        assert_eq!(request(None, &[]), Difference::default());
        assert_eq!(request(None, &["A=1"]).set, variables(&[("A", "1")]));
    }

    #[test]
    fn the_last_message_has_code_and_words() {
        use crate::launch::outcome::Outcome;
        use quorate_contract::report::Reason;
        let end = |outcome| {
            let all = Finished { outcome, started: Vec::new(), wire: [].into() };
            finished(kind::FINISHED, &body(&all))
        };
        assert_eq!(end(Outcome::completed()), Some((0, None)));
        let failed = Outcome::failed(7, Reason::ProgramFailed, "why");
        assert_eq!(end(failed), Some((7, Some("why".to_string()))));
        assert_eq!(finished(kind::OUT, b"{}"), None);
        assert_eq!(finished(kind::FINISHED, b"x").map(|(code, _)| code), Some(exit::INTERNAL));
    }
}
