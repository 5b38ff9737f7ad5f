use ostler_agent::event::FailureClass;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::wire::{Delivery, Format, Head, Told as Usages, ToolNames};

fn said(text: &str, part: Part) -> AgentEvent {
    AgentEvent::Said { text: text.to_owned(), part, within: None }
}

fn done(text: &str) -> AgentEvent {
    AgentEvent::TurnEnded(TurnOutcome::Done { text: text.to_owned() })
}

fn told(events: &[AgentEvent]) -> Vec<Piece> {
    let mut narration = Narration::default();
    events.iter().flat_map(|event| narration.hear(event)).collect()
}

fn text(text: &str) -> Piece {
    Piece::Text(text.to_owned())
}

fn ended(stop: Stop) -> Piece {
    Piece::Ended { stop, usage: Usage::default() }
}

#[test]
fn each_word_comes_once() {
    use Part::{Delta, Whole};
    let another =
        AgentEvent::Said { text: "not this".to_owned(), part: Whole, within: Some("sub".to_owned()) };
    let table: Vec<(Vec<AgentEvent>, Vec<Piece>)> = vec![
        (
            vec![said("a", Delta), said("b", Delta), said("ab", Whole), done("ab")],
            vec![text("a"), text("b"), Piece::TextEnded, ended(Stop::EndTurn)],
        ),
        (vec![said("ab", Whole), done("ab")], vec![text("ab"), Piece::TextEnded, ended(Stop::EndTurn)]),
        (
            vec![said("a", Delta), said("abc", Whole), done("abc")],
            vec![text("a"), text("bc"), Piece::TextEnded, ended(Stop::EndTurn)],
        ),
        (vec![another, done("x")], vec![text("x"), Piece::TextEnded, ended(Stop::EndTurn)]),
        (vec![said("", Whole), done("")], vec![ended(Stop::EndTurn)]),
        // It began anew.
        (
            vec![said("a", Delta), said("xy", Whole), done("xy")],
            vec![text("a"), Piece::Failed(Problem::broke_off())],
        ),
        (
            vec![said("a", Delta), AgentEvent::TurnEnded(TurnOutcome::Interrupted), done("later")],
            vec![
                text("a"),
                Piece::TextEnded,
                Piece::BrokenOff { by: BrokenOff::Asked, usage: Usage::default() },
            ],
        ),
    ];
    for (events, want) in table {
        assert_eq!(told(&events), want, "{events:?}");
    }
}

#[test]
fn what_was_used_is_summed_and_never_made_up() {
    let spent =
        |input, cost| AgentEvent::Spent(Usage { input_tokens: input, cost_usd: cost, ..Usage::default() });
    let pieces = told(&[spent(Some(3), None), spent(Some(4), Some(0.5)), done("")]);
    let usage = Usage { input_tokens: Some(7), cost_usd: Some(0.5), ..Usage::default() };
    assert_eq!(pieces, [Piece::Ended { stop: Stop::EndTurn, usage }]);
}

#[test]
fn a_failure_is_told_as_what_it_is() {
    let failed = |class, detail: &str| {
        let failure = Failure { class, detail: detail.to_owned(), resets_at: Some(7), cut_short: None };
        match told(&[AgentEvent::TurnEnded(TurnOutcome::Failed(failure))]).as_slice() {
            [Piece::Failed(problem)] => (problem.kind.status(), problem.message.clone(), problem.again_at),
            pieces => panic!("{pieces:?}"),
        }
    };
    let quota = "the agent failed: its quota is used up: weekly limit".to_owned();
    assert_eq!(failed(FailureClass::Quota, "weekly limit"), (429, quota, Some(7)));
    let auth = "the agent failed: it is not logged in".to_owned();
    assert_eq!(failed(FailureClass::Auth, ""), (502, auth, Some(7)));
    assert_eq!(failed(FailureClass::Overloaded, "").0, 503);
}

