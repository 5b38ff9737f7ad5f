//! Texts as the numbers of pieces of words, as BERT's uncased models were trained with: small letters without accents,
//! punctuation apart, then the longest pieces that the vocabulary has.

use std::collections::HashMap;

use icu_normalizer::DecomposingNormalizerBorrowed;
use icu_normalizer::properties::CanonicalCombiningClassMapBorrowed;

use super::EmbedError;

/// A word with more letters is not in any vocabulary.
const LONGEST_WORD: usize = 100;

/// The pieces, each with its number.
#[derive(Debug)]
pub struct Vocabulary {
    pieces: HashMap<String, i32>,
    begin: i32,
    end: i32,
    unknown: i32,
}

impl Vocabulary {
    /// Reads one: a piece a line, its number is that of its line from 0.
    pub fn parse(text: &str) -> Result<Self, EmbedError> {
        let pieces: HashMap<String, i32> =
            text.lines().zip(0..).map(|(piece, number)| (piece.trim_end().to_owned(), number)).collect();
        let number = |piece: &'static str| pieces.get(piece).copied().ok_or(EmbedError::Vocabulary(piece));
        Ok(Self { begin: number("[CLS]")?, end: number("[SEP]")?, unknown: number("[UNK]")?, pieces })
    }

    /// The pieces of a text, at most so many.
    pub fn pieces(&self, text: &str, most: usize) -> Vec<i32> {
        let mut found = Vec::new();
        let mut word = String::new();
        let accents = CanonicalCombiningClassMapBorrowed::new();
        let letters = text.chars().flat_map(char::to_lowercase);
        for letter in DecomposingNormalizerBorrowed::new_nfd().normalize_iter(letters) {
            if found.len() >= most {
                break;
            }
            if letter.is_whitespace() {
                self.end_word(&mut word, &mut found);
            } else if stands_alone(letter) {
                self.end_word(&mut word, &mut found);
                word.push(letter);
                self.end_word(&mut word, &mut found);
            } else if !letter.is_control() && letter != '\u{fffd}' && accents.get_u8(letter) == 0 {
                word.push(letter);
            }
        }
        self.end_word(&mut word, &mut found);
        found.truncate(most);
        found
    }

    /// Pieces as the model wants them: between the numbers for begin and end.
    pub fn framed(&self, pieces: &[i32]) -> Vec<i32> {
        let mut framed = Vec::with_capacity(pieces.len() + 2);
        framed.push(self.begin);
        framed.extend_from_slice(pieces);
        framed.push(self.end);
        framed
    }

    fn end_word(&self, word: &mut String, found: &mut Vec<i32>) {
        if word.is_empty() {
            return;
        }
        match self.split(word) {
            Some(pieces) => found.extend(pieces),
            None => found.push(self.unknown),
        }
        word.clear();
    }

    /// The longest piece first, then the longest that goes on from there; nothing if some part is in no piece.
    fn split(&self, word: &str) -> Option<Vec<i32>> {
        let ends: Vec<usize> =
            word.char_indices().map(|(at, letter)| at + letter.len_utf8()).take(LONGEST_WORD + 1).collect();
        if ends.len() > LONGEST_WORD {
            return None;
        }
        let (mut begin, mut pieces) = (0, Vec::new());
        while begin < word.len() {
            let longest = ends.iter().rev().take_while(|end| **end > begin).find_map(|end| {
                let part = &word[begin..*end];
                let number = match begin {
                    0 => self.pieces.get(part),
                    _ => self.pieces.get(&format!("##{part}")),
                };
                number.map(|number| (*end, *number))
            });
            let (end, number) = longest?;
            pieces.push(number);
            begin = end;
        }
        Some(pieces)
    }
}

/// Punctuation, and letters of scripts that put no spaces between words.
fn stands_alone(letter: char) -> bool {
    letter.is_ascii_punctuation()
        || matches!(letter,
            '¡' | '§' | '«' | '¶' | '·' | '»' | '¿'
            | '\u{2010}'..='\u{2027}' | '\u{2030}'..='\u{205e}' | '\u{3001}'..='\u{3003}' | '\u{3008}'..='\u{3011}'
            | '\u{3014}'..='\u{301f}' | '\u{ff01}'..='\u{ff0f}' | '\u{ff1a}'..='\u{ff20}' | '\u{ff3b}'..='\u{ff40}'
            | '\u{ff5b}'..='\u{ff65}'
            | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{2fa1f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: &str = "[PAD]\n[UNK]\n[CLS]\n[SEP]\nun\n##aff\n##able\nretry\n,\n(\n)\ncafe\n中\n文\n##s\n";

    #[test]
    fn texts_become_pieces() {
        let vocabulary = Vocabulary::parse(SMALL).unwrap();
        let table: [(&str, &[i32]); 9] = [
            ("unaffable", &[4, 5, 6]),
            ("Retrys, RETRY(", &[7, 14, 8, 7, 9]),
            ("Café", &[11]),
            ("中文", &[12, 13]),
            ("retry\0\u{fffd}s", &[7, 14]),
            ("what", &[1]),
            (" \n\t", &[]),
            ("", &[]),
            (&"x".repeat(500), &[1]),
        ];
        for (text, want) in table {
            assert_eq!(vocabulary.pieces(text, 100), want, "{text}");
        }
        assert_eq!(vocabulary.pieces("unaffable unaffable", 4), [4, 5, 6, 4]);
        assert_eq!(vocabulary.framed(&[7]), [2, 7, 3]);
    }

    #[test]
    fn a_vocabulary_without_its_frame_is_refused() {
        assert!(matches!(Vocabulary::parse("a\nb"), Err(EmbedError::Vocabulary("[CLS]"))));
    }
}
