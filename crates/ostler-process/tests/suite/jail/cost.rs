//! What a wall costs, printed with `--nocapture`. No figure is expected: machines differ.

use ostler_agent::jail::JailKind;
use serde_json::{Value, json};

use super::scene::{Program, Scene, User, landlock_abi};

#[test]
fn the_cost_of_a_wall_is_printed() {
    if landlock_abi().is_none() {
        return;
    }
    let program = Program::new();
    let scene = Scene::new(User::Same);
    let entries = std::fs::read_dir("/usr/lib").unwrap().chain(std::fs::read_dir("/usr/share").unwrap());
    let own = scene.rules().into_iter().filter(|rule| rule[1] != "hidden");
    let more = entries.map(|entry| json!([entry.unwrap().path(), "read", null]));
    let rules: Vec<Value> = own.chain(more).take(60).collect();
    let opens: [&[&str]; 1] = [&["time-opens", "TOP/ro/file", "2000"]];
    let free = scene.try_all(&program, None, &rules, &opens);
    let walled = scene.try_all(&program, Some(JailKind::Landlock), &rules, &opens);
    let (free_nanos, walled_nanos) = (&free["results"][0], &walled["results"][0]);
    eprintln!("{} rules: {} µs to restrict", rules.len(), walled["micros"]);
    eprintln!("open and close: {free_nanos} ns without, {walled_nanos} ns with the wall");
    assert!(free_nanos.is_number() && walled_nanos.is_number(), "{free} {walled}");
}
