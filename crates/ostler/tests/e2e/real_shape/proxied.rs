//! Behind a proxy, the agent still reaches the bridge: it is on loopback, where no proxy is needed or could help.

use super::{DECLARES, RealShape};
use crate::player::Player;

/// Nobody listens there.
const PROXY: &str = "http://127.0.0.1:9";

fn reaches_the_bridge(player: Player) {
    let Some(shape) = RealShape::of(player) else { return };
    let shape = shape.with_bridge().variable("HTTP_PROXY", PROXY).variable("http_proxy", PROXY);
    let ended = shape.run(&["Declare it."], DECLARES);
    ended.ends("completed", 0);
    shape.is_empty();
}

#[test]
fn claude() {
    reaches_the_bridge(Player::ClaudeStream);
}

#[test]
fn codex() {
    reaches_the_bridge(Player::Codex);
}
