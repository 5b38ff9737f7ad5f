//! What is never kept: what a person called private, secrets by their shape, and what looks like one. Done before
//! anything is written. One pass over the words, no patterns to compile: a hook has no time for that.

/// What is done with a secret.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Policy {
    /// All that was said with it is left out.
    Drop,
    /// It is replaced by what kind of secret it was.
    #[default]
    Mask,
    /// It is kept. What is called private is left out all the same.
    Keep,
}

impl Policy {
    /// The one of that name.
    pub fn named(name: &str) -> Option<Self> {
        match name.trim() {
            "drop" => Some(Self::Drop),
            "mask" => Some(Self::Mask),
            "keep" => Some(Self::Keep),
            _ => None,
        }
    }
}

/// How tokens of known services begin, and how long one is at least.
const SHAPES: &[(&str, usize, &str)] = &[
    ("sk-ant-", 20, "anthropic key"),
    ("sk-proj-", 20, "openai key"),
    ("sk-", 24, "api key"),
    ("ghp_", 30, "github token"),
    ("gho_", 30, "github token"),
    ("ghu_", 30, "github token"),
    ("ghs_", 30, "github token"),
    ("ghr_", 30, "github token"),
    ("github_pat_", 30, "github token"),
    ("glpat-", 20, "gitlab token"),
    ("xoxb-", 20, "slack token"),
    ("xoxp-", 20, "slack token"),
    ("xoxa-", 20, "slack token"),
    ("xoxs-", 20, "slack token"),
    ("xapp-", 20, "slack token"),
    ("AIza", 35, "google key"),
    ("ya29.", 20, "google token"),
    ("npm_", 30, "npm token"),
    ("pypi-", 30, "pypi token"),
    ("hf_", 30, "hugging face token"),
    ("dop_v1_", 30, "digitalocean token"),
    ("SG.", 40, "sendgrid key"),
    ("sk_live_", 20, "stripe key"),
    ("rk_live_", 20, "stripe key"),
    ("sk_test_", 20, "stripe key"),
    ("whsec_", 20, "stripe secret"),
    ("AKIA", 20, "aws key id"),
    ("ASIA", 20, "aws key id"),
    ("age-secret-key-", 40, "age key"),
    ("AGE-SECRET-KEY-", 40, "age key"),
];

/// Names after which a value is a secret, whatever it looks like.
const NAMES: &[&str] = &[
    "password",
    "passwd",
    "passphrase",
    "secret",
    "token",
    "api_key",
    "apikey",
    "api-key",
    "access_key",
    "secret_key",
    "private_key",
    "client_secret",
    "auth_token",
    "access_token",
];

/// Shortest value after such a name that is taken for one: `token: 5` is a count.
const SHORTEST_VALUE: usize = 6;

/// Shortest word that is looked at for its disorder.
const SHORTEST_RANDOM: usize = 28;

/// Bits a letter, above which a long word of mixed letters was not written by a person.
const DISORDER: f64 = 4.1;

/// The text without what must not be kept; nothing if all of it must not be.
pub fn redacted(text: &str, policy: Policy) -> Option<String> {
    let text = without_private(text);
    if policy == Policy::Keep {
        return Some(text);
    }
    let (text, keys) = without_key_blocks(&text);
    let (text, words) = without_secrets(&text);
    if policy == Policy::Drop && (keys || words) { None } else { Some(text) }
}

/// `<private>…</private>`, in any case; one that is not closed goes to the end.
fn without_private(text: &str) -> String {
    let lower = text.to_ascii_lowercase();
    let mut kept = String::with_capacity(text.len());
    let mut at = 0;
    while let Some(begin) = lower[at..].find("<private>").map(|found| at + found) {
        kept.push_str(&text[at..begin]);
        kept.push_str("[private]");
        let Some(end) = lower[begin..].find("</private>") else { return kept };
        at = begin + end + "</private>".len();
    }
    kept.push_str(&text[at..]);
    kept
}

/// `-----BEGIN … PRIVATE KEY-----` to its end.
fn without_key_blocks(text: &str) -> (String, bool) {
    const BEGIN: &str = "-----BEGIN ";
    let mut kept = String::with_capacity(text.len());
    let (mut rest, mut found) = (text, false);
    while let Some(begin) = rest.find(BEGIN) {
        let after = &rest[begin + BEGIN.len()..];
        let title = after.split("-----").next().unwrap_or_default();
        if !title.ends_with("PRIVATE KEY") && !title.ends_with("PRIVATE KEY BLOCK") {
            kept.push_str(&rest[..begin + BEGIN.len()]);
            rest = after;
            continue;
        }
        kept.push_str(&rest[..begin]);
        kept.push_str("[redacted: private key]");
        found = true;
        let end = after.find("-----END ").and_then(|end| {
            let closing = end + "-----END ".len();
            after[closing..].find("-----").map(|dashes| closing + dashes + 5)
        });
        rest = end.map_or("", |end| &after[end..]);
    }
    kept.push_str(rest);
    (kept, found)
}

fn is_token_letter(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || "_-+/=.~%".contains(letter)
}

