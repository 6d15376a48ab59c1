//! A small blocking client of the cluster's API, for what the keeper itself needs: a few objects at
//! the start, and whether nodes are ready; and for who measures the cluster from outside.
//!
//! Blocking on purpose: sockets belong to the network namespace of the thread that makes them.

use crate::layout::{API_PORT, CONTROL_PLANE, Folder};
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader};
use std::sync::Arc;
use std::time::Duration;
use ureq::Agent;
use ureq::tls::{Certificate, RootCerts, TlsConfig};

/// No request of the keeper takes longer, unless something is wrong. A server that has just started on a
/// busy machine has taken more than ten seconds for a large definition.
const LIMIT: Duration = Duration::from_secs(30);

/// Why the API did not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum ApiError {
    /// The authority's certificate is not readable.
    #[error("the certificate of the cluster's authority is not readable")]
    Authority(#[source] Box<ureq::Error>),
    /// The machine's way to the API is not written down, or not as expected.
    #[error("cannot use {path}: {reason}")]
    Kubeconfig {
        /// The file.
        path: String,
        /// What is wrong.
        reason: String,
    },
    /// No answer.
    #[error("no answer from {url}")]
    Unreachable {
        /// What was asked.
        url: String,
        /// Why.
        #[source]
        source: Box<ureq::Error>,
    },
    /// It refused.
    #[error("{url} answers {status}: {message}")]
    Refused {
        /// What was asked.
        url: String,
        /// The HTTP status.
        status: u16,
        /// The answer's message.
        message: String,
    },
}

impl ApiError {
    /// Whether it may go by itself: there was no answer in time, or the server has too much to do or has
    /// yet to come to what was asked.
    pub fn passes(&self) -> bool {
        match self {
            Self::Unreachable { .. } => true,
            Self::Refused { status, .. } => *status == 429 || *status >= 500,
            Self::Authority(_) | Self::Kubeconfig { .. } => false,
        }
    }
}

/// The client.
#[derive(Clone, Debug)]
pub struct Api {
    agent: Agent,
    base: String,
    token: String,
}

impl Api {
    /// A client that trusts `authority` (PEM) and logs in with `token`. It must be used in the
    /// control plane's network namespace.
    pub fn new(authority: &str, token: &str) -> Result<Self, ApiError> {
        Self::at(format!("https://{CONTROL_PLANE}:{API_PORT}"), authority, token)
    }

    /// A client of its own connections for use in the machine's own namespace, as administrator.
    pub fn outside(folder: &Folder) -> Result<Self, ApiError> {
        let path = folder.outer_kubeconfig().display().to_string();
        let failed = |reason: String| ApiError::Kubeconfig { path: path.clone(), reason };
        let text = fs::read_to_string(&path).map_err(|error| failed(error.to_string()))?;
        let config: Value =
            serde_json::from_str(&text).map_err(|error| failed(error.to_string()))?;
        let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let server = word(&config["clusters"][0]["cluster"]["server"]);
        let token = word(&config["users"][0]["user"]["token"]);
        let authority = folder.pki("ca.crt");
        let authority = fs::read_to_string(authority).map_err(|error| failed(error.to_string()))?;
        Self::at(server, &authority, &token)
    }

    fn at(base: String, authority: &str, token: &str) -> Result<Self, ApiError> {
        let root = Certificate::from_pem(authority.as_bytes())
            .map_err(|source| ApiError::Authority(Box::new(source)))?;
        let tls = TlsConfig::builder()
            .root_certs(RootCerts::new_with_certs(&[root]))
            .unversioned_rustls_crypto_provider(provider())
            .build();
        Ok(Self { agent: agent(tls), base, token: token.into() })
    }

    /// Reads an object or a list.
    pub fn get(&self, path: &str) -> Result<Value, ApiError> {
        let url = format!("{}{path}", self.base);
        let request = self.agent.get(&url).header("Authorization", self.bearer());
        answer(&url, request.call())
    }

    /// Creates an object. One of that name that exists already is left as it is.
    pub fn create(&self, path: &str, object: &Value) -> Result<(), ApiError> {
        self.create_text(path, "application/json", object.to_string().as_bytes())
    }

