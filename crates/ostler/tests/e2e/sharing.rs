//! A session on a terminal and others who have a hand in it: a person at its keyboard, and whoever kills it.

use ostler_agent::agent::Permissions;
use ostler_agent::event::{AgentEvent, FailureClass, TurnOutcome};
use ostler_process::contain::{Exit, Survivors};
use ostler_process::terminal::pty::Size;
use ostler_process::terminal::seat::{Hold, Seat};
use ostler_process::terminal::session::{Happening, Session, SessionError};
use rustix::process::{Pid, Signal, kill_process};

use crate::conversing::{DEADLINE, NOTED, Talk, done, finished};
use crate::for_every_version;
use crate::player::Player;

const TWO: &str = r#"
[[conversation]]
[[conversation.step]]
expect = { contains = "Mine first." }
reply = [{ text = "Yours was first." }]

[[conversation]]
[[conversation.step]]
reply = [{ text = "Noted." }]
"#;

const NEVER_ENDS: &str = r#"
[[conversation]]
[[conversation.step]]
reply = [{ text = "I was about to say" }, { stall = "mid_text" }]
"#;

/// Stands on the screen while it works.
const AT_WORK: &str = "esc to interrupt";

/// Waits until the terminal shows what is wished.
async fn until(seat: &Seat, holds: impl Fn(&str) -> bool) {
    let mut changes = seat.changes();
    let shown = async {
        while !holds(&seat.look().dump()) {
            changes.changed().await.unwrap();
        }
    };
    let shown = tokio::time::timeout(DEADLINE, shown).await;
    assert!(shown.is_ok(), "it shows:\n{}", seat.look().dump());
}

/// A person types this, sees it, and sends it.
async fn send(seat: &Seat, person: &Hold, text: &str) {
    person.type_in(text.as_bytes()).await.unwrap();
    until(seat, |shown| shown.contains(text)).await;
    person.type_in(b"\r").await.unwrap();
}

/// What somebody asks at the keyboard is their turn. A prompt that waits meanwhile gets its own, and one that nobody
/// waits for any more is never typed.
async fn each_has_a_turn_of_their_own(player: Player) {
    let Some(mut talk) = Talk::begin(player, TWO, Size::USUAL).await else { return };
    let seat = talk.session.seat().clone();
    let person = seat.hold(Size::USUAL).await.unwrap();
    until(&seat, |shown| shown.contains('❯')).await;
    // Nothing is typed while they have it, and whoever gives up has asked nothing.
    tokio::select! {
        biased;
        asked = talk.session.ask("Never mind.") => panic!("{asked:?}"),
        () = send(&seat, &person, "Mine first.") => {}
    }
    let theirs = async {
        until(&seat, |shown| shown.contains("Yours was first.") && !shown.contains(AT_WORK)).await;
        drop(person);
    };
    let (asked, ()) = tokio::join!(talk.session.ask("And mine."), theirs);
    let mut turn = asked.unwrap();
    let mut happened = Vec::new();
    while let Some(happening) = tokio::time::timeout(DEADLINE, turn.next()).await.unwrap() {
        happened.push(happening);
    }
    let own = Happening::Event(AgentEvent::Asked { text: "And mine.".to_owned() });
    let end = Happening::Event(AgentEvent::TurnEnded(done("Noted.")));
    assert_eq!((happened.first(), happened.last()), (Some(&own), Some(&end)), "{happened:#?}");
    let ends = happened.iter().filter(|one| matches!(one, Happening::Event(AgentEvent::TurnEnded(_))));
    assert_eq!(ends.count(), 1, "{happened:#?}");
    assert_eq!((talk.last_prompt().as_str(), talk.tap.conversation().len()), ("And mine.", 2));
    assert_eq!(talk.turn("And another.").await.1, done("Noted."));
    talk.end().await;
}