fn without_secrets(text: &str) -> (String, bool) {
    let mut kept = String::with_capacity(text.len());
    let (mut rest, mut found) = (text, false);
    while let Some(begin) = rest.find(is_token_letter) {
        kept.push_str(&rest[..begin]);
        let after = &rest[begin..];
        let length = after.find(|letter| !is_token_letter(letter)).unwrap_or(after.len());
        let (token, next) = after.split_at(length);
        let told = secret_after_name(&kept, token, next).or_else(|| secret(token));
        match told {
            Some((from, kind)) => {
                found = true;
                kept.push_str(&token[..from]);
                kept.push_str("[redacted: ");
                kept.push_str(kind);
                kept.push(']');
            }
            None => kept.push_str(token),
        }
        rest = next;
    }
    kept.push_str(rest);
    (kept, found)
}

/// Whether a word is a secret by itself: from where on, and of what kind.
fn secret(token: &str) -> Option<(usize, &'static str)> {
    // `NAME=value` and `path/value` are one word here.
    let starts = token.char_indices().filter(|(at, _)| *at == 0 || !letter_before(token, *at));
    for (at, _) in starts {
        let word = &token[at..];
        for (prefix, least, kind) in SHAPES {
            if word.starts_with(prefix) && word.len() >= *least && is_mixed(&word[prefix.len()..]) {
                return Some((at, kind));
            }
        }
        if word.starts_with("eyJ") && word.matches('.').count() >= 2 && word.len() >= 40 {
            return Some((at, "jwt"));
        }
    }
    let value = token.find('=').filter(|at| at + 1 < token.len()).map_or(0, |at| at + 1);
    is_random(&token[value..]).then_some((value, "random"))
}

/// Whether a letter or digit stands before this place.
fn letter_before(token: &str, at: usize) -> bool {
    token[..at].chars().next_back().is_some_and(|letter| letter.is_ascii_alphanumeric() || letter == '_')
}

fn is_mixed(word: &str) -> bool {
    word.chars().any(|letter| letter.is_ascii_digit())
        || word.chars().filter(char::is_ascii_uppercase).count() > 2
}

/// `password = value`, `"token": "value"`, `Authorization: Bearer value`, `https://user:value@host`.
fn secret_after_name(before: &str, token: &str, next: &str) -> Option<(usize, &'static str)> {
    let token_is_value = token.len() >= SHORTEST_VALUE && !token.starts_with("[redacted");
    let tail: String = before.chars().rev().take(40).collect::<Vec<_>>().into_iter().rev().collect();
    let lower = tail.to_ascii_lowercase();
    if token.len() >= 8 && (lower.ends_with("bearer ") || lower.ends_with("basic ")) && is_mixed(token) {
        return Some((0, "authorization"));
    }
    if next.starts_with('@') && tail.ends_with(':') && before.contains("://") {
        let address = before.rsplit("://").next().unwrap_or_default();
        if !address.contains(char::is_whitespace) && !address.contains('@') {
            return Some((0, "password"));
        }
    }
    // In one word: `PASSWORD=value`.
    if let Some((name, value)) = token.split_once('=') {
        let is_name = NAMES.iter().any(|known| name.to_ascii_lowercase().ends_with(known));
        if is_name && value.len() >= SHORTEST_VALUE && is_mixed(value) {
            return Some((name.len() + 1, "secret"));
        }
    }
    let stem = lower.trim_end_matches(['"', '\'', ' ', '`']);
    let stem = stem.strip_suffix([':', '='])?.trim_end_matches(['"', '\'', ' ', '`']);
    let is_name = NAMES.iter().any(|known| stem.ends_with(known));
    (is_name && token_is_value && is_mixed(token)).then_some((0, "secret"))
}

/// Whether a word is too disorderly to be a name, a path, a hash or an id.
fn is_random(word: &str) -> bool {
    let word = word.trim_matches(|letter: char| ".=~-_/%".contains(letter));
    if word.len() < SHORTEST_RANDOM || word.contains(['.', '~', '%']) {
        return false;
    }
    let count = |is: fn(&char) -> bool| word.chars().filter(is).count();
    let (lower, upper, digits) =
        (count(char::is_ascii_lowercase), count(char::is_ascii_uppercase), count(char::is_ascii_digit));
    let is_disorderly = || entropy(word) >= DISORDER && turns(word) * 3 >= word.len();
    // Forty letters in base 64 are a key of AWS, though it may have slashes like a path.
    if word.len() == 40
        && !word.contains(['-', '_'])
        && lower >= 8
        && upper >= 8
        && digits >= 1
        && is_disorderly()
    {
        return true;
    }
    // Hashes and UUIDs have one case; names and paths have few digits, and words between their separators.
    let longest_part = word.split(['/', '-', '_']).map(str::len).max().unwrap_or(0);
    lower >= 4 && upper >= 4 && digits >= 2 && longest_part >= 20 && is_disorderly()
}

/// How often the class of letters changes.
fn turns(word: &str) -> usize {
    let class = |letter: u8| match letter {
        b'a'..=b'z' => 0,
        b'A'..=b'Z' => 1,
        b'0'..=b'9' => 2,
        _ => 3,
    };
    word.as_bytes().windows(2).filter(|pair| class(pair[0]) != class(pair[1])).count()
}

fn entropy(word: &str) -> f64 {
    let mut counts = [0_u32; 256];
    for byte in word.bytes() {
        counts[usize::from(byte)] += 1;
    }
    let length = f64::from(u32::try_from(word.len()).unwrap_or(u32::MAX));
    let part = |count: &u32| {
        let share = f64::from(*count) / length;
        -share * share.log2()
    };
    counts.iter().filter(|count| **count > 0).map(part).sum()
}

#[cfg(test)]
#[path = "redaction_tests.rs"]
mod tests;
