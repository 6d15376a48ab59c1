//! Sets of ids in logs and specifications: as people write them, `0-3,7`.

use quorate_hostlist::IdSet;
use serde::{Deserialize as _, Deserializer, Serializer, de::Error as _};

/// Writes a set as text.
pub(crate) fn serialize<S: Serializer>(set: &IdSet, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(set)
}

/// Reads a set from text; bounded as every id set is.
pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<IdSet, D::Error> {
    let text = std::borrow::Cow::<'_, str>::deserialize(deserializer)?;
    text.parse().map_err(D::Error::custom)
}
