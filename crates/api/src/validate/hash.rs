//! Hashes that tell versions of one object apart. They guard nothing.

use std::collections::BTreeMap;

use crate::minicluster::MiniClusterSpec;

/// FNV-1a with 64 bits (draft-eastlake-fnv).
pub fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// A hash of each field of a spec as it was written. Equal fields have equal hashes.
pub(super) fn fields(spec: &MiniClusterSpec) -> BTreeMap<String, u64> {
    let spec = serde_json::to_value(spec).expect("a spec is plain data");
    spec.as_object()
        .into_iter()
        .flatten()
        .map(|(name, value)| (name.clone(), fnv1a(value.to_string().as_bytes())))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_fnv_1a() {
        assert_eq!(fnv1a(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fnv1a(b"foobar"), 0x8594_4171_f739_67e8);
    }

    #[test]
    fn a_change_shows_in_its_own_field() {
        let before = MiniClusterSpec { image: Some("a".into()), ..MiniClusterSpec::default() };
        let after = MiniClusterSpec { image: Some("b".into()), ..before.clone() };
        let (before, after) = (fields(&before), fields(&after));
        let changed: Vec<_> = before.keys().filter(|key| before[*key] != after[*key]).collect();
        assert_eq!(changed, ["image"]);
    }
}
