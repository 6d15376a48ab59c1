//! The broker overlay as a sans-IO state machine.
