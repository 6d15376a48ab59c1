//! The volumes of a container: what is mounted where, as far as one machine has it.

use super::environment::{absent, optional};
use super::{Build, PodError};
use crate::sandbox::{FileEntry, PodMount, Source};
use k8s_openapi::api::core::v1::{Container, DownwardAPIVolumeFile, KeyToPath, Volume};
use quorate_contract::paths;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Where programs put temporary files (POSIX.1, environ(7)).
pub(super) const TEMPORARY_VARIABLE: &str = "TMPDIR";
/// A pod's own place for them: short, since sockets are made there. The machine's `/tmp` stays
/// what it is, because people's programs and data lie there; but programs that take their PID for
/// a unique name (Open MPI 5: `$TMPDIR/ompi.<pid>`) would meet those of other pods in it.
pub(super) const TEMPORARY_DIR: &str = "/quorate/tmp";
/// Its directory beside the volumes' ones, by a name that no volume can have.
pub(super) const TEMPORARY_VOLUME: &str = ".tmp";

/// Whether the pod gets a place for temporary files of its own: not where a volume or a
/// variable of the container says already where they go.
pub(super) fn has_own_temporary(container: &Container) -> bool {
    let mounted = container.volume_mounts.iter().flatten().any(|m| m.mount_path == "/tmp");
    let named = container.env.iter().flatten().any(|v| v.name == TEMPORARY_VARIABLE);
    !mounted && !named
}

impl Build<'_> {
    pub(super) fn mounts(
        &self,
        container: &Container,
    ) -> Result<(Vec<PodMount>, Vec<PathBuf>), PodError> {
        let mut mounts = Vec::new();
        let mut directories = Vec::new();
        for m in container.volume_mounts.iter().flatten() {
            let failed = |why: String| PodError::Volume {
                group: self.facts.id.group.clone(),
                volume: m.name.clone(),
                why,
            };
            let volume = self
                .spec
                .volumes
                .iter()
                .flatten()
                .find(|v| v.name == m.name)
                .ok_or_else(|| failed("it is not in the pod's volumes".into()))?;
            let mut source = self.source(volume, &mut directories).map_err(failed)?;
            if let Some(path) = m.sub_path.as_deref().filter(|p| !p.is_empty()) {
                source = match source {
                    Source::Host(dir) => {
                        directories.push(dir.join(path));
                        Source::Host(dir.join(path))
                    }
                    _ => return Err(failed("subPath works for directories only".into())),
                };
            }
            mounts.push(PodMount {
                path: PathBuf::from(&m.mount_path),
                source,
                read_only: m.read_only.unwrap_or(false),
            });
        }
        // The volume that the init container `install` fills elsewhere: here the binary of this
        // machine is bound into it, which costs no copy.
        if mounts.iter().any(|m| m.path == Path::new(paths::BIN_DIR)) {
            mounts.retain(|m| m.path != Path::new(paths::BIN_DIR));
            mounts.push(PodMount {
                path: PathBuf::from(paths::AGENT),
                source: Source::Host(self.objects.agent.clone()),
                read_only: true,
            });
        }
        if has_own_temporary(container) {
            let dir = self.scratch.join(TEMPORARY_VOLUME);
            directories.push(dir.clone());
            mounts.push(PodMount {
                path: PathBuf::from(TEMPORARY_DIR),
                source: Source::Host(dir),
                read_only: false,
            });
        }
        mounts.sort_by_key(|m| m.path.components().count());
        Ok((mounts, directories))
    }

    fn source(&self, volume: &Volume, directories: &mut Vec<PathBuf>) -> Result<Source, String> {
        if let Some(empty) = &volume.empty_dir {
            return match empty.medium.as_deref() {
                Some("Memory") => {
                    let size = empty.size_limit.as_ref().map(|q| quantity_bytes(&q.0));
                    Ok(Source::Memory(size.transpose()?))
                }
                Some(huge) if huge.starts_with("HugePages") => {
                    Err("huge pages are not given out here".into())
                }
                _ => {
                    let dir = self.scratch.join(&volume.name);
                    directories.push(dir.clone());
                    Ok(Source::Host(dir))
                }
            };
        }
        if let Some(map) = &volume.config_map {
            return absent(&map.name, map.optional).map(|()| Source::Files(Vec::new()));
        }
        if let Some(secret) = &volume.secret {
            let name = secret.secret_name.as_deref().unwrap_or_default();
            let data = optional(self.secret_data(name), secret.optional)?;
            return files(data, secret.items.as_deref(), secret.default_mode).map(Source::Files);
        }
        if let Some(downward) = &volume.downward_api {
            return self
                .downward(downward.items.as_deref().unwrap_or_default(), downward.default_mode)
                .map(Source::Files);
        }
        if let Some(projected) = &volume.projected {
            let mut all = Vec::new();
            for source in projected.sources.iter().flatten() {
                if let Some(map) = &source.config_map {
                    absent(&map.name, map.optional)?;
                } else if let Some(secret) = &source.secret {
                    let data = optional(self.secret_data(&secret.name), secret.optional)?;
                    all.extend(files(data, secret.items.as_deref(), projected.default_mode)?);
                } else if let Some(downward) = &source.downward_api {
                    let items = downward.items.as_deref().unwrap_or_default();
                    all.extend(self.downward(items, projected.default_mode)?);
                } else {
                    return Err("one of its projected sources needs a Kubernetes cluster".into());
                }
            }
            return Ok(Source::Files(all));
        }
        if let Some(host) = &volume.host_path {
            if matches!(host.type_.as_deref(), Some("DirectoryOrCreate" | "FileOrCreate")) {
                return Err("a hostPath is never created on this machine".into());
            }
            return Ok(Source::Host(PathBuf::from(&host.path)));
        }
        Err("its kind needs a Kubernetes cluster".into())
    }

    fn downward(
        &self,
        items: &[DownwardAPIVolumeFile],
        mode: Option<i32>,
    ) -> Result<Vec<FileEntry>, String> {
        items
            .iter()
            .map(|item| {
                let value = match &item.field_ref {
                    Some(field) => self.field(&field.field_path)?,
                    None => return Err(format!("file {} has no field", item.path)),
                };
                Ok(FileEntry {
                    path: PathBuf::from(&item.path),
                    bytes: value.into_bytes(),
                    mode: file_mode(item.mode.or(mode)),
                })
            })
            .collect()
    }
}

