//! Names: what Kubernetes takes, and the budget that JobSet's pod names leave for ours.

/// Pod names are `<cluster>-<group>-0-<index>-<5 random>`, at most 63 characters of which the
/// fixed parts take 9: so many are left for cluster, group and the digits of the largest index
/// (one is the digit of the Job's index, which is always 0).
pub const BUDGET: usize = 54;

/// The most brokers that one cluster may have: one worker group fills one Indexed Job, whose
/// parallelism Kubernetes limits to this with per-index back-off (KEP-3850).
pub const MAX_SIZE: i32 = 100_000;

/// The launcher's replicated job.
pub const LAUNCHER: &str = "launcher";
/// The worker group of a MiniCluster that names none.
pub const WORKER: &str = "worker";

/// The label that puts a cluster into a LocalQueue of Kueue.
pub const QUEUE_NAME: &str = "kueue.x-k8s.io/queue-name";
/// The annotation that has all sets of pods placed together (topology-aware scheduling).
pub const POD_SET_GROUP: &str = "kueue.x-k8s.io/podset-group-name";

/// Whether a label or annotation is one of Kueue's.
pub fn is_of_kueue(key: &str) -> bool {
    let domains = ["kueue.x-k8s.io", "provreq.kueue.x-k8s.io"];
    key.split_once('/').is_some_and(|(domain, _)| domains.contains(&domain))
}

/// Domains of labels and annotations by which the plan, JobSet and Job tell pods. Exclusive topology
/// of JobSet (`alpha`) would place the launcher on its own, and never with a gang.
pub(crate) const RESERVED_DOMAINS: [&str; 4] =
    ["quorate.dev", "jobset.sigs.k8s.io", "alpha.jobset.sigs.k8s.io", "batch.kubernetes.io"];

/// Whether a text is a DNS label that starts with a letter (RFC 1035): what a Service or a Job of a
/// JobSet may be called.
pub fn is_dns_1035_label(text: &str) -> bool {
    text.len() <= 63 && text.starts_with(|c: char| c.is_ascii_lowercase()) && is_label_body(text)
}

fn is_label_body(text: &str) -> bool {
    !text.ends_with('-')
        && text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
}

/// Whether a text is the name of an environment variable: printable ASCII without `=`, what
/// Kubernetes takes since relaxed validation (KEP-4369).
pub fn is_variable(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| (c.is_ascii_graphic() || c == ' ') && c != '=')
}

/// Whether a text names a controller: a domain, `/`, and more of printable ASCII, as in
/// `spec.managedBy` of a Job.
pub fn is_controller(text: &str) -> bool {
    let word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    text.split_once('/').is_some_and(|(domain, name)| {
        domain.starts_with(word)
            && domain.ends_with(word)
            && domain.chars().all(|c| word(c) || c == '-' || c == '.')
            && !name.is_empty()
            && name.chars().all(|c| c.is_ascii_graphic())
    })
}

/// Whether a text is the key of a label: a name, before it perhaps a domain and `/`.
pub fn is_label_key(text: &str) -> bool {
    let (domain, name) = match text.split_once('/') {
        Some((domain, name)) => (Some(domain), name),
        None => (None, text),
    };
    let alphanumeric = |c: char| c.is_ascii_alphanumeric();
    let label = |label: &str| !label.is_empty() && !label.starts_with('-') && is_label_body(label);
    name.len() <= 63
        && name.starts_with(alphanumeric)
        && name.ends_with(alphanumeric)
        && name.chars().all(|c| alphanumeric(c) || "-_.".contains(c))
        && domain.is_none_or(|domain| domain.len() <= 253 && domain.split('.').all(label))
}

/// Characters of a pod name's budget that a cluster, a group and the largest index take.
pub fn cost(cluster: &str, group: &str, pods: u32) -> usize {
    cluster.len() + group.len() + digits(0) + digits(pods.saturating_sub(1))
}

fn digits(number: u32) -> usize {
    number.to_string().len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_budget_is_that_of_a_pod_name_of_63_characters() {
        let cluster = "c".repeat(45);
        assert_eq!(cost(&cluster, "worker", 100), BUDGET);
        let pod = format!("{cluster}-worker-0-99-abcde");
        assert_eq!(pod.len(), 63);
        assert_eq!(cost(&"c".repeat(44), "worker", 1000), BUDGET);
        assert_eq!(cost(&"c".repeat(44), "launcher", 1), BUDGET);
    }

    #[test]
    fn controllers() {
        for good in ["quorate.dev/quorate-controller", "a/b", "kueue.x-k8s.io/multikueue"] {
            assert!(is_controller(good), "{good}");
        }
        for bad in ["", "a", "/b", "a/", "A.b/c", "-a/b", "a/b c"] {
            assert!(!is_controller(bad), "{bad}");
        }
    }

    #[test]
    fn keys_of_labels() {
        let longest = "x".repeat(63);
        for good in ["rack", "kubernetes.io/hostname", "a-b.c/D_e.f", "4", &longest] {
            assert!(is_label_key(good), "{good}");
        }
        let longer = "x".repeat(64);
        for bad in ["", "/rack", "a/", "a/b/c", "A.b/c", "a..b/c", "-a", "a_", "rack id", &longer] {
            assert!(!is_label_key(bad), "{bad}");
        }
    }

    #[test]
    fn labels_and_variables() {
        assert!(is_dns_1035_label("hello-2"));
        for bad in ["", "2hello", "Hello", "hello-", "a.b", &"x".repeat(64)] {
            assert!(!is_dns_1035_label(bad), "{bad}");
        }
        assert!(is_variable("_A1"));
        for bad in ["", "A=B", "A\n", "Ä"] {
            assert!(!is_variable(bad), "{bad}");
        }
    }
}
