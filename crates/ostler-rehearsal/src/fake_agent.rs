//! A stand-in for an agent program, for what real ones will not do on demand.
