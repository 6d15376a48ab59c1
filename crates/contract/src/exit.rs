//! Exit codes (`docs/spec/exit-codes.md`). A program's own code is passed on untouched; the codes
//! here are for what the agent and `quorate` themselves have to say.

/// All went well.
pub const OK: i32 = 0;
/// The command failed in a way that has no code of its own.
pub const FAILED: i32 = 1;
/// Wrong usage: flags, files, fields.
pub const USAGE: i32 = 2;
/// A parallel program ran on fewer pods than planned.
pub const WRONG_PLACEMENT: i32 = 65;
/// Not enough brokers came within the bootstrap timeout.
pub const BOOTSTRAP_TIMEOUT: i32 = 66;
/// The overlay refused this broker (wrong secret, attempt, version or cluster).
pub const REFUSED: i32 = 67;
/// This broker was cut off from rank 0 for longer than the orphan timeout.
pub const ORPHANED: i32 = 68;
/// A broker that the program needed was lost.
pub const BROKER_LOST: i32 = 69;
/// An error inside Quorate (`EX_SOFTWARE` of sysexits.h).
pub const INTERNAL: i32 = 70;
/// No broker answers on the local socket.
pub const UNAVAILABLE: i32 = 75;
/// A time limit ended the program, as with timeout(1).
pub const TIME_LIMIT: i32 = 124;
/// The command was found but could not be executed, as in sh(1).
pub const NOT_EXECUTABLE: i32 = 126;
/// The command was not found, as in sh(1).
pub const NOT_FOUND: i32 = 127;
/// SIGTERM alone ended the pod (128 + 15): a Job then replaces it instead of counting it done.
pub const TERMINATED: i32 = 143;

/// The code of a process ended by a signal: 128 + n.
pub fn signaled(signal: i32) -> i32 {
    128 + signal
}
