//! Measures of many sentences, and their limits.

use crate::sentence::Sentence;
use std::fmt;

/// A sentence of more words is long.
const LONG: usize = 35;

/// Counts over sentences.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Measure {
    /// Sentences.
    pub sentences: usize,
    /// Words.
    pub words: usize,
    /// Sentences of more than 35 words.
    pub long: usize,
    /// Sentences with an odd beginning.
    pub odd: usize,
    /// Reference words.
    pub references: usize,
}

impl Measure {
    /// The measure of these sentences.
    pub fn of<'s>(sentences: impl IntoIterator<Item = &'s Sentence>) -> Measure {
        let mut measure = Measure::default();
        for sentence in sentences {
            measure.sentences += 1;
            measure.words += sentence.words;
            measure.long += usize::from(sentence.words > LONG);
            measure.odd += usize::from(sentence.odd);
            measure.references += sentence.references;
        }
        measure
    }

    /// Mean words of a sentence; 0 without a sentence.
    pub fn mean(&self) -> f64 {
        self.words as f64 / self.sentences.max(1) as f64
    }

    /// The share of long sentences, in percent.
    pub fn long_percent(&self) -> f64 {
        100.0 * self.long as f64 / self.sentences.max(1) as f64
    }

    /// The share of sentences with an odd beginning, in percent.
    pub fn odd_percent(&self) -> f64 {
        100.0 * self.odd as f64 / self.sentences.max(1) as f64
    }

    /// Reference words per 100 words.
    pub fn references_per_100(&self) -> f64 {
        100.0 * self.references as f64 / self.words.max(1) as f64
    }

    /// The limits that the measure goes beyond.
    pub fn breaches(&self, limits: &ProseLimits) -> Vec<Breach> {
        let all = [
            ("mean words a sentence", self.mean(), limits.mean),
            ("percent of sentences above 35 words", self.long_percent(), limits.long_percent),
            ("percent of sentences with an odd beginning", self.odd_percent(), limits.odd_percent),
            ("reference words per 100 words", self.references_per_100(), limits.references_per_100),
        ];
        let beyond = all.into_iter().filter(|(_, value, limit)| value > limit);
        beyond.map(|(of, value, limit)| Breach { of, value, limit }).collect()
    }
}

/// ProseLimits of a page, or of a crate's comments.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ProseLimits {
    /// Mean words of a sentence.
    pub mean: f64,
    /// Sentences of more than 35 words, in percent.
    pub long_percent: f64,
    /// Sentences with an odd beginning, in percent.
    pub odd_percent: f64,
    /// Reference words per 100 words.
    pub references_per_100: f64,
}

impl ProseLimits {
    /// The limits of pages, comments and messages.
    pub const USUAL: ProseLimits =
        ProseLimits { mean: 18.0, long_percent: 2.0, odd_percent: 3.0, references_per_100: 0.6 };

    /// The limits of notes: twice the usual ones.
    pub const NOTES: ProseLimits =
        ProseLimits { mean: 36.0, long_percent: 4.0, odd_percent: 6.0, references_per_100: 1.2 };
}

/// A limit that a measure goes beyond.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Breach {
    /// The measure.
    pub of: &'static str,
    /// Its value.
    pub value: f64,
    /// The limit.
    pub limit: f64,
}

impl fmt::Display for Breach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.3} {} (at most {})", self.value, self.of, self.limit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{markdown, sentences};

    /// The numbers of this page were counted by hand.
    #[test]
    fn a_page_measures_as_counted_by_hand() {
        let page = include_str!("counted.md");
        let all: Vec<Sentence> = markdown(page, 1).iter().flat_map(sentences).collect();
        for sentence in &all {
            println!("{} {} {}", sentence.line, sentence.words, sentence.text);
        }
        let measure = Measure::of(&all);
        assert_eq!(measure, Measure { sentences: 11, words: 112, long: 1, odd: 2, references: 4 });
        assert_eq!(measure.breaches(&ProseLimits::USUAL).len(), 3);
        assert_eq!(measure.breaches(&ProseLimits { long_percent: 10.0, ..ProseLimits::USUAL }).len(), 2);
    }
}
