//! The operating system: finding, installing and starting agent programs.