/// A person who clears the conversation begins another session in another file, which is followed.
async fn a_session_that_moves_is_followed(player: Player) {
    let Some(mut talk) = Talk::begin(player, NOTED, Size::USUAL).await else { return };
    assert_eq!(talk.turn("In the first.").await.1, done("Noted."));
    let before = talk.session.about().session.unwrap();
    let seat = talk.session.seat().clone();
    let person = seat.hold(Size::USUAL).await.unwrap();
    send(&seat, &person, "/clear").await;
    let moved = async {
        while talk.session.about().session.as_ref() == Some(&before) {
            talk.session.changed().await.unwrap();
        }
    };
    tokio::time::timeout(DEADLINE, moved).await.unwrap();
    // It is drawn anew, with a new box: what is typed into the old one is lost.
    let is_empty_box = |row: &str| row.trim() == "❯";
    until(&seat, |shown| !shown.contains("In the first.") && shown.lines().any(is_empty_box)).await;
    drop(person);
    let (said, ended) = talk.turn("In the second.").await;
    assert_eq!((said, ended), (vec!["Noted.".to_owned()], done("Noted.")));
    // The command itself is told before it.
    assert!(talk.last_prompt().ends_with("\n---\nIn the second."), "{}", talk.last_prompt());
    let asked = talk.tap.conversation();
    assert!(!asked.last().unwrap()["messages"].to_string().contains("In the first."), "it was cleared");
    talk.end().await;
}

/// What nobody may answer is told to whoever asks, until a person has answered it. What was refused is not asked then.
async fn a_dialog_is_left_to_a_person(player: Player) {
    let flag = ["--dangerously-skip-permissions".to_owned()];
    let begun = Talk::begin_with(player, NOTED, Size::USUAL, (Permissions::Deny, &flag));
    let Some(mut talk) = begun.await else { return };
    for prompt in ["Never mind.", "Nor this."] {
        match talk.ask(prompt).await {
            Err(SessionError::Blocked { screen, .. }) => {
                assert!(screen.contains("Yes, I accept"), "{screen}");
            }
            other => panic!("{other:?}"),
        }
    }
    let seat = talk.session.seat().clone();
    let person = seat.hold(Size::USUAL).await.unwrap();
    person.type_in(b"\x1b[B").await.unwrap();
    let is_chosen = |row: &str| row.contains('❯') && row.contains("Yes, I accept");
    until(&seat, |shown| shown.lines().any(is_chosen)).await;
    person.type_in(b"\r").await.unwrap();
    until(&seat, |shown| !shown.contains("Yes, I accept") && shown.contains('❯')).await;
    drop(person);
    assert_eq!(talk.turn("Now.").await.1, done("Noted."));
    assert_eq!((talk.last_prompt().as_str(), talk.tap.conversation().len()), ("Now.", 1));
    talk.end().await;
}

/// A turn whose program is killed ends with that, and the session with nothing left.
async fn a_program_that_is_killed_is_told(player: Player) {
    let Some(mut talk) = Talk::begin(player, NEVER_ENDS, Size::USUAL).await else { return };
    let mut turn = talk.ask("Say something.").await.unwrap();
    until(talk.session.seat(), |shown| shown.contains(AT_WORK)).await;
    assert!(talk.session.is_alive());
    assert!(matches!(talk.ask("Something else.").await, Err(SessionError::Busy)), "one turn at a time");
    let pid = Pid::from_raw(i32::try_from(talk.session.pid()).unwrap()).unwrap();
    kill_process(pid, Signal::KILL).unwrap();
    let TurnOutcome::Failed(failure) = finished(&mut turn).await.1 else { panic!("it failed") };
    assert_eq!(failure.class, FailureClass::Crashed, "{failure:?}");
    assert!(failure.detail.contains("signal 9"), "{failure:?}");
    assert!(turn.next().await.is_none(), "that was the last");
    let says_why =
        |error: &SessionError| matches!(error, SessionError::Ended { reason } if reason.contains("signal 9"));
    assert!(talk.session.interrupt().await.is_err_and(|error| says_why(&error)));
    assert!(talk.ask("Are you there?").await.is_err_and(|error| says_why(&error)));
    let Talk { mut session, .. } = talk;
    let closed = tokio::time::timeout(DEADLINE, Session::ended(&mut session)).await.unwrap().unwrap();
    assert_eq!((closed.exit, closed.survivors), (Exit::Signal(9), Survivors(0)));
    assert!(!session.is_alive());
}

for_every_version!(
    async:
    each_has_a_turn_of_their_own,
    a_session_that_moves_is_followed,
    a_dialog_is_left_to_a_person,
    a_program_that_is_killed_is_told,
);
