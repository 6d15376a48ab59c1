//! Keeps `config/` equal to the chart: the kustomize bases are what the real Helm renders from
//! `charts/quorate`, so that there is one source, and the chart stays a chart that people can read.
//! (The definition of MiniCluster comes into both from the types, by `cargo xtask crd`.)
//!
//! Must not: know YAML. What Helm renders is cut at its own marks, line by line.

mod cases;

use crate::tally::{Clock, Tally};
use crate::workspace;
use anyhow::{Context, Result, bail, ensure};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The release that the bases are: its name and namespace.
const NAME: &str = "quorate";
const NAMESPACE: &str = "quorate-system";

/// Templates and the base that each goes to. One that is not listed is refused, so that a new
/// template is placed on purpose.
const PLACES: &[(&str, &str)] = &[
    ("serviceaccount.yaml", "rbac"),
    ("rbac.yaml", "rbac"),
    ("rbac-users.yaml", "rbac"),
    ("flowschema.yaml", "manager"),
    ("deployment.yaml", "manager"),
    ("poddisruptionbudget.yaml", "manager"),
    ("networkpolicy.yaml", "manager"),
    ("service.yaml", "manager"),
    ("lost-nodes.yaml", "lost-nodes"),
];

/// An API of newer clusters, without which its template is empty. `config/default` leaves its base out, so
/// that it can be applied anywhere.
pub(crate) const NEWER: &str = "admissionregistration.k8s.io/v1/MutatingAdmissionPolicy";

/// Lines of Helm's own, which would not be true of what kustomize makes.
const HELMS: &[&str] = &["app.kubernetes.io/managed-by: Helm", "helm.sh/chart: "];

/// Samples, which are written by hand: they name images, which the examples for one machine do not.
const SAMPLES: &[&str] = &["hello.yaml", "mpirun.yaml", "queue.yaml"];

/// Writes the bases.
pub(crate) fn write() -> Result<bool> {
    keep_bases(&helm()?, false)
}

/// Writes the bases, or with `check` tells whether they are as they should be.
fn keep_bases(helm: &Path, check: bool) -> Result<bool> {
    let rendered = render(helm)?;
    let files = bases(&rendered)?;
    let mut well = true;
    for (path, content) in &files {
        let full = workspace::root().join(path);
        if fs::read_to_string(&full).is_ok_and(|old| old == *content) {
            continue;
        }
        if check {
            println!("{path} differs from the chart; run `cargo xtask chart` and commit it");
            well = false;
            continue;
        }
        let folder = full.parent().context("a generated file lies in a folder")?;
        fs::create_dir_all(folder).with_context(|| format!("create {}", folder.display()))?;
        fs::write(&full, content).with_context(|| format!("write {path}"))?;
        println!("written: {path}");
    }
    Ok(well)
}

/// All that can be told of the chart without a cluster, for the tier `lint`.
pub(crate) fn check(clock: Clock) -> Result<Tally> {
    let helm = helm()?;
    let mut tally = Tally::default();
    tally.case(keep_bases(&helm, true)?);
    tally.add(cases::run(&helm, clock)?);
    Ok(tally)
}

/// The real Helm: `QUORATE_HELM`, else the pinned one that the test cluster uses, built once.
fn helm() -> Result<PathBuf> {
    if let Some(path) = std::env::var_os("QUORATE_HELM").filter(|path| !path.is_empty()) {
        return Ok(path.into());
    }
    let output = workspace::cargo()
        .args(["run", "--quiet", "--locked", "--package", "quorate-testbed", "--bin", "testbed"])
        .args(["--", "build", "helm"])
        .stderr(std::process::Stdio::inherit())
        .output()
        .context("start cargo run")?;
    ensure!(
        output.status.success(),
        "Helm cannot be built (needs Go); QUORATE_HELM names another: {}",
        output.status
    );
    let folder = String::from_utf8(output.stdout).context("read where Helm is")?;
    Ok(Path::new(folder.trim()).join("helm"))
}

