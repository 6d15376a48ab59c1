//! A chart of an older version, made of the present one: with a definition that lacks a field, and
//! without a value.

use quorate_e2e::Lab;
use std::fs;
use std::path::{Path, PathBuf};

/// The field that the older definition lacks.
pub(crate) const FIELD: &str = "ttlSecondsAfterFinished";

/// Writes the chart into a folder of the test cluster's own.
pub(crate) fn chart(lab: &Lab) -> PathBuf {
    let folder = lab.cluster.folder().path("older/quorate");
    copy(&crate::path("charts/quorate"), &folder);
    edit(&folder.join("Chart.yaml"), |text| {
        let current = concat!("version: ", env!("CARGO_PKG_VERSION"));
        text.replacen(current, "version: 0.0.9", 1)
    });
    edit(&folder.join("values.yaml"), |text| text.replace("priorityClassName: \"\"\n", ""));
    edit(&folder.join("files/minicluster-definition.yaml"), |_| definition(lab));
    folder
}

/// The definition's `spec` without the field. JSON is YAML.
fn definition(lab: &Lab) -> String {
    let file = crate::path("config/crd/quorate.dev_miniclusters.yaml").display().to_string();
    let text = lab.kubectl(&["create", "--dry-run=client", "-o", "json", "-f", &file]).unwrap();
    let mut definition: serde_json::Value = serde_json::from_str(&text).unwrap();
    let schema = &mut definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    let spec = schema["properties"]["spec"]["properties"].as_object_mut().unwrap();
    spec.remove(FIELD).unwrap();
    format!("spec: {}\n", definition["spec"])
}

fn edit(file: &Path, change: impl FnOnce(&str) -> String) {
    let text = fs::read_to_string(file).unwrap();
    let changed = change(&text);
    assert_ne!(text, changed, "{}", file.display());
    fs::write(file, changed).unwrap();
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &to);
        } else {
            fs::copy(entry.path(), to).unwrap();
        }
    }
}
