//! What kind of failure an agent reports. One function for all agents: they wrap the same few providers, and each of
//! them tells an HTTP status, a kind, some words, or any two of these.

mod reset;

use serde_json::{Map, Value};

use crate::agent::Clock;
use crate::event::{CutShort, Failure, FailureClass};

/// What an agent reports of a failure.
#[derive(Debug, Clone, Copy, Default)]
pub struct FailureReport<'a> {
    /// The HTTP status of the provider.
    pub status: Option<u16>,
    /// The kind, as the provider or the agent names it: `overloaded_error`, `insufficient_quota`.
    pub kind: &'a str,
    /// The words.
    pub text: &'a str,
    /// The headers of the provider's response, where the agent reports them.
    pub headers: Option<&'a Map<String, Value>>,
}

/// Kinds that leave no doubt, whatever the status: providers use 400 and 429 for much.
const KINDS: &[(FailureClass, &[&str])] = &[
    (
        FailureClass::Quota,
        &[
            "billing_error",
            "usage_limit_reached",
            "usage_not_included",
            "insufficient_quota",
            "quota_exceeded",
        ],
    ),
    (
        FailureClass::Auth,
        &[
            "authentication_failed",
            "authentication_error",
            "oauth_org_not_allowed",
            "permission_error",
            "invalid_api_key",
            "ProviderAuthError",
        ],
    ),
    (FailureClass::Overloaded, &["overloaded", "overloaded_error", "server_is_overloaded", "slow_down"]),
    (
        FailureClass::Model,
        &[
            "model_not_found",
            "max_output_tokens",
            "context_length_exceeded",
            "prompt_too_long",
            "image_error",
            "refusal",
            "ContextOverflowError",
            "MessageOutputLengthError",
            "ContentFilterError",
            "ProviderModelNotFoundError",
        ],
    ),
    (FailureClass::Limit, &["error_max_turns", "error_max_budget_usd", "max_turns"]),
];

/// Words for an input that is too long for the agent or its model, in lower case. As recorded from the agents, and as
/// providers say it.
const TOO_LONG: &[&str] = &[
    "prompt is too long",
    "ran out of room in the model's context window",
    "request too large",
    "input exceeds the maximum length",
    "exceeds the context window",
    "maximum context length",
    "exceed context limit",
];

/// Words that leave no doubt, in lower case with straight apostrophes. In this order: a text about a usage limit may
/// also name the status.
const PHRASES: &[(FailureClass, &[&str])] = &[
    // Claude Code: "Server is temporarily limiting requests (not your usage limit)".
    (FailureClass::Overloaded, &["not your usage limit"]),
    (
        FailureClass::Quota,
        &[
            "usage limit",
            "credit balance",
            "quota exceeded",
            "exceeded your current quota",
            "hit your limit",
            "hit your session limit",
            "hour limit",
            "weekly limit",
            "out of credits",
            "too many requests",
            "rate limit",
        ],
    ),
    (FailureClass::Overloaded, &["overloaded", "at capacity", "high demand"]),
    (
        FailureClass::Auth,
        &["not logged in", "run /login", "invalid api key", "incorrect api key", "failed to authenticate"],
    ),
    (FailureClass::Model, TOO_LONG),
    (
        FailureClass::Model,
        &[
            "output token maximum",
            "incomplete response returned",
            "issue with the selected model",
            "usage policy",
        ],
    ),
    (
        FailureClass::Provider,
        &[
            "unable to connect",
            "cannot connect",
            "connection failed",
            "connectionrefused",
            "connection refused",
            "stream disconnected",
            "waiting for network",
            "timed out",
            "error sending request",
        ],
    ),
];

/// Kinds that say little: they count only where nothing else does.
const VAGUE: &[(FailureClass, &[&str])] = &[
    (FailureClass::Quota, &["rate_limit", "rate_limit_error", "rate_limit_exceeded"]),
    (FailureClass::Model, &["invalid_request", "invalid_request_error"]),
    (FailureClass::Provider, &["server_error", "api_error"]),
];

/// Words before a status that an agent put into its text.
const BEFORE_STATUS: [&str; 4] = ["unexpected status ", "last status: ", "API Error: ", "rejected ("];

