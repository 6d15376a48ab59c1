//! Whether this machine allows the sandbox, found by trying, and if not, which bar stands in the
//! way. Settings are read only to explain a refusal, never to predict one.

use super::root::{Identity, settle};
use super::{ClusterNetwork, SandboxError, start_keeper};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use std::fmt;

/// What keeps namespaces from being made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Bar {
    /// `user.max_user_namespaces` is 0.
    NoUserNamespaces,
    /// Debian's switch `kernel.unprivileged_userns_clone` is 0.
    UnprivilegedCloneOff,
    /// Ubuntu's AppArmor rule: namespaces can be made, but give no rights.
    AppArmor,
    /// A system-call filter, as containers have.
    Seccomp,
    /// The kernel was built without something, or refused for a reason of its own.
    Other(String),
}

impl fmt::Display for Bar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoUserNamespaces => {
                write!(f, "this machine forbids user namespaces (user.max_user_namespaces = 0)")
            }
            Self::UnprivilegedCloneOff => write!(
                f,
                "this machine forbids user namespaces (kernel.unprivileged_userns_clone = 0)"
            ),
            Self::AppArmor => write!(
                f,
                "this machine forbids user namespaces (kernel.apparmor_restrict_unprivileged_userns = 1)"
            ),
            Self::Seccomp => {
                write!(
                    f,
                    "a system-call filter forbids namespaces, as in a container without rights"
                )
            }
            Self::Other(why) => {
                write!(f, "this machine does not allow the namespaces of a pod: {why}")
            }
        }
    }
}

/// The answer of [`probe`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Support {
    /// Pods can be sandboxed.
    Full,
    /// They cannot.
    None(Bar),
}

/// Tries it: starts a keeper that maps its user and makes a bridge, then ends.
pub fn probe(identity: Identity) -> Support {
    let started = start_keeper(identity, true, || match settle(identity) {
        Err(_) => 10,
        Ok(()) => match ClusterNetwork::create() {
            Err(_) => 11,
            Ok(_) => 0,
        },
    });
    match started {
        Err(error) => Support::None(explain(&error)),
        Ok(keeper) => match waitpid(keeper.pid, None::<WaitPidFlag>) {
            Ok(WaitStatus::Exited(_, 0)) => Support::Full,
            Ok(WaitStatus::Exited(_, 11)) => Support::None(settings_bar().unwrap_or_else(|| {
                Bar::Other("no bridge or veth links (kernel modules bridge, veth)".into())
            })),
            _ => Support::None(
                settings_bar().unwrap_or(Bar::Other("no rights in a new user namespace".into())),
            ),
        },
    }
}

/// The bar behind a refusal.
pub fn explain(error: &SandboxError) -> Bar {
    if let Some(bar) = settings_bar() {
        return bar;
    }
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    let filtered = status_field("Seccomp:").is_some_and(|mode| mode != "0");
    if filtered { Bar::Seccomp } else { Bar::Other(text) }
}

/// The bar that the machine's settings name.
fn settings_bar() -> Option<Bar> {
    bar_of(|file| std::fs::read_to_string(file).ok())
}

fn bar_of(read: impl Fn(&str) -> Option<String>) -> Option<Bar> {
    let is = |file: &str, value: &str| read(file).is_some_and(|text| text.trim() == value);
    if is("/proc/sys/user/max_user_namespaces", "0") {
        Some(Bar::NoUserNamespaces)
    } else if is("/proc/sys/kernel/unprivileged_userns_clone", "0") {
        Some(Bar::UnprivilegedCloneOff)
    } else if is("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1") {
        Some(Bar::AppArmor)
    } else {
        None
    }
}

fn status_field(name: &str) -> Option<String> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    status.lines().find_map(|line| line.strip_prefix(name)).map(|v| v.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_setting_is_recognised_by_its_value() {
        let cases = [
            ("/proc/sys/user/max_user_namespaces", "0\n", Bar::NoUserNamespaces),
            ("/proc/sys/kernel/unprivileged_userns_clone", "0\n", Bar::UnprivilegedCloneOff),
            ("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1\n", Bar::AppArmor),
        ];
        for (file, value, bar) in cases {
            let read = |asked: &str| (asked == file).then(|| value.to_owned());
            assert_eq!(bar_of(read), Some(bar));
        }
        assert_eq!(bar_of(|_| Some("4711".into())), None);
        assert_eq!(bar_of(|_| None), None);
    }
}
