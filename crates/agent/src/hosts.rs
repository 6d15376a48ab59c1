//! What batch scripts need to find the pods: host files of each launcher family and the variables
//! that point at them.

pub mod environment;
pub mod files;
