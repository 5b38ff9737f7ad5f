//! The published JSON Schema is the one that the code has.

use ostler_rehearsal::script;

#[test]
fn the_published_schema_is_current() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/schema/rehearsal-script.schema.json");
    let published = std::fs::read_to_string(path).unwrap_or_default();
    let current = format!("{}\n", serde_json::to_string_pretty(&script::schema()).unwrap());
    if std::env::var_os("UPDATE_SCHEMA").is_some() {
        std::fs::write(path, &current).unwrap();
        return;
    }
    assert_eq!(
        published, current,
        "write it anew: UPDATE_SCHEMA=1 cargo test -p ostler-rehearsal --test suite"
    );
}
