//! What the controller is told at its start: flags, and variables of the same names.
//!
//! Owns: names, defaults and limits of the settings; `--help` is their documentation. Must not: hold
//! a secret (the API's credentials come from the pod's service account or from a kubeconfig).

use crate::context::Options;
use crate::lease::{Timing, TimingError};
use clap::{Args, Parser, ValueEnum};
use quorate_plan::Delivery;
use std::net::SocketAddr;
use std::time::Duration;
use tracing_subscriber::filter::Targets;

/// Makes every MiniCluster of a Kubernetes cluster what it asks for, and says what it is.
///
/// Each flag can be given as a variable instead; a flag wins over its variable.
#[derive(Parser, Clone, Debug)]
#[command(name = "quorate-controller", version, max_term_width = 100)]
pub struct Settings {
    /// Watch only these namespaces, separated by commas. Default: all.
    #[arg(
        long,
        env = "QUORATE_WATCH_NAMESPACES",
        value_name = "NAMESPACE,...",
        value_delimiter = ',',
        value_parser = dns_label
    )]
    pub watch_namespaces: Vec<String>,
    /// The image that brings the agent into the pods of MiniClusters.
    #[arg(long, env = "QUORATE_AGENT_IMAGE", value_name = "IMAGE", value_parser = image)]
    pub agent_image: String,
    /// How that image brings it; clusters that are there already keep the way that they were made with.
    /// What `auto` decided and why is in the log.
    #[arg(
        long,
        env = "QUORATE_AGENT_DELIVERY",
        value_name = "WAY",
        value_enum,
        default_value_t = AgentDelivery::Auto
    )]
    pub agent_delivery: AgentDelivery,
    /// Whether people who may forward ports to the pods of a MiniCluster may use its queue that way;
    /// clusters that are there already keep what they were made with.
    #[arg(
        long,
        env = "QUORATE_OUTSIDE_PORT_FORWARD",
        value_name = "BOOL",
        default_value_t = true,
        action = clap::ArgAction::Set
    )]
    pub outside_port_forward: bool,
    /// The DNS domain of the Kubernetes cluster. Default: pods find it in their own resolv.conf.
    #[arg(long, env = "QUORATE_CLUSTER_DOMAIN", value_name = "DOMAIN", value_parser = dns_name)]
    pub cluster_domain: Option<String>,
    /// MiniClusters that are worked on at the same time.
    #[arg(
        long,
        env = "QUORATE_CONCURRENCY",
        value_name = "NUMBER",
        default_value_t = 48,
        value_parser = clap::value_parser!(u16).range(1..=1024)
    )]
    pub concurrency: u16,
    /// Requests a second that are sent to the API at most, lease excluded; 0 leaves the limit to the
    /// API server's priority and fairness.
    #[arg(long, env = "QUORATE_API_QPS", value_name = "NUMBER", default_value_t = 0)]
    pub api_qps: u16,
    /// Requests that may be sent at once after a quiet time, if `--api-qps` limits them.
    #[arg(
        long,
        env = "QUORATE_API_BURST",
        value_name = "NUMBER",
        default_value_t = 100,
        value_parser = clap::value_parser!(u16).range(1..)
    )]
    pub api_burst: u16,
    /// Where /healthz and /readyz are answered; port 0 takes a free one.
    #[arg(
        long,
        env = "QUORATE_HEALTH_ADDRESS",
        value_name = "ADDRESS:PORT",
        default_value = "[::]:8081"
    )]
    pub health_address: SocketAddr,
    /// Where /metrics is answered; port 0 takes a free one.
    #[arg(
        long,
        env = "QUORATE_METRICS_ADDRESS",
        value_name = "ADDRESS:PORT",
        default_value = "[::]:8080"
    )]
    pub metrics_address: SocketAddr,
    /// Who leads if there are several controllers.
    #[command(flatten)]
    pub lease: LeaseSettings,
    /// What is written to standard error.
    #[command(flatten)]
    pub log: LogSettings,
}

/// Leader election.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Leader election")]
pub struct LeaseSettings {
    /// Whether a lease decides which of several controllers works; `false` is for a single one that
    /// is started by hand.
    #[arg(
        long,
        env = "QUORATE_LEADER_ELECTION",
        value_name = "BOOL",
        default_value_t = true,
        action = clap::ArgAction::Set
    )]
    pub leader_election: bool,
    /// The lease's name.
    #[arg(
        long,
        env = "QUORATE_LEASE_NAME",
        value_name = "NAME",
        default_value = "quorate-controller",
        value_parser = dns_name
    )]
    pub lease_name: String,
    /// The lease's namespace. Default: the namespace of this pod, or of the kubeconfig's context.
    #[arg(
        long,
        env = "QUORATE_LEASE_NAMESPACE",
        value_name = "NAMESPACE",
        value_parser = dns_label
    )]
    pub lease_namespace: Option<String>,
    /// Seconds without a renewal after which another controller takes over. The lease is renewed
    /// three times as often.
    #[arg(
        long,
        env = "QUORATE_LEASE_DURATION_SECONDS",
        value_name = "SECONDS",
        default_value_t = 15,
        value_parser = clap::value_parser!(u32).range(3..=3600)
    )]
    pub lease_duration_seconds: u32,
    /// Seconds without a renewal after which this controller stops to write: more than a third of
    /// the duration and less than all of it. What is left is the time for a write under way.
    #[arg(
        long,
        env = "QUORATE_LEASE_RENEW_DEADLINE_SECONDS",
        value_name = "SECONDS",
        default_value_t = 10,
        value_parser = clap::value_parser!(u32).range(1..=3600)
    )]
    pub lease_renew_deadline_seconds: u32,
    /// The name of this controller in the lease; two live ones must not share it. In a pod: the
    /// pod's name. Default: the host name and a random suffix.
    #[arg(long, env = "QUORATE_IDENTITY", value_name = "NAME", value_parser = not_empty)]
    pub identity: Option<String>,
}

