//! When a quota or a rate limit resets, as seconds since 1970: from the headers of the provider's response, or from the
//! text that an agent prints. Total: what cannot be read is absent.

use serde_json::{Map, Value};

use crate::agent::Clock;

const DAY: i64 = 86_400;

/// How long ago a time of day may be and still be meant as today's.
const JUST_BEEN: i64 = 600;

/// Numbers from here on are seconds since 1970, and not a number of seconds to wait.
const LEAST_EPOCH: f64 = 1_000_000_000.0;

/// Numbers from here on are milliseconds since 1970.
const LEAST_EPOCH_MS: f64 = 1_000_000_000_000.0;

/// Text in front of a time at which to try again.
const BEFORE_TIME: [&str; 2] = ["try again at ", "resets "];

/// Text in front of a duration after which to try again.
const BEFORE_DURATION: [&str; 4] = ["try again in ", "retry after ", "retry in ", "resets in "];

/// The reset time in the headers of a response. `Retry-After` is meant for this very request and wins over the resets of
/// the single limits; of those, the ones that are used up count, and of several the last.
pub(super) fn in_headers(headers: Option<&Map<String, Value>>, clock: Clock) -> Option<i64> {
    let headers: Vec<(String, &str)> = headers?
        .iter()
        .filter_map(|(name, value)| Some((name.to_ascii_lowercase(), value.as_str()?.trim())))
        .collect();
    let header = |name: &str| headers.iter().find(|(known, _)| known == name).map(|(_, value)| *value);
    let after_ms = || {
        let ms: f64 = header("retry-after-ms")?.parse().ok()?;
        later(clock, ms / 1_000.0)
    };
    after_ms()
        .or_else(|| header("retry-after").and_then(|value| moment(value, clock)))
        .or_else(|| header("anthropic-ratelimit-unified-reset").and_then(|value| moment(value, clock)))
        .or_else(|| last_of_limits(&headers, clock))
}

/// The last reset among headers such as `x-ratelimit-reset-requests` and `anthropic-ratelimit-tokens-reset`.
fn last_of_limits(headers: &[(String, &str)], clock: Clock) -> Option<i64> {
    let resets = || {
        headers.iter().filter_map(|(name, value)| {
            (name.contains("ratelimit") && name.contains("reset")).then_some((name, moment(value, clock)?))
        })
    };
    let is_used_up = |name: &str| {
        let remaining = name.replace("reset", "remaining");
        headers.iter().any(|(name, value)| *name == remaining && *value == "0")
    };
    let used_up = resets().filter(|(name, _)| is_used_up(name)).map(|(_, at)| at).max();
    used_up.or_else(|| resets().map(|(_, at)| at).max())
}

/// The value of a header: a number of seconds, seconds or milliseconds since 1970, `1m30s`, an RFC 3339 time or an HTTP
/// date.
fn moment(value: &str, clock: Clock) -> Option<i64> {
    match value.parse::<f64>() {
        Ok(number) if number >= LEAST_EPOCH_MS => whole(number / 1_000.0),
        Ok(number) if number >= LEAST_EPOCH => whole(number),
        Ok(number) => later(clock, number),
        Err(_) => rfc3339(value)
            .or_else(|| http_date(value))
            .or_else(|| duration(value).and_then(|seconds| later(clock, seconds))),
    }
}

/// So many seconds from now, rounded up.
fn later(clock: Clock, seconds: f64) -> Option<i64> {
    clock.now?.checked_add(whole(seconds)?)
}

/// A number of seconds that makes sense, rounded up.
fn whole(seconds: f64) -> Option<i64> {
    let is_sensible = seconds.is_finite() && (0.0..1e12).contains(&seconds);
    // Within 2^53, so nothing is cut off.
    #[expect(clippy::cast_possible_truncation, reason = "checked to be below 10^12")]
    is_sensible.then(|| seconds.ceil() as i64)
}

