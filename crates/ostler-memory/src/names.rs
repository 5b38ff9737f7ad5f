//! Names in programs as words: `readFileSync` is found by `read file`. What stands between `_`, `/` and `.` is a word for
//! the index anyway.

/// The parts of all `camelCase` names in a text, once each, in order.
pub fn parts(text: &str) -> String {
    let mut found: Vec<String> = Vec::new();
    for word in text.split(|letter: char| !letter.is_alphanumeric()) {
        let split = split(word);
        if split.len() > 1 {
            for part in split {
                let part = part.to_lowercase();
                if part.chars().count() > 1 && !found.contains(&part) {
                    found.push(part);
                }
            }
        }
        // A text with more names than this is a listing.
        if found.len() > 200 {
            break;
        }
    }
    found.join(" ")
}

fn split(word: &str) -> Vec<&str> {
    let letters: Vec<(usize, char)> = word.char_indices().collect();
    let mut parts = Vec::new();
    let mut begin = 0;
    for window in 1..letters.len() {
        let ((_, before), (at, letter)) = (letters[window - 1], letters[window]);
        let next_is_lower = letters.get(window + 1).is_some_and(|(_, next)| next.is_lowercase());
        let is_boundary = (before.is_lowercase() && letter.is_uppercase())
            || (before.is_uppercase() && letter.is_uppercase() && next_is_lower);
        if is_boundary {
            parts.push(&word[begin..at]);
            begin = at;
        }
    }
    parts.push(&word[begin..]);
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_split() {
        let table = [
            ("call readFileSync() now", "read file sync"),
            ("HTTPServer and parseURL", "http server parse url"),
            ("plain words only", ""),
            ("ÄpfelUndBirnen", "äpfel und birnen"),
        ];
        for (text, want) in table {
            assert_eq!(parts(text), want);
        }
    }
}