/// An error would be tried again by every library, and refused again.
#[test]
fn a_refusal_of_the_model_is_an_answer() {
    let ended = |how| {
        let failure = Failure {
            class: FailureClass::Model,
            detail: "API Error".to_owned(),
            resets_at: None,
            cut_short: Some(how),
        };
        AgentEvent::TurnEnded(TurnOutcome::Failed(failure))
    };
    let usage = Usage { output_tokens: Some(2), ..Usage::default() };
    for (how, stop) in [(CutShort::Refusal, Stop::Refusal), (CutShort::MaxTokens, Stop::MaxTokens)] {
        let pieces = told(&[said("no", Part::Whole), AgentEvent::Spent(usage), ended(how)]);
        assert_eq!(pieces, [text("no"), Piece::TextEnded, Piece::Ended { stop, usage }]);
    }
}

/// The words of a streamed answer, as a program puts them together.
fn words(format: Format, stream: &str) -> String {
    let lines =
        stream.lines().filter_map(|line| line.strip_prefix("data: ")).filter(|data| *data != "[DONE]");
    let events = lines.map(|data| serde_json::from_str::<Value>(data).unwrap());
    let texts = events.filter_map(|event| {
        let delta = match format {
            Format::Messages => &event["delta"]["text"],
            Format::Chat => &event["choices"][0]["delta"]["content"],
            Format::Responses if event["type"] == "response.output_text.delta" => &event["delta"],
            Format::Responses => &Value::Null,
        };
        delta.as_str().map(str::to_owned)
    });
    texts.collect()
}

fn streamed(format: Format, pieces: &[Piece]) -> String {
    let head =
        Head { id: "1".to_owned(), model: "claude".to_owned(), created: 0, tools: ToolNames::default() };
    let mut encoder = format.encoder(head, Delivery::Streamed { usage: Usages::Yes });
    let mut out = encoder.open();
    out.extend(pieces.iter().map(|piece| encoder.piece(piece)));
    out
}

/// The text cut into pieces that end at these places.
fn cut(text: &str, places: &[usize]) -> Vec<AgentEvent> {
    let mut events = Vec::new();
    let mut rest = text;
    for place in places {
        let at = rest.char_indices().nth(*place).map_or(rest.len(), |(at, _)| at);
        events.push(said(&rest[..at], Part::Delta));
        rest = &rest[at..];
    }
    events.push(said(text, Part::Whole));
    events
}

proptest! {
    /// However an agent cuts its texts into pieces, the answer is the same, streamed and whole, in every API.
    #[test]
    fn any_cut_gives_the_same_answer(
        texts in proptest::collection::vec("[a-zé\u{1F600} \n\"\\\\]{1,12}", 1..4),
        places in proptest::collection::vec(0_usize..5, 0..6),
    ) {
        let end = done(texts.last().map_or("", String::as_str));
        let uncut: Vec<AgentEvent> = texts.iter().map(|text| said(text, Part::Whole)).chain([end.clone()]).collect();
        let pieces: Vec<AgentEvent> = texts.iter().flat_map(|text| cut(text, &places)).chain([end]).collect();
        let head = Head { id: "1".to_owned(), model: "claude".to_owned(), created: 0, tools: ToolNames::default() };
        for format in [Format::Messages, Format::Chat, Format::Responses] {
            let (uncut, cut) = (told(&uncut), told(&pieces));
            prop_assert_eq!(words(format, &streamed(format, &cut)), words(format, &streamed(format, &uncut)));
            prop_assert_eq!(format.whole(&head, &cut), format.whole(&head, &uncut));
        }
        let whole = Format::Chat.whole(&head, &told(&pieces)).unwrap();
        let streamed = words(Format::Chat, &streamed(Format::Chat, &told(&pieces)));
        prop_assert_eq!(&whole["choices"][0]["message"]["content"], &json!(streamed));
    }
}