/// What `helm template` makes of the chart as it comes.
fn render(helm: &Path) -> Result<String> {
    let output = Command::new(helm)
        .args(["template", NAME, "charts/quorate", "--namespace", NAMESPACE])
        .args(["--set", "crds.install=false", "--api-versions", NEWER])
        .current_dir(workspace::root())
        .output()
        .with_context(|| format!("start {}", helm.display()))?;
    ensure!(
        output.status.success(),
        "helm template: {}",
        String::from_utf8_lossy(&output.stderr).trim()
    );
    String::from_utf8(output.stdout).context("read what helm rendered")
}

/// The files of `config/rbac` and `config/manager`, by path.
fn bases(rendered: &str) -> Result<BTreeMap<String, String>> {
    let mut documents: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for document in rendered.split("---\n").filter(|document| !document.trim().is_empty()) {
        let (mark, body) = document.split_once('\n').context("a document has lines")?;
        let template = mark
            .strip_prefix("# Source: quorate/templates/")
            .with_context(|| format!("helm begins a document with `{mark}`"))?;
        let body: Vec<&str> = body
            .trim_end()
            .lines()
            .filter(|line| !HELMS.iter().any(|of| line.contains(of)))
            .collect();
        documents.entry(template).or_default().push(body.join("\n"));
    }
    let mut files = BTreeMap::new();
    let mut lists: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (template, bodies) in documents {
        let Some((_, base)) = PLACES.iter().find(|(name, _)| *name == template) else {
            bail!("charts/quorate/templates/{template} has no place in config/ (xtask chart)");
        };
        let text = format!(
            "# Rendered from charts/quorate/templates/{template} by `cargo xtask chart`; change that instead.\n{}\n",
            bodies.join("\n---\n")
        );
        files.insert(format!("config/{base}/{template}"), text);
        lists.entry(base).or_default().push(template);
    }
    lists.insert("crd", vec!["quorate.dev_miniclusters.yaml"]);
    lists.insert("samples", SAMPLES.to_vec());
    for (base, resources) in lists {
        files.insert(format!("config/{base}/kustomization.yaml"), kustomization(&resources, ""));
    }
    files.insert("config/default/namespace.yaml".into(), namespace());
    let all = ["namespace.yaml", "../crd", "../rbac", "../manager"];
    let space = format!("namespace: {NAMESPACE}\n");
    files.insert("config/default/kustomization.yaml".into(), kustomization(&all, &space));
    Ok(files)
}

fn kustomization(resources: &[&str], more: &str) -> String {
    let resources: String =
        resources.iter().fold(String::new(), |text, name| text + "- " + name + "\n");
    format!(
        "# Written by `cargo xtask chart`.\napiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\n{more}resources:\n{resources}"
    )
}

/// The namespace that `config/default` installs into; the controller's pods pass what it enforces.
fn namespace() -> String {
    format!(
        "# Written by `cargo xtask chart`.\napiVersion: v1\nkind: Namespace\nmetadata:\n  name: {NAMESPACE}\n  labels:\n    pod-security.kubernetes.io/enforce: restricted\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_are_cut_at_helms_marks_and_lose_its_labels() {
        let rendered = "---\n# Source: quorate/templates/rbac.yaml\nkind: Role\nlabels:\n  \
            app.kubernetes.io/managed-by: Helm\n  helm.sh/chart: \"quorate-0.1.0\"\n  a: b\n---\n\
            # Source: quorate/templates/rbac.yaml\nkind: RoleBinding\n";
        let files = bases(rendered).unwrap();
        let roles = &files["config/rbac/rbac.yaml"];
        assert!(
            roles.ends_with("instead.\nkind: Role\nlabels:\n  a: b\n---\nkind: RoleBinding\n"),
            "{roles}"
        );
        assert!(files["config/rbac/kustomization.yaml"].ends_with("resources:\n- rbac.yaml\n"));
    }

    #[test]
    fn a_template_without_a_place_is_refused() {
        let rendered = "---\n# Source: quorate/templates/new.yaml\nkind: New\n";
        assert!(
            bases(rendered).unwrap_err().to_string().contains("templates/new.yaml has no place")
        );
    }
}
