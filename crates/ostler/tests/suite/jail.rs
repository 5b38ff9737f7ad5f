//! What a jailed process can reach: tried by a shell in the place of an agent, as root and as a plain user.

mod escapes;
mod yard;