fn files(
    data: BTreeMap<String, Vec<u8>>,
    items: Option<&[KeyToPath]>,
    mode: Option<i32>,
) -> Result<Vec<FileEntry>, String> {
    let Some(items) = items.filter(|items| !items.is_empty()) else {
        return Ok(data
            .into_iter()
            .map(|(key, bytes)| FileEntry { path: key.into(), bytes, mode: file_mode(mode) })
            .collect());
    };
    items
        .iter()
        .map(|item| {
            let bytes = data
                .get(&item.key)
                .cloned()
                .ok_or_else(|| format!("key {} is missing", item.key))?;
            let path = PathBuf::from(&item.path);
            Ok(FileEntry { path, bytes, mode: file_mode(item.mode.or(mode)) })
        })
        .collect()
}

fn file_mode(mode: Option<i32>) -> u32 {
    mode.and_then(|m| u32::try_from(m).ok()).unwrap_or(0o644)
}

/// Bytes of a Kubernetes quantity.
pub(super) fn quantity_bytes(quantity: &str) -> Result<u64, String> {
    const UNITS: [(&str, u64); 11] = [
        ("Ki", 1 << 10),
        ("Mi", 1 << 20),
        ("Gi", 1 << 30),
        ("Ti", 1 << 40),
        ("Pi", 1 << 50),
        ("k", 1_000),
        ("M", 1_000_000),
        ("G", 1_000_000_000),
        ("T", 1_000_000_000_000),
        ("P", 1_000_000_000_000_000),
        ("", 1),
    ];
    let unit = UNITS.iter().find(|(suffix, _)| quantity.ends_with(suffix));
    unit.and_then(|(suffix, factor)| {
        let number: f64 = quantity.strip_suffix(suffix)?.parse().ok()?;
        (number >= 0.0).then_some((number * *factor as f64) as u64)
    })
    .ok_or_else(|| format!("size {quantity} is not readable"))
}
