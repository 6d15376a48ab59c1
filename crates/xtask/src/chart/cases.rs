//! The chart under the real Helm: it lints, renders with every option, and refuses wrong values with
//! their path; the alerts pass Prometheus's own check.

use crate::exec;
use crate::tally::{Clock, Tally};
use crate::workspace;
use anyhow::{Context, Result};
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

const LIMIT: Duration = Duration::from_mins(2);

/// A name, what is set, and what must or (after `!`) must not be in what is rendered.
type Renders = (&'static str, &'static [&'static str], &'static [&'static str]);

const RENDERS: &[Renders] = &[
    (
        "as it comes",
        &[],
        &[
            "kind: ClusterRole\n",
            "kind: PodDisruptionBudget\n",
            "helm.sh/resource-policy: keep\n",
            "!kind: ServiceMonitor\n",
            "kind: MutatingAdmissionPolicy\n",
            "kind: FlowSchema\n",
        ],
    ),
    ("an account of another name", &["serviceAccount.name=hpc"], &["            name: hpc\n"]),
    ("flows are somebody else's", &["flowSchema.create=false"], &["!kind: FlowSchema\n"]),
    ("lost nodes are Kubernetes' business", &["lostNodes.keepOff=false"], &["!MutatingAdmission"]),
    (
        "Pod Security restricted",
        &["crds.install=false"],
        &[
            "runAsNonRoot: true\n",
            "readOnlyRootFilesystem: true\n",
            "allowPrivilegeEscalation: false\n",
            "drop: [ALL]\n",
            "type: RuntimeDefault\n",
            // Any uid: a namespace may assign one.
            "!runAsUser",
        ],
    ),
    (
        "two namespaces",
        &["watch.namespaces={hpc,lab}", "rbac.aggregate=false"],
        &[
            "--watch-namespaces=hpc,lab\n",
            "kind: Role\nmetadata:\n  name: quorate\n  namespace: hpc\n",
            "kind: Role\nmetadata:\n  name: quorate\n  namespace: lab\n",
            "!kind: ClusterRole\n",
            "!kind: ClusterRoleBinding\n",
            "operator: In, values: [\"hpc\",\"lab\"]",
        ],
    ),
    ("one replica", &["replicas=1"], &["!kind: PodDisruptionBudget\n"]),
    (
        "all of monitoring",
        &[
            "metrics.serviceMonitor.enabled=true",
            "metrics.prometheusRule.enabled=true",
            "metrics.dashboard.enabled=true",
        ],
        &["kind: ServiceMonitor\n", "alert: QuorateNoLeader\n", "quorate.json: |-\n"],
    ),
    (
        "nobody scrapes",
        &["networkPolicy.scrapers=null"],
        &["policyTypes: [Ingress]\n  ingress: []\n"],
    ),
    (
        "images by digest",
        &["image.digest=sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"],
        &["image: localhost/quorate-controller@sha256:0123"],
    ),
    (
        "definition by somebody else",
        &["crds.install=false"],
        &["!kind: CustomResourceDefinition\n"],
    ),
    (
        "a definition that goes with the release",
        &["crds.keep=false"],
        &["kind: CustomResourceDefinition\n", "!helm.sh/resource-policy"],
    ),
    ("OpenShift", &["rbac.finalizers=true"], &["resources: [miniclusters/finalizers]\n"]),
    ("a domain", &["controller.clusterDomain=hpc.example"], &["--cluster-domain=hpc.example\n"]),
];

/// What is set, and a word of the refusal.
const REFUSED: &[(&str, &str)] = &[
    ("replica=3", "replica"),
    ("replicas=-1", "replicas"),
    ("watch.namespaces={Not_A_Name}", "watch"),
    ("controller.concurrency=0", "concurrency"),
    ("controller.log.format=xml", "format"),
    ("controller.otlp.endpoint=collector:4317", "endpoint"),
    ("controller.lease.durationSeconds=1", "durationSeconds"),
    ("controller.lease.renewDeadlineSeconds=15", "renewDeadlineSeconds is 15"),
    ("controller.lease.renewDeadlineSeconds=5", "renewDeadlineSeconds is 5"),
    ("metrics.service.enabled=false,metrics.serviceMonitor.enabled=true", "serviceMonitor needs"),
    ("replicas=two", "replicas"),
    ("networkPolicy.scrapers=monitoring", "scrapers"),
    ("image.pullPolicy=Sometimes", "pullPolicy"),
    ("image.digest=latest", "digest"),
    ("crds.instal=true", "instal"),
    ("terminationGracePeriodSeconds=1", "terminationGracePeriodSeconds"),
    ("metrics.serviceMonitor.interval=often", "interval"),
];

/// Runs all cases; one that fails is shown.
pub(crate) fn run(helm: &Path, clock: Clock) -> Result<Tally> {
    let mut tally = Tally::default();
    let mut case = |name: &str, wrong: Option<String>| {
        if let Some(wrong) = &wrong {
            clock.say(format!("chart, {name}: {wrong}"));
        }
        tally.case(wrong.is_none());
    };
    let lint = output(Command::new(helm).args(["lint", "--strict", "charts/quorate"]))?;
    case("helm lint", (!lint.0).then_some(lint.1));
    for (name, settings, expected) in RENDERS {
        let (done, text) = template(helm, settings)?;
        let missing = expected.iter().find(|part| match part.strip_prefix('!') {
            Some(absent) => text.contains(absent),
            None => !text.contains(**part),
        });
        let wrong = match missing {
            _ if !done => Some(text.clone()),
            Some(part) => Some(format!("`{}` is not as it should be", part.trim())),
            None => None,
        };
        case(name, wrong);
    }
    for (setting, word) in REFUSED {
        let (done, text) = template(helm, &[setting])?;
        let refused = !done && text.contains(word);
        case(setting, (!refused).then(|| format!("was not refused by its name: {text}")));
    }
    case(
        "rights are explained",
        unexplained()?.map(|right| format!("docs/spec/security.md says nothing of `{right}`")),
    );
    let alerts = [
        ("alerts", ["check", "rules", "charts/quorate/files/alerts.yaml"]),
        ("alerts fire when they should", ["test", "rules", "crates/xtask/src/chart/alerts.yaml"]),
    ];
    let mut skipped = 0;
    for (name, arguments) in alerts {
        match output(Command::new("promtool").args(arguments)) {
            Ok((done, text)) => case(name, (!done).then_some(text)),
            Err(missing) if workspace::in_ci() => case(name, Some(format!("{missing:#}"))),
            Err(missing) => {
                clock.say(format!("{name}: not checked (package prometheus): {missing:#}"));
                skipped += 1;
            }
        }
    }
    tally.skipped += skipped;
    Ok(tally)
}

/// A resource in the controller's roles that the threat model does not name.
fn unexplained() -> Result<Option<String>> {
    let read = |path: &str| {
        fs::read_to_string(workspace::root().join(path)).with_context(|| format!("read {path}"))
    };
    let (roles, page) =
        (read("charts/quorate/templates/rbac.yaml")?, read("docs/spec/security.md")?);
    let lists = roles.lines().filter_map(|line| line.trim().strip_prefix("resources: ["));
    let resources = lists.flat_map(|list| list.trim_end_matches(']').split(", "));
    let missing = resources.map(str::to_owned).find(|name| !page.contains(&format!("`{name}`")));
    Ok(missing)
}

fn template(helm: &Path, settings: &[&str]) -> Result<(bool, String)> {
    let mut command = Command::new(helm);
    command.args(["template", "quorate", "charts/quorate", "--namespace", "quorate-system"]);
    command.args(["--api-versions", super::NEWER]);
    for setting in settings {
        command.args(["--set", setting]);
    }
    output(&mut command)
}

/// Whether it ended well, and what it said.
fn output(command: &mut Command) -> Result<(bool, String)> {
    command.current_dir(workspace::root());
    let done = exec::capture(command, "chart", LIMIT).context("run a check of the chart")?;
    Ok((done.success(), done.output))
}