/// The reset time in a text: `…|1760000000`, `try again at Nov 18th, 2026 11:06 AM`, `try again at 11:06 AM`, `resets
/// 12:10am (UTC)`, `resets Nov 19, 2:11pm (UTC)`, `try again in 1m30s`. Texts leave out the seconds of a time of day, so
/// the end of the minute is meant.
pub(super) fn in_text(text: &str, clock: Clock) -> Option<i64> {
    if let Some((_, after)) = text.rsplit_once('|') {
        let digits: String = after.trim().chars().take_while(char::is_ascii_digit).collect();
        if let Ok(seconds) = digits.parse() {
            return Some(seconds);
        }
    }
    // Lower case keeps the length of ASCII only, so positions in the original are not used.
    let words = text.to_lowercase();
    let after =
        |before: &[&str]| before.iter().find_map(|before| Some(words.split_once(before)?.1.to_owned()));
    let in_duration = || {
        let rest = after(&BEFORE_DURATION)?;
        later(clock, duration(&rest)?)
    };
    let at_time = || time(&after(&BEFORE_TIME)?, clock);
    in_duration().or_else(at_time)
}

/// A time of day, with its date if it has one, in lower case.
fn time(text: &str, clock: Clock) -> Option<i64> {
    // Claude Code names the zone of its times, which is the one of this machine or UTC.
    let east = if text.contains("(utc)") { 0 } else { clock.east };
    let words: Vec<&str> = text
        .split_whitespace()
        .map(|word| word.trim_matches(['.', ',', '(', ')']))
        .filter(|word| !matches!(*word, "at" | "on"))
        .take(5)
        .collect();
    match words.as_slice() {
        [month, day, year, time, rest @ ..]
            if year.len() == 4 && year.bytes().all(|byte| byte.is_ascii_digit()) =>
        {
            let midnight = day_of(month, day, year)? * DAY;
            Some(midnight + of_day(time, rest.first().copied())? - east)
        }
        [month, day, time, rest @ ..] if month_of(month).is_some() => {
            let seconds = of_day(time, rest.first().copied())? - east;
            let now = clock.now?;
            let year = year_of(now);
            // Without a year the next such day is meant.
            [year, year + 1]
                .into_iter()
                .filter_map(|year| Some(day_of(month, day, &year.to_string())? * DAY + seconds))
                .find(|at| at + JUST_BEEN >= now)
        }
        [time, rest @ ..] => {
            let (now, seconds) = (clock.now?, of_day(time, rest.first().copied())?);
            let midnight = (now + east).div_euclid(DAY) * DAY - east;
            let today = midnight + seconds;
            // What has just been is meant; what is long past is tomorrow.
            Some(if today + JUST_BEEN < now { today + DAY } else { today })
        }
        [] => None,
    }
}

/// Seconds since midnight at the end of the minute `11:06` `am`, `11:06am` or `3pm`.
fn of_day(time: &str, half: Option<&str>) -> Option<i64> {
    let (time, half) = match (time.strip_suffix("am"), time.strip_suffix("pm")) {
        (Some(time), _) => (time, "am"),
        (None, Some(time)) => (time, "pm"),
        (None, None) => (time, half?),
    };
    let (hour, minute) = time.split_once(':').unwrap_or((time, "0"));
    let hour: i64 = hour.parse().ok().filter(|hour| (1..=12).contains(hour))?;
    let minute: i64 = minute.parse().ok().filter(|minute| (0..60).contains(minute))?;
    let afternoon = match half {
        "am" => 0,
        "pm" => 12,
        _ => return None,
    };
    Some((hour % 12 + afternoon) * 3_600 + minute * 60 + 59)
}

