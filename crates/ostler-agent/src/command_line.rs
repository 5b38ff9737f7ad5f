//! A command as a person may read it: quoted for a shell, without the prompt, and with nothing in it that looks secret.
//!
//! Ostler puts no secret into arguments itself. The words of a `command:` agent are the user's own, and a journal is
//! kept and shown to others.

/// What stands where a secret stood. A word that needs no quotes.
const HIDDEN: &str = "REDACTED";

/// What stands where the prompt stood.
const PROMPT: &str = "PROMPT";

/// Shorter prompts are words like any other, unless they are a whole argument.
const SHORTEST_PROMPT: usize = 12;

/// Longest argument that is shown whole, in characters.
const LONGEST: usize = 160;

/// Parts of a name that tell that its value is secret.
const SECRET: [&str; 11] = [
    "key",
    "apikey",
    "token",
    "secret",
    "password",
    "passwd",
    "passphrase",
    "credential",
    "credentials",
    "authorization",
    "cookie",
];

/// How well-known keys begin.
const KEYS: [&str; 17] = [
    "sk-", "sk_", "pk-", "rk-", "rk_", "ghp_", "gho_", "ghs_", "ghu_", "github_", "glpat-", "xox", "AKIA",
    "AIza", "hf_", "npm_", "eyJ",
];

/// Shorter words that begin so are none.
const SHORTEST_KEY: usize = 16;

/// The command on one line.
pub fn readable(program: &str, args: &[String], prompt: &str) -> String {
    let mut words = vec![program.to_owned()];
    let mut is_secret = false;
    for arg in args {
        let arg = without_prompt(arg, prompt);
        let is_value = std::mem::replace(&mut is_secret, names_a_secret(&arg));
        words.push(if is_value && !arg.starts_with('-') { HIDDEN.to_owned() } else { hidden(&arg) });
    }
    let words = words.iter().map(|word| quoted(word));
    words.collect::<Vec<_>>().join(" ")
}

/// A flag whose value is the next argument.
fn names_a_secret(arg: &str) -> bool {
    let name = arg.trim_start_matches('-');
    name.len() < arg.len() && name.chars().all(is_of_a_name) && is_telltale(name)
}

fn without_prompt(arg: &str, prompt: &str) -> String {
    if !prompt.is_empty() && arg == prompt {
        PROMPT.to_owned()
    } else if prompt.len() >= SHORTEST_PROMPT {
        arg.replace(prompt, PROMPT)
    } else {
        arg.to_owned()
    }
}

/// The argument without what looks secret in it: values of names that tell so, well-known keys, bearers, passwords in
/// addresses.
fn hidden(arg: &str) -> String {
    let mut shown = String::with_capacity(arg.len());
    let mut rest = arg;
    while let Some(letter) = rest.chars().next() {
        if !is_of_a_name(letter) {
            shown.push(letter);
            rest = &rest[letter.len_utf8()..];
            continue;
        }
        let end = rest.find(|letter: char| !is_of_a_name(letter)).unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        let is_first = shown.trim_start_matches('-').is_empty();
        rest = after;
        if is_key(word) {
            shown.push_str(HIDDEN);
            continue;
        }
        shown.push_str(word);
        if let Some(length) = secret_after(word, after, is_first) {
            let lead = lead(&after[..length]);
            shown.push_str(&after[..lead]);
            shown.push_str(HIDDEN);
            rest = &after[length..];
        } else if let Some(length) = userinfo(after) {
            // `https` of `https://user:password@host`.
            shown.push_str("://");
            shown.push_str(HIDDEN);
            rest = &after[length..];
        }
    }
    shown
}

/// How far what follows a word belongs to its secret value: the sign between them, and the value.
fn secret_after(word: &str, after: &str, is_first: bool) -> Option<usize> {
    let is_bearer = word.eq_ignore_ascii_case("bearer") && after.starts_with(' ');
    let lead = lead(after);
    let is_named = is_telltale(word) && after[..lead].contains(['=', ':']);
    if !is_bearer && !is_named {
        return None;
    }
    let value = &after[lead..];
    // What follows the name of a flag or a variable is its value to the very end.
    let is_all = is_first && after.starts_with('=');
    let end = match after[..lead].chars().next_back() {
        _ if is_all => value.len(),
        Some(quote @ ('"' | '\'')) => value.find(quote).unwrap_or(value.len()),
        _ if value.get(..7).is_some_and(|scheme| scheme.eq_ignore_ascii_case("bearer ")) => value.len(),
        _ => value.find([' ', ',', ';', '&', '}', '"', '\'']).unwrap_or(value.len()),
    };
    (end > 0).then_some(lead + end)
}

