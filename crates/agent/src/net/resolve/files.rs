//! `/etc/hosts` (hosts(5)) and `/etc/resolv.conf` (resolv.conf(5)), as far as addresses of pods
//! need them. Pure; unknown lines and options are skipped, as the C library does.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

/// Limits of resolv.conf(5).
const SERVER_LIMIT: usize = 3;
const SEARCH_LIMIT: usize = 32;

/// What resolv.conf says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResolvConf {
    /// Servers in order, at most three; the local host when the file names none.
    pub servers: Vec<SocketAddr>,
    /// Domains that complete short names.
    pub search: Vec<String>,
    /// Names with fewer dots are completed first.
    pub ndots: usize,
    /// The wait for one server.
    pub timeout: Duration,
    /// How often the list of servers is gone through.
    pub attempts: u32,
}

impl ResolvConf {
    /// Reads the file's text.
    pub fn parse(text: &str) -> Self {
        let mut conf = Self {
            servers: Vec::new(),
            search: Vec::new(),
            ndots: 1,
            timeout: Duration::from_secs(5),
            attempts: 2,
        };
        for line in text.lines() {
            let line = line.split(['#', ';']).next().unwrap_or_default();
            let mut words = line.split_whitespace();
            match words.next() {
                Some("nameserver") if conf.servers.len() < SERVER_LIMIT => {
                    let address = words.next().and_then(|word| word.parse::<IpAddr>().ok());
                    conf.servers.extend(address.map(|ip| SocketAddr::new(ip, 53)));
                }
                // The last of `search` and `domain` wins.
                Some("search" | "domain") => {
                    conf.search = words
                        .take(SEARCH_LIMIT)
                        .map(|d| d.trim_matches('.').to_owned())
                        .filter(|d| !d.is_empty())
                        .collect();
                }
                Some("options") => words.for_each(|option| conf.option(option)),
                _ => {}
            }
        }
        if conf.servers.is_empty() {
            conf.servers.push((Ipv4Addr::LOCALHOST, 53).into());
        }
        conf
    }

    fn option(&mut self, option: &str) {
        let Some((name, value)) = option.split_once(':') else { return };
        let Ok(value) = value.parse::<u32>() else { return };
        match name {
            "ndots" => self.ndots = value.min(15) as usize,
            "timeout" => self.timeout = Duration::from_secs(u64::from(value.clamp(1, 30))),
            "attempts" => self.attempts = value.clamp(1, 5),
            _ => {}
        }
    }

    /// The full names to ask for, in order, for a name without final dot.
    pub fn candidates(&self, name: &str) -> Vec<String> {
        let completed = self.search.iter().map(|domain| format!("{name}.{domain}"));
        let dots = name.matches('.').count();
        if dots >= self.ndots {
            std::iter::once(name.to_owned()).chain(completed).collect()
        } else {
            completed.chain(std::iter::once(name.to_owned())).collect()
        }
    }
}

/// The addresses that a hosts file gives a name, IPv4 first.
pub fn hosts_lookup(text: &str, name: &str) -> Vec<IpAddr> {
    let mut found: Vec<IpAddr> = text
        .lines()
        .filter_map(|line| {
            let line = line.split('#').next().unwrap_or_default();
            let mut words = line.split_whitespace();
            let address = words.next()?.parse().ok()?;
            words
                .any(|word| word.trim_end_matches('.').eq_ignore_ascii_case(name))
                .then_some(address)
        })
        .collect();
    found.sort_by_key(IpAddr::is_ipv6);
    found
}