/// The seconds of a duration at the beginning of a text: `20s`, `1m30.5s`, `6ms`, `5 minutes`, `2 hours and 3 minutes`.
fn duration(text: &str) -> Option<f64> {
    let mut rest = text.trim_start();
    let mut seconds: Option<f64> = None;
    loop {
        let digits =
            rest.find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap_or(rest.len());
        let Ok(number) = rest[..digits].parse::<f64>() else { return seconds };
        let unit = rest[digits..].trim_start();
        let letters = unit.find(|letter: char| !letter.is_ascii_alphabetic()).unwrap_or(unit.len());
        let factor = match &unit[..letters] {
            "ms" | "milliseconds" => 0.001,
            "s" | "sec" | "secs" | "second" | "seconds" => 1.0,
            "m" | "min" | "mins" | "minute" | "minutes" => 60.0,
            "h" | "hr" | "hrs" | "hour" | "hours" => 3_600.0,
            "d" | "day" | "days" => 86_400.0,
            _ => return seconds,
        };
        seconds = Some(seconds.unwrap_or(0.0) + number * factor);
        rest = unit[letters..].trim_start_matches([' ', ',']);
        rest = rest.strip_prefix("and ").unwrap_or(rest);
    }
}

/// `2026-11-18T01:00:00Z`, with any offset; fractions of a second are cut off.
fn rfc3339(value: &str) -> Option<i64> {
    let (date, time) = value.split_once(['T', 't'])?;
    let mut parts = date.splitn(3, '-').map(str::parse::<i64>);
    let (year, month, day) = (parts.next()?.ok()?, parts.next()?.ok()?, parts.next()?.ok()?);
    let is_date = (1970..=9999).contains(&year) && (1..=12).contains(&month) && (1..=31).contains(&day);
    let (clock, offset) = match time.find(['Z', 'z', '+', '-']) {
        Some(at) => time.split_at(at),
        None => return None,
    };
    let seconds = hours_minutes(clock)?;
    let east = match offset {
        "Z" | "z" => 0,
        offset => {
            let east = hours_minutes(offset.get(1..)?)?;
            if offset.starts_with('-') { -east } else { east }
        }
    };
    is_date.then(|| days_since_1970(year, month, day) * DAY + seconds - east)
}

/// Seconds of `01:00` or `01:00:00.5`.
fn hours_minutes(text: &str) -> Option<i64> {
    let mut parts = text.split(':').map(|part| part.split('.').next().unwrap_or_default().parse::<i64>());
    let (hours, minutes) = (parts.next()?.ok()?, parts.next()?.ok()?);
    let seconds = parts.next().unwrap_or(Ok(0)).ok()?;
    let is_time = (0..24).contains(&hours) && (0..60).contains(&minutes) && (0..=60).contains(&seconds);
    is_time.then_some(hours * 3_600 + minutes * 60 + seconds)
}

/// `Wed, 18 Nov 2026 01:00:00 GMT`.
fn http_date(value: &str) -> Option<i64> {
    let value = value.to_lowercase();
    let (_, date) = value.split_once(", ")?;
    let words: Vec<&str> = date.split_whitespace().collect();
    let [day, month, year, time, "gmt"] = words.as_slice() else { return None };
    Some(day_of(month, day, year)? * DAY + hours_minutes(time)?)
}

fn month_of(month: &str) -> Option<i64> {
    const MONTHS: [&str; 12] =
        ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
    let index = MONTHS.iter().position(|name| *name == month)?;
    i64::try_from(index).ok().map(|index| index + 1)
}

/// Days since 1970 of `nov` `18th` `2026`.
fn day_of(month: &str, day: &str, year: &str) -> Option<i64> {
    let day: i64 =
        day.trim_end_matches(char::is_alphabetic).parse().ok().filter(|day| (1..=31).contains(day))?;
    let year: i64 = year.parse().ok().filter(|year| (1970..=9999).contains(year))?;
    Some(days_since_1970(year, month_of(month)?, day))
}

/// Days from 1970-01-01 in the Gregorian calendar, by counting years that begin in March: then the leap day is last.
fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

/// The year of a time, which is right but for the first or last hours of a year.
fn year_of(seconds: i64) -> i64 {
    let days = seconds.div_euclid(DAY);
    let guess = 1970 + days / 366;
    (guess..=guess + 2).rev().find(|year| days_since_1970(*year, 1, 1) <= days).unwrap_or(guess)
}

#[cfg(test)]
#[path = "reset_tests.rs"]
mod tests;
