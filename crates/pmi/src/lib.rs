//! PMI-1, PMI-2 and PMIx on the wire: codecs and server state machines.