/// Logs and traces.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Logs and traces")]
pub struct LogSettings {
    /// How lines look.
    #[arg(
        long,
        env = "QUORATE_LOG_FORMAT",
        value_name = "FORMAT",
        value_enum,
        default_value_t = LogFormat::Text
    )]
    pub log_format: LogFormat,
    /// Which lines are written: a level (error, warn, info, debug, trace), or levels by module as in
    /// `info,quorate_controller::lease=debug`.
    #[arg(
        long,
        env = "QUORATE_LOG_FILTER",
        value_name = "FILTER",
        default_value = "info",
        value_parser = log_filter
    )]
    pub log_filter: Targets,
    /// Where spans are sent: a collector of OpenTelemetry that takes OTLP over HTTP, as in
    /// `http://collector.monitoring:4318`; `/v1/traces` is added. The variables OTEL_TRACES_SAMPLER,
    /// OTEL_BSP_* and OTEL_EXPORTER_OTLP_HEADERS mean what they always do. Default: nowhere.
    #[arg(long, env = "QUORATE_OTLP_ENDPOINT", value_name = "URL", value_parser = otlp_endpoint)]
    pub otlp_endpoint: Option<String>,
}

/// How the agent comes into pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum AgentDelivery {
    /// As `image` if all nodes surely can do that (Kubernetes 1.35, containerd 2.1) and this account may
    /// list them, else as `copy`.
    Auto,
    /// An init container copies the agent; works everywhere.
    Copy,
    /// The image is a volume: pods start about a second sooner. Needs Kubernetes 1.35 and containerd
    /// 2.1 or CRI-O 1.31 on all nodes.
    Image,
}

/// How log lines look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One object a line, for collectors.
    Json,
}

impl Settings {
    /// What the reconcile loop needs of them.
    pub fn options(&self) -> Options {
        let mut namespaces = self.watch_namespaces.clone();
        namespaces.sort();
        namespaces.dedup();
        Options {
            namespaces,
            plan: quorate_plan::Context {
                agent_image: self.agent_image.clone(),
                agent_delivery: match self.agent_delivery {
                    AgentDelivery::Auto | AgentDelivery::Copy => Delivery::Copy,
                    AgentDelivery::Image => Delivery::Image,
                },
                port_forward: self.outside_port_forward,
                cluster_domain: self.cluster_domain.clone(),
            },
            choose_delivery: self.agent_delivery == AgentDelivery::Auto,
            concurrency: self.concurrency,
        }
    }
}

impl LeaseSettings {
    /// The timing, if it allows one leader only.
    pub fn timing(&self) -> Result<Timing, TimingError> {
        let seconds = |seconds: u32| Duration::from_secs(u64::from(seconds));
        Timing::new(
            seconds(self.lease_duration_seconds),
            seconds(self.lease_renew_deadline_seconds),
        )
    }
}

/// RFC 1123: what a namespace may be called.
fn dns_label(value: &str) -> Result<String, String> {
    let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let edge = |c: char| c != '-';
    let whole = (1..=63).contains(&value.len()) && value.chars().all(inner);
    if whole && value.starts_with(edge) && value.ends_with(edge) {
        return Ok(value.to_owned());
    }
    Err("must be 1 to 63 of a-z, 0-9 and -, neither first nor last a -".to_owned())
}

/// RFC 1123: labels with dots between them. A final dot is cut.
fn dns_name(value: &str) -> Result<String, String> {
    let name = value.strip_suffix('.').unwrap_or(value);
    if name.len() > 253 {
        return Err("must be at most 253 characters".to_owned());
    }
    for label in name.split('.') {
        dns_label(label).map_err(|why| format!("each part between dots {why}"))?;
    }
    Ok(name.to_owned())
}

fn image(value: &str) -> Result<String, String> {
    if value.is_empty() || value.chars().any(|c| c.is_whitespace() || c.is_control()) {
        return Err("must be an image reference such as example.org/quorate-agent:1.0".to_owned());
    }
    Ok(value.to_owned())
}

fn otlp_endpoint(value: &str) -> Result<String, String> {
    let refused = |why: &str| Err(format!("{why}; write it as http://collector.monitoring:4318"));
    let uri: http::Uri = match value.parse() {
        Ok(uri) => uri,
        Err(error) => return refused(&format!("is no URL: {error}")),
    };
    match (uri.scheme_str(), uri.host()) {
        (Some("http"), Some(_)) if uri.query().is_none() => Ok(value.to_owned()),
        // The image holds no certificates of authorities, and spans name objects: nothing secret.
        (Some("https"), _) => {
            refused("TLS is not spoken to collectors: name one inside the cluster, which may")
        }
        (Some("http"), Some(_)) => refused("must not have a query"),
        _ => refused("must begin with http:// and name a host"),
    }
}

fn not_empty(value: &str) -> Result<String, String> {
    if value.trim().is_empty() {
        return Err("must not be empty; leave it out for the default".to_owned());
    }
    Ok(value.to_owned())
}

fn log_filter(value: &str) -> Result<Targets, String> {
    value.parse().map_err(|error| {
        format!("{error}; write a level such as `info`, or `MODULE=LEVEL` separated by commas")
    })
}

#[cfg(test)]
mod tests;
