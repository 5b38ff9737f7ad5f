//! `ostler smoke` with the real agents: all pass, and what is broken in the real path changes the right rows, with the
//! right words. No result is made up here: scripts make the model do it, wrappers stand between Ostler and the agent.

mod breaks;
mod bridge;
mod ending;
mod green;
mod ground;
