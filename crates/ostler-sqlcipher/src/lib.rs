//! SQLCipher as a static library with its own cryptography, for `rusqlite` to link against.
//!
//! There is no Rust code here. `build.rs` compiles the SQLCipher amalgamation together with the few files of LibTomCrypt
//! that it calls; `rusqlite`'s feature `in_gecko` makes `libsqlite3-sys` expect exactly that and link nothing itself.
//! A crate that uses `rusqlite` names this one (`use ostler_sqlcipher as _;`), so that the library is linked.
//! Why: docs/adr/0020.
