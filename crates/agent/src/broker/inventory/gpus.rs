//! Accelerators that a pod was given, as their device plugins show them: device files, and for
//! NVIDIA a variable with the names. No library of a vendor is needed.

use super::Gpu;
use std::fs;
use std::path::Path;

/// Set by NVIDIA's container runtime: numbers or UUIDs, or a word.
pub(super) const NVIDIA_VARIABLE: &str = "NVIDIA_VISIBLE_DEVICES";

/// The PCI vendor of AMD, as sysfs writes it.
const AMD: &str = "0x1002";

/// All accelerators. `root` is where `/dev` and `/sys` are, `nvidia` what [`NVIDIA_VARIABLE`]
/// says.
pub(super) fn detect(root: &Path, nvidia: Option<&str>) -> Vec<Gpu> {
    let mut found = nvidia_gpus(root, nvidia);
    found.extend(amd_gpus(root));
    found
}

/// Images set the variable to `all` whether or not there are devices, so the device files count;
/// names of single devices (MIG slices too) say more than the files.
fn nvidia_gpus(root: &Path, variable: Option<&str>) -> Vec<Gpu> {
    let files = numbered(&root.join("dev"), "nvidia");
    if files.is_empty() {
        return Vec::new();
    }
    let named: Vec<String> = variable
        .unwrap_or_default()
        .split(',')
        .map(str::trim)
        .filter(|name| !["", "all", "none", "void"].contains(name))
        .map(str::to_owned)
        .collect();
    let ids = if named.is_empty() { files.iter().map(u32::to_string).collect() } else { named };
    ids.into_iter().map(|id| Gpu { vendor: "nvidia".into(), id }).collect()
}

/// Compute needs `/dev/kfd`; each device has a render node. Numbers count the devices that are
/// visible, as ROCR_VISIBLE_DEVICES does.
fn amd_gpus(root: &Path) -> Vec<Gpu> {
    if !root.join("dev/kfd").exists() {
        return Vec::new();
    }
    let is_amd = |number: &u32| {
        let vendor = root.join(format!("sys/class/drm/renderD{number}/device/vendor"));
        fs::read_to_string(vendor).is_ok_and(|vendor| vendor.trim() == AMD)
    };
    let nodes = numbered(&root.join("dev/dri"), "renderD").into_iter().filter(is_amd);
    nodes
        .enumerate()
        .map(|(number, _)| Gpu { vendor: "amd".into(), id: number.to_string() })
        .collect()
}

/// The numbers of the files that are called `prefix` and a number, ascending.
fn numbered(dir: &Path, prefix: &str) -> Vec<u32> {
    let Ok(entries) = fs::read_dir(dir) else { return Vec::new() };
    let number = |name: &str| name.strip_prefix(prefix)?.parse().ok();
    let mut numbers: Vec<u32> =
        entries.flatten().filter_map(|entry| number(entry.file_name().to_str()?)).collect();
    numbers.sort_unstable();
    numbers
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        root
    }

    fn ids(gpus: &[Gpu]) -> Vec<String> {
        gpus.iter().map(|gpu| format!("{}:{}", gpu.vendor, gpu.id)).collect()
    }

    #[test]
    fn nvidia_devices_are_files_and_have_names_where_the_runtime_says_so() {
        let two = root(&[
            ("dev/nvidia10", ""),
            ("dev/nvidia2", ""),
            ("dev/nvidiactl", ""),
            ("dev/null", ""),
        ]);
        for word in [None, Some("all"), Some("void"), Some("")] {
            assert_eq!(ids(&detect(two.path(), word)), ["nvidia:2", "nvidia:10"], "{word:?}");
        }
        let named = detect(two.path(), Some("GPU-8a5d,MIG-71c0"));
        assert_eq!(ids(&named), ["nvidia:GPU-8a5d", "nvidia:MIG-71c0"]);
    }

    #[test]
    fn a_variable_without_devices_is_no_device() {
        let none = root(&[("dev/nvidiactl", ""), ("dev/dri/renderD128", "")]);
        assert!(detect(none.path(), Some("all")).is_empty());
        assert!(detect(none.path(), Some("0,1")).is_empty());
    }

    #[test]
    fn amd_devices_are_render_nodes_beside_kfd() {
        let mut files = vec![
            ("dev/dri/renderD128", ""),
            ("dev/dri/renderD129", ""),
            ("sys/class/drm/renderD128/device/vendor", "0x8086\n"),
            ("sys/class/drm/renderD129/device/vendor", "0x1002\n"),
        ];
        assert!(detect(root(&files).path(), None).is_empty(), "graphics alone do not compute");
        files.push(("dev/kfd", ""));
        assert_eq!(ids(&detect(root(&files).path(), None)), ["amd:0"]);
    }
}
