use ostler_agent::canonical::form;
use serde_json::json;

use super::*;

fn head() -> Head {
    Head {
        id: "0a1b".to_owned(),
        model: "claude/opus".to_owned(),
        created: 1_790_000_000,
        tools: ToolNames::default(),
    }
}

/// Two texts, a call, and what it took.
fn answer() -> Vec<Piece> {
    let usage = Usage {
        input_tokens: Some(30),
        output_tokens: Some(5),
        cached_tokens: Some(10),
        cost_usd: Some(0.1),
    };
    vec![
        Piece::Text("I ".to_owned()),
        Piece::Text("look.".to_owned()),
        Piece::TextEnded,
        Piece::Text("One.".to_owned()),
        Piece::TextEnded,
        Piece::Call { id: "c1".to_owned(), tool: "weather".to_owned(), input: json!({"city": "Bern"}) },
        Piece::Ended { stop: Stop::ToolUse, usage },
    ]
}

const FORMATS: [(&str, Format); 3] =
    [("messages", Format::Messages), ("chat", Format::Chat), ("responses", Format::Responses)];

fn streamed(format: Format, pieces: &[Piece]) -> String {
    let mut encoder = format.encoder(head(), Delivery::Streamed { usage: Told::Yes });
    let mut out = encoder.open();
    out.extend(pieces.iter().map(|piece| encoder.piece(piece)));
    out + &encoder.alive()
}

#[test]
fn an_answer_is_written_as_each_api_has_it() {
    for (name, format) in FORMATS {
        insta::assert_snapshot!(format!("{name}_streamed"), streamed(format, &answer()));
        let whole = format.whole(&head(), &answer()).unwrap();
        insta::assert_snapshot!(format!("{name}_whole"), serde_json::to_string_pretty(&whole).unwrap());
    }
}

#[test]
fn a_failure_is_written_as_each_api_has_it() {
    let problem = Problem::new(Kind::TooMany, "too many wait").about("model");
    let pieces = [Piece::Text("I ".to_owned()), Piece::Failed(problem.clone()), Piece::TextEnded];
    for (name, format) in FORMATS {
        let mut shown = streamed(format, &pieces);
        shown += &format!("\n{:#}\n", format.problem(&problem));
        insta::assert_snapshot!(format!("{name}_failed"), shown);
        assert_eq!(format.whole(&head(), &pieces), Err(problem.clone()));
        assert_eq!(format.whole(&head(), &pieces[..1]), Err(Problem::broke_off()));
    }
}

#[test]
fn reasons_to_stop_have_their_words() {
    let words = |stop: Stop| {
        let pieces = [Piece::Ended { stop, usage: Usage::default() }];
        let whole = |format: Format| format.whole(&head(), &pieces).unwrap();
        let (messages, chat) = (whole(Format::Messages), whole(Format::Chat));
        let responses = whole(Format::Responses);
        [&messages["stop_reason"], &chat["choices"][0]["finish_reason"], &responses["status"]]
            .map(|word| word.as_str().unwrap().to_owned())
    };
    let table = [
        (Stop::EndTurn, ["end_turn", "stop", "completed"]),
        (Stop::StopSequence, ["stop_sequence", "stop", "completed"]),
        (Stop::MaxTokens, ["max_tokens", "length", "incomplete"]),
        (Stop::ToolUse, ["tool_use", "tool_calls", "completed"]),
        (Stop::Refusal, ["refusal", "content_filter", "incomplete"]),
    ];
    for (stop, want) in table {
        assert_eq!(words(stop), want, "{stop:?}");
    }
}

