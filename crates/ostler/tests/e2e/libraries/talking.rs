//! Conversations, and the sessions that they are found in.

use ostler_gateway::wire::Format;
use serde_json::{Value, json};

use super::for_every_library;
use super::ground::Ground;
use super::program::{Api, Language, Library, Program};

fn pairs(told: &[(&str, &str)]) -> Vec<(String, String)> {
    told.iter().map(|(role, text)| ((*role).to_owned(), (*text).to_owned())).collect()
}

for_every_library! {
    /// Whole, streamed, and by the library's own helper for streams: one conversation in one process.
    async fn a_conversation_is_had_in_every_way(library: Library) {
        let Some(ground) = Ground::rehearsed().await else { return };
        let Some(mut program) = Program::start(library, &ground, &ground.key) else { return };
        let models = program.done(json!({"do": "models"})).await;
        assert_eq!((&models["models"][0], &models["one"]), (&json!("claude"), &json!("claude/opus")));
        let first = program.say("a", "one two three", "whole").await;
        assert_eq!((&first["said"], &first["stop"]), (&json!("one two three!"), &json!(library.api.done())));
        assert!(first["tokens"].as_u64().unwrap() > 0, "{first}");
        let agents = ground.agents();
        assert_eq!(agents.len(), 1);
        let second = program.say("a", "four five six", "helper").await;
        assert_eq!((&second["said"], &second["stop"]), (&json!("four five six!"), &json!(library.api.done())));
        assert!(second["pieces"].as_u64().unwrap() > 1, "it comes in pieces: {second}");
        assert!(second["tokens"].as_u64().unwrap() > 0, "{second}");
        assert_ne!(first["id"], second["id"]);
        let third = program.say("a", "seven eight nine", "stream").await;
        assert_eq!(third["said"], "seven eight nine!");
        assert!(third["pieces"].as_u64().unwrap() > 1, "{third}");
        assert_eq!(program.say("a", "ten", "whole").await["said"], "ten!");
        assert_eq!(ground.agents(), agents, "all in one process");
        program.end().await;
        ground.strike().await;
    }

    /// The model is held in the middle of its answer, and the beginning is there; so no one waits for the whole.
    async fn the_first_word_comes_before_the_model_has_said_its_last(library: Library) {
        let Some(ground) = Ground::tapped().await else { return };
        let Some(mut program) = Program::start(library, &ground, &ground.key) else { return };
        for how in ["helper", "stream"] {
            program.order(json!({"do": "say", "talk": how, "text": "hold on", "how": how})).await;
            assert_eq!(program.next().await, json!({"began": "before "}));
            ground.go_on(1);
            assert_eq!(program.next().await["said"], "before [hold] after");
        }
        program.end().await;
        ground.strike().await;
    }

    /// What goes on is sent alone to the session that knows the rest; what was edited is told to a new one.
    async fn sessions_are_found_by_what_the_library_sends_back(library: Library) {
        let Some(ground) = Ground::tapped().await else { return };
        let Some(mut program) = Program::start(library, &ground, &ground.key) else { return };
        // A cycle with a tool of the agent's own, of which the program is told the words.
        let looked = program.say("a", "look around", "helper").await;
        assert!(looked["said"].as_str().unwrap().contains("Seen."), "{looked}");
        let first = ground.agents();
        assert_eq!(first.len(), 1);
        assert_eq!(program.say("a", "thanks", "whole").await["said"], "thanks!");
        assert_eq!(ground.agents(), first, "the library's own objects find it");
        assert_eq!(ground.told().first(), Some(&("user".to_owned(), "look around".to_owned())));
        // The words alone, as a page keeps them.
        program.done(json!({"do": "words", "talk": "a", "as": "words"})).await;
        assert_eq!(program.say("words", "and now", "stream").await["said"], "and now!");
        assert_eq!(ground.agents(), first, "the words alone find it");
        // Another beginning is another conversation, and the old one is left as it is.
        program.done(json!({"do": "edit", "talk": "words", "as": "edited", "text": "look elsewhere"})).await;
        assert_eq!(program.say("edited", "what now", "helper").await["said"], "what now!");
        assert_eq!(ground.agents().len(), 2, "a new process for it");
        let told = ground.told();
        let ends = pairs(&[("user", "thanks"), ("assistant", "thanks!"), ("user", "and now"),
            ("assistant", "and now!"), ("user", "what now")]);
        assert_eq!(told.first(), Some(&("user".to_owned(), "look elsewhere".to_owned())));
        assert!(told.ends_with(&ends), "{told:?}");
        assert_eq!(program.say("words", "still there", "whole").await["said"], "still there!");
        assert_eq!(ground.agents().len(), 2, "the old one is still found");
        assert_eq!(ground.told().first(), Some(&("user".to_owned(), "look around".to_owned())));
        program.end().await;
        ground.strike().await;
    }

    async fn another_key_never_finds_it(library: Library) {
        let Some(ground) = Ground::tapped().await else { return };
        let Some(mut program) = Program::start(library, &ground, &ground.key) else { return };
        let key = ground.another_key().await;
        let Some(mut stranger) = Program::start(library, &ground, &key) else { return };
        for program in [&mut program, &mut stranger] {
            assert_eq!(program.say("a", "hello", "whole").await["said"], "hello!");
        }
        // The stranger's own session goes on, so that only the other one knows what he sends next.
        stranger.done(json!({"do": "words", "talk": "a", "as": "again"})).await;
        assert_eq!(stranger.say("a", "and on", "whole").await["said"], "and on!");
        assert_eq!(ground.agents().len(), 2);
        assert_eq!(stranger.say("again", "I am a stranger", "whole").await["said"], "I am a stranger!");
        let all = ground.agents();
        assert_eq!(all.len(), 3, "a process of his own");
        assert_eq!(program.say("a", "I am not", "whole").await["said"], "I am not!");
        assert_eq!(ground.agents(), all, "and the other one was left as it was");
        let told = ground.told();
        assert!(!told.iter().any(|(_, text)| text.contains("stranger")), "{told:?}");
        stranger.end().await;
        program.end().await;
        ground.strike().await;
    }

    /// An error would be tried again by the library, and refused again.
    async fn what_the_model_would_not_say_is_an_answer(library: Library) {
        let Some(ground) = Ground::rehearsed().await else { return };
        let Some(mut program) = Program::start(library, &ground, &ground.key) else { return };
        let refused = match library.api {
            Api::Messages => "refusal",
            Api::Chat => "content_filter",
            Api::Responses => "incomplete",
        };
        let told = program.say("a", "would you", "whole").await;
        assert_eq!((&told["said"], &told["stop"]), (&json!("I would not."), &json!(refused)), "{told}");
        assert!(told["tokens"].as_u64().unwrap() > 0, "{told}");
        assert_eq!(program.say("b", "still there", "whole").await["said"], "still there!");
        program.end().await;
        ground.strike().await;
    }

    /// The library's own classes for what goes wrong, with a status and an id.
    async fn what_goes_wrong_is_an_error_of_the_librarys_own(library: Library) {
        let Some(ground) = Ground::rehearsed().await else { return };
        let Some(mut program) = Program::start(library, &ground, &ground.key) else { return };
        let table = [
            ("key", "AuthenticationError", 401),
            ("model", "NotFoundError", 404),
            ("empty", "BadRequestError", 400),
            ("streamed", "NotFoundError", 404),
        ];
        for (what, class, status) in table {
            let told = program.done(json!({"do": "wrong", "what": what})).await;
            assert_eq!(told, json!({"error": class, "status": status, "request": true}), "{what}");
        }
        if library.api == Api::Messages {
            let told = program.done(json!({"do": "wrong", "what": "counted"})).await;
            assert_eq!(told["status"], 501, "{told}");
        }
        // Half an answer is no answer. What is told after the first word has no status any more.
        let told = program.done(json!({"do": "wrong", "what": "faulty", "text": "break off"})).await;
        assert_ne!(told["error"], Value::Null, "{told}");
        assert_eq!(program.say("a", "still there", "whole").await["said"], "still there!");
        program.end().await;
        ground.strike().await;
    }
}

