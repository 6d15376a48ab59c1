//! Status codes of PMIx that a server answers with, as the standard numbers them.

/// All went well.
pub(crate) const SUCCESS: i32 = 0;
/// No more is said.
pub(crate) const ERROR: i32 = -1;
/// The claimed identity is not accepted.
pub(crate) const INVALID_CREDENTIAL: i32 = -12;
/// A type of data that is not known.
pub(crate) const UNKNOWN_DATA_TYPE: i32 = -16;
/// A request cannot be read.
pub(crate) const UNPACK_FAILURE: i32 = -20;
/// The time is over.
pub(crate) const TIMEOUT: i32 = -24;
/// Another node cannot be reached.
pub(crate) const UNREACHABLE: i32 = -25;
/// A parameter makes no sense.
pub(crate) const BAD_PARAMETER: i32 = -27;
/// A bound is reached.
pub(crate) const OUT_OF_RESOURCE: i32 = -29;
/// No such data.
pub(crate) const NOT_FOUND: i32 = -46;
/// Not supported here.
pub(crate) const NOT_SUPPORTED: i32 = -47;
/// Clean-up directives that contradict each other.
pub(crate) const CONFLICTING_CLEANUP: i32 = -51;