#[test]
fn half_an_answer_is_never_told_as_a_whole_one() {
    let usage = Usage { input_tokens: Some(3), ..Usage::default() };
    let pieces = |by| [Piece::Text("half".to_owned()), Piece::TextEnded, Piece::BrokenOff { by, usage }];
    let streamed = |format: Format, pieces: &[Piece]| {
        let mut encoder = format.encoder(head(), Delivery::Streamed { usage: Told::Yes });
        let mut out = encoder.open();
        out.extend(pieces.iter().map(|piece| encoder.piece(piece)));
        out
    };
    // Its status, the type that Anthropic has for it, and the code that OpenAI has.
    let table = [
        (BrokenOff::Closing, 503, "overloaded_error", "closing"),
        (BrokenOff::Asked, 499, "invalid_request_error", "cancelled"),
    ];
    for (by, status, kind, code) in table {
        for format in [Format::Messages, Format::Chat] {
            let problem = format.whole(&head(), &pieces(by)).unwrap_err();
            assert_eq!(problem.kind.status(), status, "{format:?}");
            let told = streamed(format, &pieces(by));
            let last = told.lines().rev().find_map(|line| line.strip_prefix("data: ")).unwrap();
            let last: Value = serde_json::from_str(last).unwrap();
            assert_eq!(last, format.problem(&problem), "{told}");
            let word =
                if format == Format::Messages { &last["error"]["type"] } else { &last["error"]["code"] };
            assert_eq!(word, if format == Format::Messages { kind } else { code });
            for end in
                ["[DONE]", "message_delta", "message_stop", "\"finish_reason\":\"", "\"stop_reason\":\""]
            {
                assert!(!told.contains(end), "{end}: {told}");
            }
        }
    }
    // One API has words of its own for an answer that is not whole.
    let told = Format::Responses.whole(&head(), &pieces(BrokenOff::Asked)).unwrap();
    assert_eq!((&told["status"], &told["usage"]["input_tokens"]), (&json!("cancelled"), &json!(3)));
    assert_eq!(told["output"][0]["content"][0]["text"], json!("half"));
    let closing = Format::Responses.whole(&head(), &pieces(BrokenOff::Closing)).unwrap_err();
    assert_eq!(closing.kind, Kind::Closing);
    for (by, end) in [(BrokenOff::Asked, "incomplete"), (BrokenOff::Closing, "failed")] {
        let told = streamed(Format::Responses, &pieces(by));
        assert!(told.contains(&format!("event: response.{end}")) && !told.contains("response.completed"));
        assert!(told.contains("\"input_tokens\":3"), "what is known is told: {told}");
    }
    let untold = [Piece::BrokenOff { by: BrokenOff::Asked, usage: Usage::default() }];
    let told = Format::Responses.whole(&head(), &untold).unwrap();
    assert_eq!(told["usage"], Value::Null, "what is not known is not zero");
}

/// One conversation with a call, as the three official libraries send it.
fn conversations() -> [(Format, Value); 3] {
    let (city, weather) = (json!({"city": "Bern"}), "sunny");
    [
        (
            Format::Messages,
            json!({"model": "claude", "max_tokens": 9, "system": [{"type": "text", "text": "be short"}],
                "temperature": 0, "stream": true, "metadata": {"user_id": "me"},
                "messages": [
                    {"role": "user", "content": [{"type": "text", "text": "weather?", "cache_control": {"type": "ephemeral"}}]},
                    {"role": "assistant", "content": [{"type": "text", "text": "I look.", "citations": null},
                        {"type": "tool_use", "id": "c1", "name": "weather", "input": city}]},
                    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": weather}]},
                    {"role": "assistant", "content": "Fine."},
                    {"role": "user", "content": "thanks"}]}),
        ),
        (
            Format::Chat,
            json!({"model": "claude", "max_completion_tokens": 9, "temperature": 0.0, "stream": true, "seed": null,
                "stream_options": {"include_usage": true},
                "messages": [
                    {"role": "system", "content": "be short"},
                    {"role": "user", "content": "weather?"},
                    {"role": "assistant", "content": "I look.", "refusal": null, "tool_calls": [{"id": "c1",
                        "type": "function", "function": {"name": "weather", "arguments": city.to_string()}}]},
                    {"role": "tool", "tool_call_id": "c1", "content": weather},
                    {"role": "assistant", "content": "Fine.", "name": "x"},
                    {"role": "user", "content": [{"type": "text", "text": "thanks"}]}]}),
        ),
        (
            Format::Responses,
            json!({"model": "claude", "max_output_tokens": 9, "temperature": 0.0, "stream": true, "store": false,
                "instructions": "be short",
                "input": [
                    {"role": "user", "content": "weather?"},
                    {"type": "reasoning", "id": "r", "summary": []},
                    {"type": "message", "id": "m", "role": "assistant", "status": "completed",
                        "content": [{"type": "output_text", "text": "I look.", "annotations": []}]},
                    {"type": "function_call", "id": "f", "call_id": "c1", "name": "weather", "arguments": city.to_string()},
                    {"type": "function_call_output", "call_id": "c1", "output": weather},
                    {"role": "assistant", "content": [{"type": "output_text", "text": "Fine."}]},
                    {"role": "user", "content": [{"type": "input_text", "text": "thanks"}]}]}),
        ),
    ]
}

