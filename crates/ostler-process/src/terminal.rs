//! Agents that are driven through their own terminal program.
//!
//! - [`pty`]: the terminal that such a program runs on; `pump`: what goes through it.
//! - [`screen`]: what it shows; [`seat`]: who watches it, and who has its keys; [`painter`]: showing it in a window.
//! - [`files`]: what the program writes for itself.
//! - [`driver`]: one live program, from all of these; [`session`]: several turns with it.

#[cfg(test)]
mod agreement_tests;
mod asked;
mod background;
mod csi;
#[cfg(test)]
mod dialog_tests;
pub mod driver;
pub mod files;
mod memory;
pub mod painter;
pub mod pty;
mod pump;
mod ring;
pub mod screen;
pub mod seat;
pub mod session;
mod style;
mod tokens;
