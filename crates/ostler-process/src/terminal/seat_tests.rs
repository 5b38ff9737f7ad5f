use super::*;

const SIZE: Size = Size { columns: 20, rows: 4 };
const LARGER: Size = Size { columns: 30, rows: 6 };

/// What a viewer would see that was shown this.
#[derive(Default)]
struct Eyes(Option<Screen>);

impl Eyes {
    fn see(&mut self, shown: Shown) -> Vec<String> {
        match shown {
            Shown::Anew { size, bytes } => {
                let mut screen = Screen::new(size);
                screen.feed(&bytes);
                self.0 = Some(screen);
            }
            Shown::Bytes(bytes) => self.0.as_mut().unwrap().feed(&bytes),
        }
        self.0.as_ref().unwrap().look().rows
    }
}

#[tokio::test]
async fn whoever_comes_late_sees_the_same() {
    let (seat, _wishes) = Seat::new(SIZE);
    seat.draw(b"one\r\n\x1b[1mtwo\x1b]0;title\x07");
    let mut viewer = seat.watch().unwrap();
    let mut eyes = Eyes::default();
    eyes.see(viewer.next().await.unwrap());
    assert_eq!(eyes.0.as_ref().unwrap().look(), seat.look());
    seat.draw(b"\r\nthree");
    seat.draw(b" four");
    assert_eq!(viewer.next().await.unwrap(), Shown::Bytes(b"\r\nthree four".to_vec()));
}

#[tokio::test]
async fn a_slow_viewer_is_drawn_anew_and_holds_up_nobody() {
    let (seat, _wishes) = Seat::new(SIZE);
    let (mut slow, mut quick) = (seat.watch().unwrap(), seat.watch().unwrap());
    let (mut slow_eyes, mut quick_eyes) = (Eyes::default(), Eyes::default());
    slow_eyes.see(slow.next().await.unwrap());
    let line = [b'x'; 1000];
    for number in 0..2 * MOST_UNSEEN / line.len() {
        seat.draw(&line);
        seat.draw(format!("\r\n{number}\r\n").as_bytes());
        quick_eyes.see(quick.next().await.unwrap());
    }
    let shown = slow.next().await.unwrap();
    assert!(matches!(shown, Shown::Anew { .. }), "{shown:?}");
    assert_eq!(slow_eyes.see(shown), seat.look().rows);
    assert_eq!(quick_eyes.0.unwrap().look(), seat.look());
    seat.draw(b"more");
    assert_eq!(slow.next().await.unwrap(), Shown::Bytes(b"more".to_vec()));
}

#[tokio::test]
async fn ostler_does_not_type_while_a_person_holds_nor_is_a_person_let_in_while_it_types() {
    let (seat, mut wishes) = Seat::new(SIZE);
    let keys = seat.keys().unwrap();
    assert!(seat.keys().is_none(), "there is one set");
    let mut holding = std::pin::pin!(seat.hold(LARGER));
    let waits = tokio::select! {
        biased;
        _ = &mut holding => false,
        () = std::future::ready(()) => true,
    };
    assert!(waits && !seat.is_held(), "they wait until Ostler has typed");
    assert_eq!(seat.hold(SIZE).await.unwrap_err(), Unseated::Held, "only one can");
    drop(keys);
    assert!(seat.keys().is_none(), "whoever waits is next");
    let hold = holding.await.unwrap();
    assert!(seat.is_held());
    assert_eq!(wishes.next().await, Wish::Taken);
    assert_eq!(wishes.next().await, Wish::Resize(LARGER));
    seat.resized(LARGER);
    assert_eq!(seat.typed(), 0);
    hold.type_in(b"hello").await.unwrap();
    assert_eq!(seat.typed(), 5);
    assert_eq!(wishes.next().await, Wish::Type(b"hello".to_vec()));
    drop(hold);
    assert!(!seat.is_held());
    let keys = seat.next_keys().await;
    assert_eq!(wishes.next().await, Wish::Resize(SIZE), "it has its own size again");
    assert_eq!(wishes.next().await, Wish::Left);
    drop(keys);
}

