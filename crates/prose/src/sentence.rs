//! Sentences of a passage.

use crate::passage::{CODE, Form, Passage};
use crate::verbs::has_verb;

/// A sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sentence {
    /// The line of the source where it begins.
    pub line: usize,
    /// The text.
    pub text: String,
    /// Words that hold a letter or a digit.
    pub words: usize,
    /// Whether it begins with a word of `ODD_BEGINNINGS`.
    pub odd: bool,
    /// Reference words in it: `REFERENCES` and `REFERENCE_PAIRS`.
    pub references: usize,
}

/// First words of a sentence that count as an odd beginning.
const ODD_BEGINNINGS: [&str; 6] = ["what", "who", "which", "of", "where", "whose"];

/// Words that point at a thing instead of naming it.
const REFERENCES: [&str; 5] = ["what", "who", "whom", "whose", "others"];

/// Pairs of words that point at a thing instead of naming it.
const REFERENCE_PAIRS: [(&str, &str); 5] =
    [("that", "of"), ("those", "of"), ("of", "which"), ("of", "that"), ("the", "same")];

/// Abbreviations that end with a full stop inside a sentence.
const ABBREVIATIONS: [&str; 5] = ["e.g", "i.e", "vs", "cf", "al"];

/// Words that are abbreviations only before a number.
const OF_NUMBERS: [&str; 5] = ["fig", "sec", "no", "approx", "p"];

/// A fragment of more words is a sentence even without a known verb.
const LONGEST_FRAGMENT: usize = 12;

/// The sentences of a passage. A full stop, a question mark or an exclamation mark ends a sentence if a
/// capital, a digit, inline code or the passage's end follows. A colon or a semicolon ends no sentence.
pub fn sentences(passage: &Passage) -> Vec<Sentence> {
    let mut all = Vec::new();
    let mut begin = 0;
    for (at, c) in passage.text.char_indices() {
        if matches!(c, '.' | '?' | '!') && ends_here(&passage.text[begin..at], &passage.text[at + 1..]) {
            all.extend(sentence(passage, begin, at + 1));
            begin = at + 1;
        }
    }
    all.extend(sentence(passage, begin, passage.text.len()));
    all
}

/// Whether a full stop between these texts ends a sentence.
fn ends_here(before: &str, behind: &str) -> bool {
    let closed = behind.trim_start_matches(['"', '\'', ')', ']', '”', '’']);
    let Some(next) = closed.trim_start().chars().next() else { return true };
    let last = before.rsplit([' ', '(']).next().unwrap_or_default().to_lowercase();
    closed.starts_with([' ', '\n'])
        && !ABBREVIATIONS.contains(&&*last)
        && !(OF_NUMBERS.contains(&&*last) && next.is_ascii_digit())
        && (next == CODE || !next.is_lowercase())
}

/// The words of a text. A word has a letter or a digit.
pub(crate) fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split([' ', '\n', '\t']).filter(|word| word.contains(char::is_alphanumeric))
}

fn sentence(passage: &Passage, begin: usize, end: usize) -> Option<Sentence> {
    let text = passage.text[begin..end].trim_start_matches(['"', '\'', ')', ']', '”', '’', ' ']);
    let from = end - text.len();
    let words: Vec<String> = words(text).map(bare).collect();
    let spoken = || words.iter().map(String::as_str);
    let is_fragment = passage.form == Form::Label && words.len() <= LONGEST_FRAGMENT && !has_verb(spoken());
    if words.is_empty() || is_fragment {
        return None;
    }
    let pairs = words.windows(2).filter(|pair| REFERENCE_PAIRS.contains(&(&*pair[0], &*pair[1])));
    let references = spoken().filter(|word| REFERENCES.contains(word)).count() + pairs.count();
    Some(Sentence {
        line: passage.line(from),
        text: text.trim().replace(CODE, ""),
        words: words.len(),
        odd: ODD_BEGINNINGS.contains(&&*words[0]),
        references,
    })
}

/// A word in lower case without the punctuation around it. Inline code keeps its mark, so that it equals no
/// word.
fn bare(word: &str) -> String {
    let trimmed = word.trim_matches(|c: char| !c.is_alphanumeric() && c != CODE);
    trimmed.to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::markdown::markdown;

    fn of(text: &str) -> Vec<(String, usize)> {
        let passages = markdown(text, 1);
        passages.iter().flat_map(sentences).map(|sentence| (sentence.text, sentence.words)).collect()
    }

    #[test]
    fn a_sentence_ends_where_one_ends() {
        let text = "One is 1.5 GB, e.g. here; two: `a. B` (see p. 3). \"Three?\" `four` is code. Five";
        let all: Vec<String> = of(text).into_iter().map(|(text, _)| text).collect();
        assert_eq!(
            all,
            ["One is 1.5 GB, e.g. here; two: a.\u{a0}B (see p. 3).", "Three?", "four is code.", "Five"]
        );
    }

    #[test]
    fn an_abbreviation_of_numbers_ends_a_sentence_before_words() {
        assert_eq!(of("The answer is no. It is wrong. Sizes, rates etc. The rest is fine.").len(), 4);
        assert_eq!(of("See no. 3 and p. 4. Yes.").len(), 2);
    }

    #[test]
    fn fragments_of_labels_are_left_out() {
        assert_eq!(of("- rate of READs\n- It is fast.\n- Run it\n").len(), 2);
        assert_eq!(of("| 1.5 | Mops per thread |\n|---|---|\n| 2 | a cell has a verb |\n").len(), 1);
        let long = "- one two three four five six seven eight nine ten eleven twelve thirteen\n";
        assert_eq!(of(long), [(long[2..].trim().to_owned(), 13)]);
    }

    #[test]
    fn references_and_beginnings_are_counted() {
        let passages = markdown("What it holds is that of others. The same. `what` of, which.", 1);
        let all: Vec<(bool, usize)> =
            passages.iter().flat_map(sentences).map(|s| (s.odd, s.references)).collect();
        assert_eq!(all, [(true, 3), (false, 1), (false, 1)]);
    }
}
