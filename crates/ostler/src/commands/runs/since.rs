//! The time in `ostler runs since TIME`: how it is written, and which moment it is.

use jiff::civil::DateTime;
use jiff::{Timestamp, ToSpan as _, Zoned};

/// What can be written, for errors and help.
const FORMS: &str = "write it as in 18:00, yesterday, 2h, 2026-11-16 or 2026-11-16T18:00";

/// The moment that a person names, in local time. A time of day that is yet to come is yesterday's.
pub(super) fn parse(text: &str, now: &Zoned) -> Result<Timestamp, String> {
    let (text, unknown) = (text.trim(), || FORMS.to_owned());
    let at = if let Some(at) = relative(text, now) {
        at.ok_or_else(unknown)?
    } else if let Ok(at) = text.parse::<Timestamp>() {
        at
    } else {
        let local: DateTime = text.parse().map_err(|_| unknown())?;
        local.to_zoned(now.time_zone().clone()).map_err(|_| unknown())?.timestamp()
    };
    if at > now.timestamp() {
        return Err("that time is in the future".to_owned());
    }
    Ok(at)
}

/// A time that is counted from now: a word, a time of day, a duration. `None` if it is none of these; `Some(None)` if
/// the calendar does not have it.
fn relative(text: &str, now: &Zoned) -> Option<Option<Timestamp>> {
    let start = |day: Option<Zoned>| day.and_then(|day| day.start_of_day().ok()).map(|day| day.timestamp());
    let yesterday = || now.checked_sub(1.day()).ok();
    match text.to_ascii_lowercase().as_str() {
        "today" | "midnight" => return Some(start(Some(now.clone()))),
        "yesterday" => return Some(start(yesterday())),
        _ => {}
    }
    if let Some((hour, minute, second)) = time_of_day(text) {
        let on = |day: &Zoned| {
            let at = day.date().at(hour, minute, second, 0).to_zoned(day.time_zone().clone());
            at.ok().map(|at| at.timestamp())
        };
        let today = on(now);
        return Some(match today {
            Some(at) if at > now.timestamp() => yesterday().and_then(|day| on(&day)),
            at => at,
        });
    }
    let ago = humantime::parse_duration(text).ok()?;
    Some(
        i64::try_from(ago.as_secs())
            .ok()
            .and_then(|ago| Timestamp::from_second(now.timestamp().as_second().checked_sub(ago)?).ok()),
    )
}

/// `18:00` or `18:00:30`.
fn time_of_day(text: &str) -> Option<(i8, i8, i8)> {
    let mut parts = text.split(':');
    let mut next = |most: i8| {
        let part = parts.next()?;
        let is_number = (1..=2).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit());
        part.parse::<i8>().ok().filter(|number| is_number && *number <= most)
    };
    let (hour, minute) = (next(23)?, next(59)?);
    match text.matches(':').count() {
        1 => Some((hour, minute, 0)),
        2 => Some((hour, minute, next(59)?)),
        _ => None,
    }
}

/// How a moment is shown: the time, with the day if that is another one.
pub(super) fn format_time(seconds: i64, now: &Zoned) -> String {
    let Ok(at) = Timestamp::from_second(seconds) else { return format!("second {seconds}") };
    let at = at.to_zoned(now.time_zone().clone());
    let days = now.date().since(at.date()).map_or(i32::MAX, |span| span.get_days());
    let form = match days {
        0 => "%H:%M",
        1..=6 => "%a %H:%M",
        _ => "%Y-%m-%d %H:%M",
    };
    at.strftime(form).to_string()
}

#[cfg(test)]
mod tests {
    use jiff::tz::{Offset, TimeZone};

    use super::*;

    /// A Tuesday morning, two hours east of Greenwich.
    fn now() -> Zoned {
        let zone = TimeZone::fixed(Offset::constant(2));
        "2026-11-17T07:30:00Z".parse::<Timestamp>().unwrap().to_zoned(zone)
    }

    #[test]
    fn a_time_is_local_and_never_later_than_now() {
        let table = [
            ("18:00", "2026-11-16T16:00:00Z"),
            ("8:15", "2026-11-17T06:15:00Z"),
            ("09:30", "2026-11-17T07:30:00Z"),
            ("09:31", "2026-11-16T07:31:00Z"),
            ("09:30:01", "2026-11-16T07:30:01Z"),
            ("today", "2026-11-16T22:00:00Z"),
            ("Yesterday", "2026-11-15T22:00:00Z"),
            ("2h", "2026-11-17T05:30:00Z"),
            ("1h 30m", "2026-11-17T06:00:00Z"),
            ("2d", "2026-11-15T07:30:00Z"),
            ("2026-11-16", "2026-11-15T22:00:00Z"),
            ("2026-11-16T18:00", "2026-11-16T16:00:00Z"),
            ("2026-11-16 18:00:05", "2026-11-16T16:00:05Z"),
            ("2026-11-16T18:00:00Z", "2026-11-16T18:00:00Z"),
            ("2026-11-16T18:00:00+01:00", "2026-11-16T17:00:00Z"),
        ];
        for (text, want) in table {
            let at = parse(text, &now()).unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(at.to_string(), want, "{text}");
        }
    }

    #[test]
    fn what_is_no_time_is_refused() {
        for text in
            ["", "soon", "25:00", "18:60", "18:00:61", "18:0x", "1:2:3:4", "+1:00", "2026-13-01", "18"]
        {
            assert!(parse(text, &now()).unwrap_err().contains("18:00, yesterday, 2h"), "{text}");
        }
        for text in ["2026-11-18", "2026-11-17T18:00", "2027-01-01T00:00:00Z"] {
            assert_eq!(parse(text, &now()).unwrap_err(), "that time is in the future", "{text}");
        }
    }

    #[test]
    fn a_moment_is_shown_with_its_day_if_that_is_another() {
        let shown = |text: &str| format_time(text.parse::<Timestamp>().unwrap().as_second(), &now());
        assert_eq!(shown("2026-11-17T06:15:00Z"), "08:15");
        assert_eq!(shown("2026-11-16T16:00:00Z"), "Mon 18:00");
        assert_eq!(shown("2026-11-10T16:00:00Z"), "2026-11-10 18:00");
    }
}