    /// Creates an object from YAML.
    pub fn create_yaml(&self, path: &str, yaml: &[u8]) -> Result<(), ApiError> {
        self.create_text(path, "application/yaml", yaml)
    }

    /// Deletes an object.
    pub fn delete(&self, path: &str) -> Result<(), ApiError> {
        let url = format!("{}{path}", self.base);
        let request = self.agent.delete(&url).header("Authorization", self.bearer());
        answer(&url, request.call()).map(drop)
    }

    /// The lines of an answer that does not end, such as a watch's; `accept` is the kind of answer.
    pub fn stream(
        &self,
        path: &str,
        accept: &str,
    ) -> Result<impl BufRead + Send + use<>, ApiError> {
        let url = format!("{}{path}", self.base);
        let request = self.agent.get(&url).config().timeout_global(None).build();
        let request = request.header("Authorization", self.bearer()).header("Accept", accept);
        let unreachable =
            |source| ApiError::Unreachable { url: url.clone(), source: Box::new(source) };
        let mut response = request.call().map_err(unreachable)?;
        let status = response.status().as_u16();
        if status >= 300 {
            let message = response.body_mut().read_to_string().map_err(unreachable)?;
            return Err(ApiError::Refused { url, status, message });
        }
        Ok(BufReader::with_capacity(1 << 16, response.into_body().into_reader()))
    }

    fn create_text(&self, path: &str, kind: &str, body: &[u8]) -> Result<(), ApiError> {
        let url = format!("{}{path}", self.base);
        let request = self
            .agent
            .post(&url)
            .header("Authorization", self.bearer())
            .header("Content-Type", kind);
        match answer(&url, request.send(body)) {
            Ok(_) | Err(ApiError::Refused { status: 409, .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn bearer(&self) -> String {
        format!("Bearer {}", self.token)
    }
}

fn answer(
    url: &str,
    outcome: Result<ureq::http::Response<ureq::Body>, ureq::Error>,
) -> Result<Value, ApiError> {
    let unreachable =
        |source| ApiError::Unreachable { url: url.to_owned(), source: Box::new(source) };
    let mut response = outcome.map_err(unreachable)?;
    let status = response.status().as_u16();
    let text = response.body_mut().read_to_string().map_err(unreachable)?;
    let value: Value = serde_json::from_str(&text).unwrap_or(Value::String(text));
    if status < 300 {
        return Ok(value);
    }
    let message = value["message"].as_str().unwrap_or("no reason given").to_owned();
    Err(ApiError::Refused { url: url.to_owned(), status, message })
}

fn agent(tls: TlsConfig) -> Agent {
    Agent::config_builder()
        .tls_config(tls)
        .http_status_as_error(false)
        .timeout_global(Some(LIMIT))
        .proxy(None)
        .build()
        .new_agent()
}

fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

/// Asks health endpoints, whose certificates are made up by the programs that serve them.
#[derive(Clone, Debug)]
pub struct Prober {
    agent: Agent,
}

impl Default for Prober {
    fn default() -> Self {
        let tls = TlsConfig::builder()
            .disable_verification(true)
            .unversioned_rustls_crypto_provider(provider())
            .build();
        Self { agent: agent(tls) }
    }
}

impl Prober {
    /// Whether `url` answers 200 now.
    pub fn healthy(&self, url: &str) -> bool {
        self.agent.get(url).call().is_ok_and(|response| response.status() == 200)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_busy_server_passes_and_a_refusal_does_not() {
        let refused =
            |status| ApiError::Refused { url: String::new(), status, message: String::new() };
        for (status, passes) in [(429, true), (500, true), (504, true), (403, false), (422, false)]
        {
            assert_eq!(refused(status).passes(), passes, "{status}");
        }
        // What a connection that nobody accepts, or no answer in time, comes to.
        let timeout = ureq::Error::Timeout(ureq::Timeout::Global);
        let silent = ApiError::Unreachable { url: String::new(), source: Box::new(timeout) };
        assert!(silent.passes());
    }
}
