//! Tools that a program offers and runs itself: the agent calls them, and goes on with what came of it.

use serde_json::json;

use super::for_every_library;
use super::ground::Ground;
use super::program::{Api, Language, Library, Program};

for_every_library! {
    /// Two rounds of calls, two calls in the first: all in one process, and the library's own objects go back.
    async fn a_programs_own_tools_are_called(library: Library) {
        let Some(ground) = Ground::tapped().await else { return };
        let Some(mut program) = Program::start(library, &ground, &ground.key) else { return };
        for how in ["whole", "helper"] {
            let order = json!({"do": "use", "talk": how, "text": "add them up", "how": how});
            let used = program.done(order).await;
            let calling = library.api.calling();
            let calls = json!([[calling, [{"a": 1, "b": 2}, {"a": 3, "b": 4}]], [calling, [{"a": 3, "b": 7}]]]);
            assert_eq!(used["calls"], calls, "{used}");
            assert_eq!((&used["said"], &used["stop"]), (&json!("It is 10."), &json!(library.api.done())));
        }
        let agents = ground.agents();
        assert_eq!(agents.len(), 2, "one for each conversation, not for each answer");
        // The whole cycle is sent back, and found.
        for how in ["whole", "helper"] {
            let order = json!({"do": "use", "talk": how, "text": "thank you", "how": how});
            assert_eq!(program.done(order).await["said"], "thank you!");
        }
        assert_eq!(ground.agents(), agents);
        program.end().await;
        ground.strike().await;
    }
}
