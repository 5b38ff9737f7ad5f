//! House rules that no compiler keeps: who may use whom, what may be depended on, how files are named, what the
//! documents promise. A check is a function that returns complaints, so that a test can see it complain.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot read the tree has failed")]

mod changelog;
mod conformance;
mod dependencies;
mod directions;
mod documents;
mod licences;
mod tree;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use cargo_metadata::{Metadata, MetadataCommand};

const NOTHING: [String; 0] = [];

/// The workspace and everything it may be built from, on all platforms.
static METADATA: LazyLock<Metadata> = LazyLock::new(|| {
    let mut command = MetadataCommand::new();
    command.manifest_path(root().join("Cargo.toml")).other_options(["--locked".to_owned()]);
    command.exec().expect("cargo describes the workspace")
});

/// The top folder of the tree.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("crates/ostler is two deep").to_owned()
}

/// A text file, by its path from the top.
fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).map_err(|error| format!("{path}: {error}")).unwrap()
}
