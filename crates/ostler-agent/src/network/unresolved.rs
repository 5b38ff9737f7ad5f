//! Names that a program could not resolve, found in what it printed.

/// What programs print before such a name, in lower case.
const BEFORE: [&str; 8] = [
    "could not resolve host: ",
    "could not resolve hostname ",
    "unable to resolve host address ",
    "getaddrinfo enotfound ",
    "getaddrinfo eai_again ",
    "failed to lookup address information: ",
    "failed to resolve '",
    "lookup ",
];

/// The longest text that is read. What a tool prints may be anything.
const LONGEST_TEXT: usize = 64 * 1024;

/// The most names that are found in one text.
const MOST: usize = 16;

/// The names that a program looked for in vain.
pub fn find_unresolved(text: &str) -> Vec<&str> {
    let end = (0..=LONGEST_TEXT.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    let mut found = Vec::new();
    for line in text[..end].lines() {
        // The same length, so that places are the same.
        let lower = line.to_ascii_lowercase();
        for before in BEFORE {
            let Some(at) = lower.find(before) else { continue };
            let rest = line[at + before.len()..].trim_start_matches(['\'', '"', '‘', '`']);
            let is_letter = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
            let name =
                rest.split(|letter| !is_letter(letter)).next().unwrap_or_default().trim_end_matches('.');
            if name.contains('.') && !found.contains(&name) && found.len() < MOST {
                found.push(name);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_of_real_programs_name_the_host() {
        let table = [
            ("curl: (6) Could not resolve host: example.com", "example.com"),
            (
                "ssh: Could not resolve hostname git.example.com: Temporary failure in name resolution",
                "git.example.com",
            ),
            ("wget: unable to resolve host address ‘a.example’", "a.example"),
            (
                "npm error network request to https://r.example/x failed, reason: getaddrinfo ENOTFOUND r.example",
                "r.example",
            ),
            ("npm error errno EAI_AGAIN getaddrinfo EAI_AGAIN r.example", "r.example"),
            ("dial tcp: lookup proxy.golang.org on [::1]:53: connection refused", "proxy.golang.org"),
            (
                "NameResolutionError(\"... Failed to resolve 'pypi.example' ([Errno -3] Temporary failure)\")",
                "pypi.example",
            ),
        ];
        for (text, want) in table {
            assert_eq!(find_unresolved(text), [want], "{text}");
        }
        assert!(find_unresolved("lookup table built; could not resolve host: x").is_empty());
    }
}
