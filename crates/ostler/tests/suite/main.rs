//! How the binary behaves from outside, and how the house stands.

mod house;
