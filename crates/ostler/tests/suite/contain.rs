//! Nothing survives a run: hostile children, in every tier that works here, however the run or its keepers end.

mod ahead;
mod endings;
mod failures;
mod hostile;
mod owner;
mod streams;
pub(crate) mod watched;
mod yard;