/// A parameter that a library knows and the gateway does not would be refused as a mistake of the program.
#[tokio::test]
async fn every_parameter_of_the_libraries_is_known() {
    let Some(ground) = Ground::rehearsed().await else { return };
    let apis =
        [(Api::Messages, Format::Messages), (Api::Chat, Format::Chat), (Api::Responses, Format::Responses)];
    for (api, format) in apis {
        let library = Library { language: Language::Python, api };
        let Some(mut program) = Program::start(library, &ground, &ground.key) else { return };
        let told = program.done(json!({"do": "parameters"})).await;
        let names: Vec<&str> =
            told["parameters"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
        assert!(names.len() > 15, "{names:?}");
        let (heard, ignored) = format.fields();
        let unknown: Vec<&&str> =
            names.iter().filter(|name| !heard.contains(name) && !ignored.contains(name)).collect();
        assert!(unknown.is_empty(), "{format:?} has new parameters: {unknown:?}");
        program.end().await;
    }
    ground.strike().await;
}

/// Two programs with the same conversation, each in its own session; neither hears of the other.
#[tokio::test]
async fn two_programs_with_equal_conversations_do_not_meet() {
    let Some(ground) = Ground::tapped().await else { return };
    let python = Library { language: Language::Python, api: Api::Messages };
    let javascript = Library { language: Language::JavaScript, api: Api::Messages };
    let Some(mut one) = Program::start(python, &ground, &ground.key) else { return };
    let Some(mut two) = Program::start(javascript, &ground, &ground.key) else { return };
    for program in [&mut one, &mut two] {
        program.order(json!({"do": "say", "talk": "a", "text": "hold on", "how": "helper"})).await;
        assert_eq!(program.next().await, json!({"began": "before "}));
    }
    let both = ground.agents();
    assert_eq!(both.len(), 2, "two at once are two processes");
    ground.go_on(2);
    for program in [&mut one, &mut two] {
        assert_eq!(program.next().await["said"], "before [hold] after");
    }
    for (program, name) in [(&mut one, "one"), (&mut two, "two")] {
        let said = program.say("a", &format!("I am {name}"), "whole").await;
        assert_eq!(said["said"], format!("I am {name}!"));
    }
    for (program, name, other) in [(&mut two, "two", "one"), (&mut one, "one", "two")] {
        assert_eq!(program.say("a", "who am I", "helper").await["said"], "who am I!");
        let told = ground.told();
        assert!(told.iter().any(|(_, text)| *text == format!("I am {name}")), "{told:?}");
        assert!(!told.iter().any(|(_, text)| text.contains(&format!("I am {other}"))), "{told:?}");
    }
    assert_eq!(ground.agents(), both, "and each went on in its own");
    one.end().await;
    two.end().await;
    ground.strike().await;
}
