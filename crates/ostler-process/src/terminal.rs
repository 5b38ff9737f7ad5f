//! Agents that are driven through their own terminal program.
//!
//! - [`pty`]: the terminal that such a program runs on.

pub mod pty;