/// Whether the input was too long: the same request would fail again.
pub fn is_input_too_long(failure: &Failure) -> bool {
    let words = failure.detail.to_lowercase().replace('’', "'");
    failure.class == FailureClass::Model && TOO_LONG.iter().any(|phrase| words.contains(phrase))
}

/// What kind of failure this is. Total: what nothing is known of is `Unknown`.
pub fn classify(report: FailureReport<'_>) -> FailureClass {
    let words = report.text.to_lowercase().replace('’', "'");
    let by_kind = |table: &[(FailureClass, &[&str])]| found(table, |kind| *kind == report.kind);
    by_kind(KINDS)
        .or_else(|| found(PHRASES, |phrase| words.contains(phrase)))
        .or_else(|| report.status.or_else(|| status_in(report.text)).and_then(by_status))
        .or_else(|| by_kind(VAGUE))
        .unwrap_or(FailureClass::Unknown)
}

/// Which limit a failure of class [`FailureClass::Quota`] is about, as far as its text says so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LimitKind {
    /// So much of a plan in so many hours or days.
    Usage,
    /// So many requests or tokens a minute.
    Rate,
    /// What an account has paid for.
    Credit,
    /// Not told.
    Unknown,
}

/// Phrases by which the limit is known, in lower case with straight apostrophes. In this order: Claude Code puts the
/// status before every text.
const LIMITS: &[(LimitKind, &[&str])] = &[
    (LimitKind::Usage, &["usage limit", "session limit", "hour limit", "weekly limit", "hit your limit"]),
    (
        LimitKind::Credit,
        &[
            "credit balance",
            "out of credits",
            "quota exceeded",
            "exceeded your current quota",
            "insufficient_quota",
            "payment required",
        ],
    ),
    (
        LimitKind::Rate,
        &["rate limit", "rate_limit", "too many requests", "(429)", "status: 429", "status 429"],
    ),
];

impl LimitKind {
    /// By the text of the failure.
    pub fn of(text: &str) -> Self {
        let words = text.to_lowercase().replace('’', "'");
        let known = LIMITS.iter().find(|(_, phrases)| phrases.iter().any(|phrase| words.contains(phrase)));
        known.map_or(Self::Unknown, |(kind, _)| *kind)
    }

    /// The message about it.
    pub fn message(self) -> &'static str {
        match self {
            Self::Usage => "the usage limit of the plan is reached",
            Self::Rate => "the provider's rate limit is reached",
            Self::Credit => "the account's quota is used up",
            Self::Unknown => "a rate limit or usage limit of the provider is reached",
        }
    }
}

/// The failure. For a quota or a rate limit with the time of its reset, if the headers or the text have one; times in
/// the text are read by that clock.
pub fn failure(report: FailureReport<'_>, clock: Clock) -> Failure {
    let class = classify(report);
    let resets_at = match class {
        FailureClass::Quota => {
            reset::in_headers(report.headers, clock).or_else(|| reset::in_text(report.text, clock))
        }
        FailureClass::Auth
        | FailureClass::Overloaded
        | FailureClass::Provider
        | FailureClass::Model
        | FailureClass::Crashed
        | FailureClass::Limit
        | FailureClass::Unknown => None,
    };
    Failure { class, detail: report.text.to_owned(), resets_at, cut_short: cut_short(report.kind) }
}

/// Kinds that tell how the model ended its answer.
fn cut_short(kind: &str) -> Option<CutShort> {
    match kind {
        "refusal" | "ContentFilterError" => Some(CutShort::Refusal),
        "max_output_tokens" | "MessageOutputLengthError" => Some(CutShort::MaxTokens),
        _ => None,
    }
}

fn found(table: &[(FailureClass, &[&str])], is_meant: impl Fn(&&str) -> bool) -> Option<FailureClass> {
    table.iter().find(|(_, words)| words.iter().any(&is_meant)).map(|(class, _)| *class)
}

fn by_status(status: u16) -> Option<FailureClass> {
    match status {
        401 | 403 => Some(FailureClass::Auth),
        402 | 429 => Some(FailureClass::Quota),
        503 | 529 => Some(FailureClass::Overloaded),
        400 | 404 | 413 | 422 => Some(FailureClass::Model),
        408 | 500..=599 => Some(FailureClass::Provider),
        _ => None,
    }
}

