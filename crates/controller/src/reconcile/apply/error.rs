//! What the answers of an API server mean.

use kube::core::Status;
use quorate_observe::Obstacle;

use crate::telemetry::chain;

/// Why actions could not be carried out, although another try is worth it.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    /// A request failed: an error of the server or of a webhook that cannot be reached, a limit, a lost
    /// connection.
    #[error("cannot {verb} {kind} {name}")]
    Request {
        /// `create`, `patch`, ...
        verb: &'static str,
        /// The object's kind.
        kind: String,
        /// The object's name.
        name: String,
        /// What the client says.
        #[source]
        source: Box<kube::Error>,
    },
    /// An object of a former cluster of the same name is still there.
    #[error("{kind} {name} of a former cluster of the same name is still there")]
    Leftover {
        /// The object's kind.
        kind: String,
        /// The object's name.
        name: String,
    },
    /// The system gives no random numbers.
    #[error("cannot make a seed")]
    Seed(#[source] getrandom::Error),
}

impl ApplyError {
    /// The machine's word, for metrics and logs.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Request { source, .. } => match &**source {
                kube::Error::Api(status) if status.code == 429 => "TooManyRequests",
                kube::Error::Api(status) if status.code == 409 => "Conflict",
                kube::Error::Api(status) if status.message.contains("webhook") => "Webhook",
                kube::Error::Api(_) => "ApiError",
                _ => "Connection",
            },
            Self::Leftover { .. } => "Leftover",
            Self::Seed(_) => "Seed",
        }
    }

    /// What people may be told of an object that could not be made so far.
    pub fn delay(&self) -> Option<Obstacle> {
        let (kind, name, message) = match self {
            Self::Request { verb: "create" | "get", kind, name, source } => {
                let message = match &**source {
                    kube::Error::Api(status) => words(status),
                    error => chain(error),
                };
                (kind, name, message)
            }
            Self::Leftover { kind, name } => {
                let message = "one of a former cluster of the same name is still there".to_owned();
                (kind, name, message)
            }
            Self::Request { .. } | Self::Seed(_) => return None,
        };
        Some(Obstacle::Delayed { kind: kind.clone(), name: name.clone(), message })
    }
}

/// What an error of a request means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The object, or what it is to be put into, is not there.
    Gone,
    /// Something of this name is there already.
    Exists,
    /// The object is not the one that was meant, or has changed meanwhile.
    Conflict,
    /// No: the same request will get the same answer.
    Refused(String),
    /// Not now.
    Again,
}

/// Judges an error. A webhook that cannot be reached comes as 500 and is worth another try; one that
/// says no comes as 403 or 422 and is not. 401 is about a token that has run out; the next is read soon.
pub fn judge(error: &kube::Error) -> Verdict {
    let kube::Error::Api(status) = error else { return Verdict::Again };
    match status.code {
        404 => Verdict::Gone,
        409 if status.is_already_exists() => Verdict::Exists,
        409 => Verdict::Conflict,
        400 | 403 | 405 | 413 | 422 => Verdict::Refused(words(status)),
        _ => Verdict::Again,
    }
}

/// The server's sentence without what people know already.
fn words(status: &Status) -> String {
    status.message.trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(code: u16, reason: &str, message: &str) -> kube::Error {
        kube::Error::Api(Status::failure(message, reason).with_code(code).boxed())
    }

    #[test]
    fn answers_are_told_apart() {
        for (error, verdict) in [
            (answer(404, "NotFound", "x"), Verdict::Gone),
            (answer(409, "AlreadyExists", "x"), Verdict::Exists),
            (answer(409, "Conflict", "x"), Verdict::Conflict),
            (answer(403, "Forbidden", "exceeded quota"), Verdict::Refused("exceeded quota".into())),
            (answer(422, "Invalid", "no "), Verdict::Refused("no".into())),
            (answer(500, "InternalError", "failed calling webhook"), Verdict::Again),
            (answer(503, "ServiceUnavailable", "x"), Verdict::Again),
            (answer(429, "TooManyRequests", "x"), Verdict::Again),
            (answer(401, "Unauthorized", "x"), Verdict::Again),
        ] {
            assert_eq!(judge(&error), verdict, "{error}");
        }
    }
}