/// What stands between a name and its value.
fn lead(after: &str) -> usize {
    after.find(|letter: char| !matches!(letter, '=' | ':' | '"' | '\'' | ' ')).unwrap_or(after.len())
}

fn userinfo(after: &str) -> Option<usize> {
    let address = after.strip_prefix("://")?;
    let host = address.find(['/', '?', ' ']).unwrap_or(address.len());
    let at = address[..host].rfind('@')?;
    address[..at].contains(':').then_some("://".len() + at)
}

fn is_of_a_name(letter: char) -> bool {
    letter.is_alphanumeric() || matches!(letter, '_' | '-' | '.')
}

/// Whether the name of something tells that its value is secret: `OPENAI_API_KEY`, `auth-token`, `apiKey`.
fn is_telltale(name: &str) -> bool {
    let mut apart = String::new();
    let mut was_small = false;
    for letter in name.chars() {
        if letter.is_uppercase() && was_small {
            apart.push('-');
        }
        was_small = letter.is_lowercase();
        apart.extend(letter.to_lowercase());
    }
    apart.split(['-', '_', '.']).any(|part| SECRET.contains(&part))
}

fn is_key(word: &str) -> bool {
    word.len() >= SHORTEST_KEY && KEYS.iter().any(|start| word.starts_with(start))
}

/// As a shell would take it, on one line and not too long.
fn quoted(word: &str) -> String {
    let line: String = word.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect();
    let line = match line.char_indices().nth(LONGEST) {
        Some((at, _)) => format!("{}…", &line[..at]),
        None => line,
    };
    // It refuses nothing but NUL, which is gone.
    shlex::try_quote(&line).map(|quoted| quoted.into_owned()).unwrap_or(line)
}

#[cfg(test)]
mod tests {
    use super::readable;

    #[test]
    fn a_command_is_quoted_and_keeps_its_secrets() {
        let table: &[(&[&str], &str)] = &[
            (
                &["exec", "--json", "-c", "sandbox_mode=\"read-only\"", "-"],
                "exec --json -c 'sandbox_mode=\"read-only\"' -",
            ),
            (&["--max-tokens", "100", "--keyboard", "qwerty"], "--max-tokens 100 --keyboard qwerty"),
            (&["--api-key", "hunter2", "go"], "--api-key REDACTED go"),
            (&["--api-key=hun;ter 2"], "'--api-key=REDACTED'"),
            (&["--apiKey", "hunter2"], "--apiKey REDACTED"),
            (&["--token", "--verbose"], "--token --verbose"),
            (&["OPENAI_API_KEY=x", "DB_PASSWORD=a:b@c"], "'OPENAI_API_KEY=REDACTED' 'DB_PASSWORD=REDACTED'"),
            (&["-c", "env={API_KEY=\"a b\", HOME=\"/h\"}"], "-c 'env={API_KEY=\"REDACTED\", HOME=\"/h\"}'"),
            (&["{\"secret\": \"a b\", \"n\": 1}"], "'{\"secret\": \"REDACTED\", \"n\": 1}'"),
            (&["-H", "Authorization: Bearer abc.def"], "-H 'Authorization: REDACTED'"),
            (&["-H", "X-Auth: bearer abc"], "-H 'X-Auth: bearer REDACTED'"),
            (&["http://me:pass@host/x", "https://host/a@b"], "http://REDACTED@host/x https://host/a@b"),
            (&["http://host/?token=abc&n=1"], "'http://host/?token=REDACTED&n=1'"),
            (&["use sk-ant-api03-0123456789abcdef now"], "'use REDACTED now'"),
            (&["ghp_0123456789abcdefghij", "sk-short", "skylark"], "REDACTED sk-short skylark"),
            (&["", "it's", "a\nb\0c"], "'' \"it's\" 'a b c'"),
            (&["make the tests pass", "do: make the tests pass!"], "PROMPT 'do: PROMPT!'"),
        ];
        for (args, want) in table {
            let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
            let shown = readable("codex", &args, "make the tests pass");
            assert_eq!(shown, format!("codex {want}"));
        }
    }

    #[test]
    fn a_short_prompt_hides_nothing_but_itself() {
        let args = ["x", "exec"].map(str::to_owned);
        assert_eq!(readable("/a b/c", &args, "x"), "'/a b/c' PROMPT exec");
        assert_eq!(readable("c", &args, ""), "c x exec");
    }

    #[test]
    fn a_long_argument_is_cut() {
        let shown = readable("c", &["é".repeat(1000)], "");
        assert_eq!(shown, format!("c '{}…'", "é".repeat(160)));
    }
}