#[test]
fn one_conversation_is_the_same_in_every_api() {
    let read = conversations().map(|(format, body)| format.read(&body).unwrap());
    let ignored: Vec<Vec<String>> = read.iter().map(|request| request.ignored.clone()).collect();
    assert_eq!(
        ignored,
        [
            ["max_tokens", "temperature"],
            ["max_completion_tokens", "temperature"],
            ["max_output_tokens", "temperature"]
        ]
    );
    for request in &read {
        assert_eq!(form(request.history.prior()), form(read[0].history.prior()));
        assert_eq!(request.history.prompt(), Ok("thanks".to_owned()));
        assert_eq!(request.system.as_deref(), Some("be short"));
        assert_eq!(request.delivery, Delivery::Streamed { usage: Told::Yes });
        assert_eq!((request.model.as_str(), request.tools.len()), ("claude", 0));
    }
}

#[test]
fn pictures_are_the_same_in_every_api() {
    let data = "data:image/png;base64,iVBO";
    let bodies = [
        (
            Format::Messages,
            json!({"model": "m", "max_tokens": 1, "messages": [{"role": "user", "content": [
                {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBO"}}]}]}),
        ),
        (
            Format::Chat,
            json!({"model": "m", "messages": [{"role": "user", "content": [
                {"type": "image_url", "image_url": {"url": data, "detail": "low"}}]}]}),
        ),
        (
            Format::Responses,
            json!({"model": "m", "input": [{"role": "user", "content": [
                {"type": "input_image", "image_url": data}]}]}),
        ),
    ];
    let asked = bodies.map(|(format, body)| format.read(&body).unwrap().history);
    assert!(asked.iter().all(|history| history == &asked[0]), "{asked:?}");
}

#[test]
fn what_is_wrong_is_told_with_its_field() {
    let user = json!([{"role": "user", "content": "x"}]);
    let messages = |extra: Value| {
        let mut body = json!({"model": "m", "max_tokens": 1, "messages": user});
        body.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        (Format::Messages, body)
    };
    let chat = |extra: Value| {
        let mut body = json!({"model": "m", "messages": user});
        body.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        (Format::Chat, body)
    };
    let responses = |extra: Value| {
        let mut body = json!({"model": "m", "input": "x"});
        body.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        (Format::Responses, body)
    };
    let table = [
        (messages(json!({"max_tokens": null})), "max_tokens"),
        (messages(json!({"max_tokens": "9"})), "max_tokens"),
        (messages(json!({"model": 7})), "model"),
        (messages(json!({"messages": []})), "messages"),
        (messages(json!({"messages": [{"role": "assistant", "content": "x"}]})), "messages"),
        (messages(json!({"messages": [{"role": "system", "content": "x"}]})), "messages"),
        (messages(json!({"messages": [{"role": "user"}]})), "messages[0].content"),
        (messages(json!({"messages": "x"})), "messages"),
        (messages(json!({"stream": "yes"})), "stream"),
        (messages(json!({"system": 7})), "system"),
        (messages(json!({"thread": {"type": "create"}})), "thread"),
        (messages(json!({"compaction": {}})), "compaction"),
        (chat(json!({"functions": []})), "functions"),
        (chat(json!({"function_call": "auto"})), "function_call"),
        (chat(json!({"n": 2})), "n"),
        (chat(json!({"logprobs": true})), "logprobs"),
        (chat(json!({"messages": [{"role": "robot", "content": "x"}]})), "messages[0].role"),
        (
            chat(json!({"messages": [{"role": "user", "content": [{"type": "input_audio"}]}]})),
            "messages[0].content[0].type",
        ),
        (chat(json!({"messages": [{"role": "system", "content": "x"}]})), "messages"),
        (responses(json!({"input": 7})), "input"),
        (responses(json!({"input": [{"type": "item_reference", "id": "x"}]})), "input[0]"),
        (responses(json!({"background": true})), "background"),
        (responses(json!({"prompt": {"id": "p"}})), "prompt"),
        (responses(json!({"instructions": 7})), "instructions"),
        (responses(json!({"conversation": "c"})), "conversation"),
    ];
    for ((format, body), field) in table {
        let problem = format.read(&body).expect_err(&body.to_string());
        assert_eq!((problem.kind, problem.field.as_deref()), (Kind::Invalid, Some(field)), "{body}");
    }
    for (_, format) in FORMATS {
        assert_eq!(format.read(&json!([])).map_err(|problem| problem.kind), Err(Kind::Invalid));
    }
}

#[test]
fn only_a_model_that_is_not_there_is_a_model_not_found() {
    let absent = |field: Option<&str>| {
        let problem = Problem::new(Kind::Absent, "there is none");
        let problem = match field {
            Some(field) => problem.about(field),
            None => problem,
        };
        Format::Chat.problem(&problem)["error"]["code"].as_str().unwrap().to_owned()
    };
    let codes = [Some("model"), Some("id"), Some("x-ostler-conversation"), None].map(absent);
    assert_eq!(codes, ["model_not_found", "not_found", "not_found", "not_found"]);
}

/// By this the official library's runner of tools goes on without one.
#[test]
fn a_thread_is_refused_in_the_words_that_the_library_knows() {
    let body = json!({"model": "claude", "max_tokens": 9, "thread": {"type": "create"},
        "messages": [{"role": "user", "content": "x"}]});
    let problem = Format::Messages.read(&body).unwrap_err();
    let told = Format::Messages.problem(&problem);
    let details = json!({"error_code": "thread_unsupported_request", "unsupported": ["thread"]});
    assert_eq!((problem.kind.status(), &told["error"]["details"]), (400, &details));
    assert!(Format::Messages.problem(&Problem::invalid("x"))["error"]["details"].is_null());
}

#[test]
fn what_other_servers_of_this_api_know_is_no_mistake() {
    let body = json!({"model": "claude", "top_k": 40, "keep_alive": "5m", "messages": [{"role": "user", "content": "x"}]});
    assert_eq!(Format::Chat.read(&body).unwrap().ignored, ["keep_alive", "top_k"]);
}

#[test]
fn a_cache_control_at_the_top_is_no_mistake() {
    let body = json!({"model": "m", "max_tokens": 1, "cache_control": {"type": "ephemeral"},
        "messages": [{"role": "user", "content": "x"}]});
    assert_eq!(Format::Messages.read(&body).unwrap().ignored, ["cache_control", "max_tokens"]);
}

#[test]
fn tools_that_may_not_be_used_are_not_offered() {
    let body = |choice: Value| {
        json!({"model": "m", "tools": [{"type": "function", "function": {"name": "t"}}], "tool_choice": choice,
            "messages": [{"role": "user", "content": "x"}]})
    };
    let offered = |choice: Value| Format::Chat.read(&body(choice)).unwrap().tools.len();
    assert_eq!((offered(json!("auto")), offered(json!("none"))), (1, 0));
}
