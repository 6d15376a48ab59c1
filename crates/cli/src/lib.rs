//! The user binary: local clusters, validate, plan, doctor.
