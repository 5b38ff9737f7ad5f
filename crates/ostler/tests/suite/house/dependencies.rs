//! What may be depended on, and where a manifest says it.

use cargo_metadata::{DependencyKind, Package, TargetKind};
use toml::{Table, Value};

use super::{METADATA, NOTHING, read};

/// Not anywhere in the graph: they need a C toolchain, a system library or a database server, or double the build.
const BANNED: &[&str] =
    &["aws-lc-rs", "aws-lc-sys", "native-tls", "openssl", "openssl-src", "openssl-sys", "sqlx"];

/// Not asked for by us, because the language or the standard library has it now.
const OUTDATED: &[&str] = &["async-trait", "lazy_static", "once_cell"];

const TABLES: [&str; 3] = ["dependencies", "dev-dependencies", "build-dependencies"];

fn manifest(package: &Package) -> Table {
    let folder = package.manifest_path.parent().and_then(|folder| folder.file_name()).unwrap_or_default();
    read(&format!("crates/{folder}/Cargo.toml")).parse().expect("a manifest is TOML")
}

/// Dependencies of a manifest that do not come from the root manifest.
fn with_own_version(manifest: &Table) -> Vec<String> {
    let per_target = manifest.get("target").and_then(Value::as_table).into_iter().flat_map(Table::values);
    let places = std::iter::once(manifest).chain(per_target.filter_map(Value::as_table));
    let tables = places.flat_map(|place| TABLES.iter().filter_map(|name| place.get(*name)?.as_table()));
    let is_inherited = |entry: &Value| entry.get("workspace").and_then(Value::as_bool) == Some(true);
    tables.flatten().filter(|(_, entry)| !is_inherited(entry)).map(|(name, _)| name.clone()).collect()
}

/// Entries of the root manifest that take default features.
fn with_default_features(entries: &Table) -> Vec<String> {
    let is_plain = |entry: &Value| {
        entry.get("path").is_some() || entry.get("default-features").and_then(Value::as_bool) == Some(false)
    };
    entries.iter().filter(|(_, entry)| !is_plain(entry)).map(|(name, _)| name.clone()).collect()
}

#[test]
fn banned_crates_are_nowhere_in_the_graph() {
    let found: Vec<&str> = METADATA
        .packages
        .iter()
        .map(|package| package.name.as_str())
        .filter(|name| BANNED.contains(name))
        .collect();
    assert!(found.is_empty(), "banned: {found:?}; `cargo tree --invert NAME` shows who asks for it");
}

#[test]
fn nothing_is_asked_for_that_the_language_has() {
    for package in METADATA.workspace_packages() {
        for dependency in &package.dependencies {
            assert!(
                !OUTDATED.contains(&dependency.name.as_str()),
                "{} asks for {}",
                package.name,
                dependency.name
            );
        }
    }
}

#[test]
fn only_the_fake_agent_fails_without_a_type() {
    let is_asked = |package: &Package| {
        package
            .dependencies
            .iter()
            .any(|dependency| dependency.name == "anyhow" && dependency.kind == DependencyKind::Normal)
    };
    let packages = METADATA.workspace_packages();
    let users: Vec<&str> =
        packages.iter().filter(|package| is_asked(package)).map(|package| package.name.as_str()).collect();
    assert!(users.iter().all(|name| *name == "ostler-fake-agent"), "anyhow in {users:?}: errors have types");
}

#[test]
fn every_crate_takes_its_versions_and_lints_from_the_root() {
    for package in METADATA.workspace_packages() {
        let manifest = manifest(package);
        assert_eq!(with_own_version(&manifest), NOTHING, "versions in {}", package.manifest_path);
        let lints = manifest.get("lints").and_then(|lints| lints.get("workspace"));
        assert_eq!(lints, Some(&Value::Boolean(true)), "`lints.workspace` in {}", package.manifest_path);
    }
}

#[test]
fn the_root_takes_no_default_features() {
    let root: Table = read("Cargo.toml").parse().expect("the root manifest is TOML");
    let entries = root["workspace"]["dependencies"].as_table().expect("the root lists dependencies");
    assert_eq!(with_default_features(entries), NOTHING);
}

#[test]
fn no_crate_has_features() {
    for package in METADATA.workspace_packages() {
        let names: Vec<&String> = package.features.keys().collect();
        assert!(names.is_empty(), "{} has features {names:?}: see docs/adr/0005", package.name);
    }
}

#[test]
fn every_test_target_is_one_that_the_script_runs() {
    for package in METADATA.workspace_packages() {
        for target in package.targets.iter().filter(|target| target.is_kind(TargetKind::Test)) {
            let is_run = target.name == "suite" || (*package.name == "ostler" && target.name == "e2e");
            assert!(is_run, "`./test` would leave out `{}` of {}", target.name, package.name);
        }
    }
}

#[test]
fn a_version_or_a_default_feature_out_of_place_is_noticed() {
    let crate_manifest: Table = "
        dependencies.serde.workspace = true
        dependencies.own = '1'
        [target.'cfg(unix)'.dev-dependencies]
        local = { path = '../local' }
    "
    .parse()
    .unwrap();
    assert_eq!(with_own_version(&crate_manifest), ["own", "local"]);
    let root: Table = "
        ours = { path = 'crates/ours' }
        lean = { version = '1', default-features = false }
        fat = '1'
    "
    .parse()
    .unwrap();
    assert_eq!(with_default_features(&root), ["fat"]);
}