fn status_in(text: &str) -> Option<u16> {
    let after = BEFORE_STATUS.iter().find_map(|before| text.split_once(before))?.1;
    after.get(..3)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_have_a_class() {
        use FailureClass::{Auth, Limit, Model, Overloaded, Provider, Quota, Unknown};
        // Status, kind and words as recorded from Claude Code 2.1.197, Codex 0.166.0 and OpenCode 1.18.33.
        let table: &[(Option<u16>, &str, &str, FailureClass)] = &[
            (Some(401), "authentication_failed", "Invalid API key · Fix external API key", Auth),
            (
                Some(403),
                "authentication_failed",
                "Failed to authenticate. API Error: 403 forbidden mock",
                Auth,
            ),
            (None, "authentication_failed", "Not logged in · Please run /login", Auth),
            (
                None,
                "",
                "unexpected status 401 Unauthorized: Incorrect API key provided, url: http://x/v1/responses",
                Auth,
            ),
            (Some(401), "invalid_api_key", "Incorrect API key provided", Auth),
            (Some(400), "billing_error", "Credit balance is too low", Quota),
            (Some(429), "rate_limit", "API Error: Request rejected (429) · usage limit reached", Quota),
            (
                None,
                "",
                "You’ve hit your usage limit. Upgrade to Pro or try again at Nov 18th, 2026 11:06 AM.",
                Quota,
            ),
            (None, "", "Quota exceeded. Check your plan and billing details.", Quota),
            (Some(429), "insufficient_quota", "You exceeded your current quota", Quota),
            (Some(402), "", "Payment required", Quota),
            (
                Some(429),
                "rate_limit",
                "API Error: Request rejected (429) · This request would exceed your account's rate limit.",
                Quota,
            ),
            (Some(429), "rate_limit", "", Quota),
            (None, "", "exceeded retry limit, last status: 429 Too Many Requests", Quota),
            (Some(429), "", "slow, please", Quota),
            (Some(429), "rate_limit", "You've hit your session limit · resets 12:10am (UTC)", Quota),
            (Some(429), "rate_limit", "You've hit your weekly limit · resets Nov 19, 2:11pm (UTC)", Quota),
            (
                Some(429),
                "rate_limit",
                "API Error: Server is temporarily limiting requests (not your usage limit) · try later",
                Overloaded,
            ),
            (None, "", "AI_APICallError: Rate limit reached for requests", Quota),
            (None, "", "AI_APICallError: Cannot connect to API: Unable to connect.", Provider),
            (Some(529), "overloaded", "", Overloaded),
            (
                None,
                "server_error",
                "API Error: Repeated 529 Overloaded errors. The API is at capacity",
                Overloaded,
            ),
            (None, "", "Selected model is at capacity. Please try a different model.", Overloaded),
            (
                None,
                "",
                "We’re currently experiencing high demand, which may cause temporary errors.",
                Overloaded,
            ),
            (Some(500), "server_error", "", Provider),
            (Some(500), "", "mock 500", Provider),
            (None, "server_error", "API Error: Unable to connect to API (ConnectionRefused)", Provider),
            (None, "server_error", "Request timed out", Provider),
            (None, "", "Connection failed: error sending request", Provider),
            (
                None,
                "",
                "stream disconnected before completion: Transport error: network error: error decoding response body",
                Provider,
            ),
            (None, "", "stream disconnected before completion: idle timeout waiting for SSE", Provider),
            (Some(404), "model_not_found", "There's an issue with the selected model (x).", Model),
            (Some(400), "unknown", "API Error: 400 mock invalid request", Model),
            (None, "invalid_request_error", "bad request thing", Model),
            (Some(400), "invalid_request", "Prompt is too long · the request is ~1200000 tokens", Model),
            (Some(413), "invalid_request", "Request too large (max 32MB). Try with a smaller file.", Model),
            (
                None,
                "max_output_tokens",
                "API Error: Claude's response exceeded the 64000 output token maximum.",
                Model,
            ),
            (None, "", "Incomplete response returned, reason: max_output_tokens", Model),
            (
                None,
                "invalid_request",
                "unable to respond to this request, which appears to violate our Usage Policy",
                Model,
            ),
            (
                None,
                "",
                "Codex ran out of room in the model's context window. Start a new thread or clear earlier history.",
                Model,
            ),
            (None, "error_max_turns", "Reached maximum number of turns (2)", Limit),
            (None, "error_max_budget_usd", "Reached maximum budget ($0.0001)", Limit),
            (None, "UnknownError", "Unexpected server error. Check server logs for details.", Unknown),
            (None, "", "", Unknown),
        ];
        for (status, kind, text, want) in table {
            let report = FailureReport { status: *status, kind, text, headers: None };
            assert_eq!(classify(report), *want, "{report:?}");
        }
    }

    #[test]
    fn a_limit_has_its_name() {
        use LimitKind::{Credit, Rate, Unknown, Usage};
        for (text, want) in [
            ("API Error: Request rejected (429) · Claude AI usage limit reached|4102444800", Usage),
            ("You’ve hit your usage limit. Upgrade to Pro or try again at Nov 18th, 2026 11:06 AM.", Usage),
            ("You've hit your weekly limit · resets Nov 19, 2:11pm (UTC)", Usage),
            ("You've hit your session limit · resets 12:10am (UTC)", Usage),
            (
                "API Error: Request rejected (429) · This request would exceed your account's rate limit.",
                Rate,
            ),
            ("exceeded retry limit, last status: 429 Too Many Requests", Rate),
            ("rate_limit (429)", Rate),
            ("AI_APICallError: Rate limit reached for requests", Rate),
            ("API Error: Request rejected (429) · slow, please", Rate),
            ("Credit balance is too low", Credit),
            ("You exceeded your current quota.", Credit),
            ("slow, please", Unknown),
            ("", Unknown),
        ] {
            assert_eq!(LimitKind::of(text), want, "{text}");
        }
    }

    #[test]
    fn an_input_that_is_too_long_is_told_from_other_failures() {
        // As recorded from Claude Code 2.1.197 and Codex 0.166.0, and as OpenAI says it.
        let table = [
            ("Prompt is too long · the request is ~1200000 tokens", true),
            ("Request too large (max 32MB). Try with a smaller file.", true),
            ("Codex ran out of room in the model’s context window. Start a new thread.", true),
            (
                "Error: turn/start: turn/start failed: Input exceeds the maximum length of 1048576 characters.",
                true,
            ),
            ("Your input exceeds the context window of this model.", true),
            ("API Error: Claude's response exceeded the 64000 output token maximum.", false),
            ("There's an issue with the selected model (x).", false),
            ("Selected model is at capacity.", false),
        ];
        for (text, want) in table {
            let failure = failure(FailureReport { text, ..FailureReport::default() }, Clock::default());
            assert_eq!(is_input_too_long(&failure), want, "{text}");
        }
    }

    #[test]
    fn a_quota_says_when_it_returns() {
        let at = |text, now, east| {
            failure(FailureReport { text, ..FailureReport::default() }, Clock { now, east }).resets_at
        };
        let told = "You’ve hit your usage limit. Visit the settings or try again at Nov 18th, 2026 11:06 AM.";
        assert_eq!(at(told, None, 0), Some(1_795_000_019));
        assert_eq!(at(told, None, 3_600), Some(1_794_996_419));
        // 1970-01-02, 10:00 UTC.
        let (ten, eleven) = (Some(122_400), "usage limit: try again at 11:06 AM.");
        assert_eq!(at(eleven, ten, 0), Some(126_419));
        assert_eq!(at(eleven, ten, 3_600), Some(122_819), "it is eleven there");
        assert_eq!(at(eleven, ten, 2 * 3_600), Some(122_819 - 3_600 + 86_400), "that was an hour ago");
        assert_eq!(at("usage limit: try again at 9:59 AM", ten, 0), Some(122_399), "that was just now");
        let table = [
            ("usage limit: try again at Feb 29th, 2028 12:00 AM.", Some(1_835_395_259)),
            ("usage limit: try again at Jan 1st, 1970 12:30 PM", Some(45_059)),
            ("Claude AI usage limit reached|1760000000", Some(1_760_000_000)),
            ("usage limit: try again at 11:06 AM.", None),
            ("usage limit: try again at Foo 1st, 2026 1:00 AM", None),
            ("usage limit: try again at Nov 99th, 2026 1:00 AM", None),
            ("usage limit: try again at Nov 1st, 2026 13:00 AM", None),
            ("usage limit|", None),
            ("Nov 18th, 2026 11:06 AM", None),
        ];
        for (text, want) in table {
            assert_eq!(at(text, None, 0), want, "{text}");
        }
    }
}
