use tokio::sync::mpsc;

use super::super::tests::Place;
use super::super::{CallError, Op, attach, call};
use super::*;
use crate::run::{NoTerminal, Request};
use crate::terminal::painter::Manner;
use crate::terminal::screen::Screen;
use crate::terminal::seat::{Seat, Wish};

const SIZE: Size = Size { columns: 20, rows: 4 };
const WINDOW: Size = Size { columns: 33, rows: 7 };

/// Answers for a run that has this terminal.
async fn answer(asked: &mut mpsc::Receiver<Request>, seat: Option<&Seat>) {
    while let Some(request) = asked.recv().await {
        if let Request::Terminal { told } = request {
            let _ = told.send(seat.cloned().ok_or(NoTerminal::Pipes));
        }
    }
}

/// What is shown in the end.
async fn until(eyes: &mut Eyes, text: &str) -> Screen {
    let mut screen = Screen::new(SIZE);
    while !screen.look().dump().contains(text) {
        match eyes.next().await.unwrap() {
            Shown::Anew { size, bytes } => {
                screen = Screen::new(size);
                screen.feed(&bytes);
            }
            Shown::Bytes(bytes) => screen.feed(&bytes),
        }
    }
    screen
}

#[tokio::test]
async fn a_terminal_is_watched_and_taken_over_through_the_socket() {
    let place = Place::new("s");
    let (door, kept) = (place.door(), place.kept());
    let (ask, mut asked) = mpsc::channel(1);
    let (seat, mut wishes) = Seat::new(SIZE);
    seat.draw("before é\x1b]0;a title\x07".as_bytes());
    let talk = async {
        let mut viewer = attach(&kept, Manner::View, WINDOW).await.unwrap();
        until(&mut viewer.eyes, "before é").await;
        viewer.fingers.type_in(b"not heard");
        viewer.fingers.finish().await.unwrap();
        assert!(!seat.is_held());

        let mut person = attach(&kept, Manner::Hold, WINDOW).await.unwrap();
        assert_eq!(wishes.next().await, Wish::Taken);
        assert_eq!(wishes.next().await, Wish::Resize(WINDOW));
        seat.resized(WINDOW);
        assert!(seat.keys().is_none(), "Ostler does not type now");
        let other = attach(&kept, Manner::Hold, WINDOW).await.unwrap_err();
        assert!(other.to_string().contains("somebody else holds"), "{other}");
        person.fingers.type_in(b"hello\x1a");
        person.fingers.finish().await.unwrap();
        assert_eq!(wishes.next().await, Wish::Type(b"hello".to_vec()), "without the key that would stop it");
        seat.draw(b"\r\nafter");
        for eyes in [&mut viewer.eyes, &mut person.eyes] {
            let screen = until(eyes, "after").await;
            assert_eq!((screen.size(), screen.title()), (WINDOW, "a title"));
        }
        let about = call(&kept, Op::Status).await.unwrap().run.unwrap().terminal.unwrap();
        assert_eq!((about.viewers, about.held, about.title.as_str()), (2, true, "a title"));

        drop(person);
        assert_eq!(wishes.next().await, Wish::Resize(SIZE), "it is as it was");
        assert_eq!(wishes.next().await, Wish::Left);
        drop(seat.next_keys().await);
        drop(wishes);
        while viewer.eyes.next().await.is_some() {}
        let late = attach(&kept, Manner::View, WINDOW).await.unwrap_err();
        assert!(late.to_string().contains("the terminal is closed"), "{late}");
    };
    tokio::select! {
        never = door.serve(ask) => match never {},
        () = answer(&mut asked, Some(&seat)) => panic!("the door is gone"),
        () = talk => {}
    }
}

#[tokio::test]
async fn a_run_over_pipes_has_no_terminal() {
    let place = Place::new("s");
    let (door, kept) = (place.door(), place.kept());
    let (ask, mut asked) = mpsc::channel(1);
    let refused = tokio::select! {
        never = door.serve(ask) => match never {},
        () = answer(&mut asked, None) => panic!("the door is gone"),
        refused = attach(&kept, Manner::View, WINDOW) => refused.unwrap_err(),
    };
    assert!(
        matches!(&refused, CallError::Refused { reason, .. } if reason.contains("over pipes")),
        "{refused}"
    );
}

#[tokio::test]
async fn those_who_watch_do_not_keep_others_from_asking() {
    let place = Place::new("s");
    let (door, kept) = (place.door(), place.kept());
    let (ask, mut asked) = mpsc::channel(1);
    let (seat, _wishes) = Seat::new(SIZE);
    let talk = async {
        let mut viewers = Vec::new();
        let refused = loop {
            match attach(&kept, Manner::View, WINDOW).await {
                Ok(viewer) => viewers.push(viewer),
                Err(refused) => break refused,
            }
        };
        assert!(refused.to_string().contains("as many as can"), "{refused}");
        assert_eq!(viewers.len(), 16);
        let about = call(&kept, Op::Status).await.unwrap().run.unwrap().terminal.unwrap();
        assert_eq!(about.viewers, viewers.len());
    };
    tokio::select! {
        never = door.serve(ask) => match never {},
        () = answer(&mut asked, Some(&seat)) => panic!("the door is gone"),
        () = talk => {}
    }
}
