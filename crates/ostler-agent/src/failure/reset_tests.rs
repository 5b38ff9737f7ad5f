use proptest::prelude::*;
use serde_json::json;

use super::*;

/// 2026-11-17 22:00:00 UTC.
const NOW: i64 = 1_794_952_800;

const UTC: Clock = Clock { now: Some(NOW), east: 0 };

#[test]
fn texts_of_agents_say_when_a_limit_resets() {
    let berlin = Clock { now: Some(NOW), east: 3_600 };
    let table = [
        // Claude Code 2.1.197 and 2.1.325.
        ("You've hit your session limit · resets 12:10am (UTC)", UTC, Some(NOW + 2 * 3_600 + 10 * 60 + 59)),
        (
            "You've hit your session limit · resets 12:10am (UTC)",
            berlin,
            Some(NOW + 2 * 3_600 + 10 * 60 + 59),
        ),
        ("You've hit your 5-hour limit · resets 1am (Europe/Berlin)", berlin, Some(NOW + 2 * 3_600 + 59)),
        ("You've hit your weekly limit · resets Nov 19, 2:11pm (UTC)", UTC, Some(NOW + 144_719)),
        ("You've hit your weekly limit · resets Nov 18, 12pm (UTC)", UTC, Some(NOW + 14 * 3_600 + 59)),
        ("You've hit your weekly limit · resets Jan 2, 3pm (UTC)", UTC, Some(1_798_902_059)),
        // Codex 0.166.0.
        ("You’ve hit your usage limit. Try again at Nov 18th, 2026 12:05 AM.", UTC, Some(NOW + 7_559)),
        // OpenAI, Google and gateways.
        ("Rate limit reached for requests. Please try again in 20s.", UTC, Some(NOW + 20)),
        ("Please try again in 1m30.2s. Visit …", UTC, Some(NOW + 91)),
        ("Please try again in 6ms.", UTC, Some(NOW + 1)),
        ("Retry after 5 minutes", UTC, Some(NOW + 300)),
        ("Please retry in 2 hours and 3 minutes.", UTC, Some(NOW + 7_380)),
        ("usage limit resets in 1d", UTC, Some(NOW + 86_400)),
        ("try again in 20s", Clock::default(), None),
        ("try again in a moment", UTC, None),
        ("resets soon", UTC, None),
        ("This is limited | try again in 5s", UTC, Some(NOW + 5)),
    ];
    for (text, clock, want) in table {
        assert_eq!(in_text(text, clock), want, "{text}");
    }
}

#[test]
fn headers_say_when_a_limit_resets() {
    let table = [
        (json!({"retry-after": "600"}), Some(NOW + 600)),
        (json!({"Retry-After": "0.5"}), Some(NOW + 1)),
        (json!({"retry-after-ms": "1500", "retry-after": "600"}), Some(NOW + 2)),
        (json!({"retry-after": "Wed, 18 Nov 2026 01:00:00 GMT"}), Some(NOW + 3 * 3_600)),
        (json!({"x-ratelimit-reset-requests": "10m0s"}), Some(NOW + 600)),
        (json!({"x-ratelimit-reset-requests": "8.64s", "x-ratelimit-reset-tokens": "6ms"}), Some(NOW + 9)),
        (
            json!({
                "x-ratelimit-reset-requests": "1h", "x-ratelimit-remaining-requests": "12",
                "x-ratelimit-reset-tokens": "30s", "x-ratelimit-remaining-tokens": "0",
            }),
            Some(NOW + 30),
        ),
        (json!({"anthropic-ratelimit-requests-reset": "2026-11-18T01:00:00Z"}), Some(NOW + 3 * 3_600)),
        (json!({"anthropic-ratelimit-tokens-reset": "2026-11-18T01:00:00.5+01:00"}), Some(NOW + 2 * 3_600)),
        (
            json!({
                "anthropic-ratelimit-unified-reset": "1794960000",
                "anthropic-ratelimit-tokens-reset": "2026-11-19T01:00:00Z",
            }),
            Some(1_794_960_000),
        ),
        (json!({"x-ratelimit-reset": "1794960000000"}), Some(1_794_960_000)),
        (json!({"ratelimit-reset": "45"}), Some(NOW + 45)),
        (json!({"retry-after": "soon"}), None),
        (json!({"retry-after": "-5"}), None),
        (json!({"retry-after": "NaN"}), None),
        (json!({"retry-after": 5, "content-length": "102"}), None),
        (json!({}), None),
    ];
    for (headers, want) in table {
        assert_eq!(in_headers(headers.as_object(), UTC), want, "{headers}");
    }
    assert_eq!(in_headers(None, UTC), None);
    assert_eq!(in_headers(json!({"retry-after": "5"}).as_object(), Clock::default()), None);
}

proptest! {
    #[test]
    fn any_text_and_any_header_is_read(text in ".{0,60}", value in ".{0,40}", now in any::<i32>()) {
        let clock = Clock { now: Some(i64::from(now)), east: 0 };
        for before in BEFORE_TIME.iter().chain(&BEFORE_DURATION).chain(&["|"]) {
            let _ = in_text(&format!("{before}{text}"), clock);
        }
        let _ = in_headers(json!({"retry-after": value, "x-ratelimit-reset-a": text}).as_object(), clock);
    }
}