/// Whoever hears that they left may type: nobody tells it once more.
#[tokio::test]
async fn the_keys_are_free_when_it_is_told_that_a_person_left() {
    let (seat, mut wishes) = Seat::new(SIZE);
    for _ in 0..200 {
        let hold = seat.hold(SIZE).await.unwrap();
        assert_eq!(wishes.next().await, Wish::Taken);
        let leaving = std::thread::spawn(move || drop(hold));
        assert_eq!(wishes.next().await, Wish::Left);
        assert!(seat.keys().is_some() && !seat.is_held());
        leaving.join().unwrap();
    }
}

#[tokio::test]
async fn who_gives_up_waiting_has_changed_nothing() {
    let (seat, mut wishes) = Seat::new(SIZE);
    let keys = seat.keys().unwrap();
    {
        let holding = std::pin::pin!(seat.hold(LARGER));
        tokio::select! {
            biased;
            _ = holding => unreachable!(),
            () = std::future::ready(()) => {}
        }
    }
    assert!(!seat.is_held());
    drop(keys);
    assert!(seat.keys().is_some());
    let nothing = tokio::select! {
        biased;
        wish = wishes.next() => Some(wish),
        () = std::future::ready(()) => None,
    };
    assert_eq!(nothing, None);
}

#[tokio::test]
async fn ostler_is_not_waited_for_for_ever() {
    let (seat, _wishes) = Seat::new(SIZE);
    let _keys = seat.keys().unwrap();
    assert_eq!(seat.hold_within(Duration::from_millis(1), SIZE).await.unwrap_err(), Unseated::Typing);
    assert!(!seat.is_held());
}

#[tokio::test]
async fn much_that_is_typed_waits_until_there_is_room() {
    let (seat, mut wishes) = Seat::new(SIZE);
    let hold = seat.hold(SIZE).await.unwrap();
    let much: Vec<u8> = (0..5 * MOST_UNTYPED).map(|number| b'a' + (number % 26) as u8).collect();
    let mut typed = Vec::new();
    let (sent, ()) = tokio::join!(hold.type_in(&much), async {
        while typed.len() < much.len() {
            match wishes.next().await {
                Wish::Type(bytes) => {
                    assert!(bytes.len() <= MOST_UNTYPED);
                    typed.extend(bytes);
                }
                Wish::Taken | Wish::Resize(_) | Wish::Left => {}
            }
        }
    });
    sent.unwrap();
    assert!(typed == much);
}

#[tokio::test]
async fn a_terminal_that_is_closed_is_shown_to_its_end() {
    let (seat, wishes) = Seat::new(SIZE);
    let mut viewer = seat.watch().unwrap();
    viewer.next().await.unwrap();
    let hold = seat.hold(SIZE).await.unwrap();
    seat.draw(b"bye");
    drop(wishes);
    assert_eq!(viewer.next().await, Some(Shown::Bytes(b"bye".to_vec())));
    assert_eq!(viewer.next().await, None);
    assert_eq!(viewer.next().await, None);
    assert_eq!(hold.type_in(b"x").await, Err(Unseated::Over));
    assert_eq!(seat.watch().unwrap_err(), Unseated::Over);
}

#[tokio::test]
async fn so_many_can_watch_and_a_place_is_free_when_one_goes() {
    let (seat, _wishes) = Seat::new(SIZE);
    let mut viewers: Vec<Viewer> = (0..MOST_VIEWERS).map(|_| seat.watch().unwrap()).collect();
    assert_eq!(seat.watch().unwrap_err(), Unseated::Full);
    viewers.pop();
    assert_eq!(seat.viewers(), MOST_VIEWERS - 1);
    seat.watch().unwrap();
}

#[tokio::test]
async fn another_size_is_drawn_anew() {
    let (seat, _wishes) = Seat::new(SIZE);
    let mut viewer = seat.watch().unwrap();
    viewer.next().await.unwrap();
    seat.draw(b"unseen");
    seat.resized(LARGER);
    let Some(Shown::Anew { size, .. }) = viewer.next().await else { panic!("it was not drawn anew") };
    assert_eq!(size, LARGER);
}

#[tokio::test]
async fn what_a_program_asks_is_answered_to_it() {
    let (seat, _wishes) = Seat::new(SIZE);
    assert_eq!(seat.draw(b"ab\x1b[6"), b"");
    assert_eq!(seat.draw(b"n"), b"\x1b[1;3R");
}
