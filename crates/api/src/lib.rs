//! The objects that people and the control plane exchange: the MiniCluster (types, schema,
//! defaults, CEL rules, status, conditions) and the part of JobSet that a MiniCluster becomes.
//!
//! ```text
//! text --load--> MiniCluster --validate--> ValidatedMiniCluster --> quorate_plan
//!                     |                          ^
//!                     +-- crd() --> API server --+  (the same rules as CEL)
//! ```
//!
//! Owns: every field name, default and rule of the API, and the wording of what is wrong with an
//! object. It knows no client, no clock and no file system: text comes in, findings go out.

#![forbid(unsafe_code)]
// `KubeSchema` repeats each public struct inside of a private block.
#![allow(unreachable_pub)]

mod cel;
pub mod conditions;
pub mod finding;
pub mod generated;
pub mod jobset;
pub mod load;
pub mod minicluster;
pub mod names;
mod reference;
pub mod status;
pub mod template;
pub mod validate;

pub use finding::{FieldPath, Finding, Severity};
pub use generated::{GeneratedFile, generated_files};
pub use load::{Document, load};
pub use minicluster::{MiniCluster, MiniClusterSpec, crd};
pub use validate::{Target, ValidatedMiniCluster, validate};
