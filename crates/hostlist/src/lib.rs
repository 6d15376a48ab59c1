//! Host lists, id sets and task maps: parse, print, set algebra.
