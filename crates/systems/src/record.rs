//! Results of threads, as bytes that a thread can publish to another process.

use crate::{Measured, Phase, Spent, SystemError};

/// A thread's result that can be published as words.
pub trait Record: Send + Sized + 'static {
    /// The result as words.
    fn to_words(&self) -> Vec<u64>;

    /// Decodes a result; `None` if the words have another type.
    fn from_words(words: &[u64]) -> Option<Self>;
}

impl Record for u64 {
    fn to_words(&self) -> Vec<u64> {
        vec![*self]
    }

    fn from_words(words: &[u64]) -> Option<u64> {
        let &[word] = words else { return None };
        Some(word)
    }
}

impl Record for Measured {
    /// Counts, the sum of latencies, phases, then each latency with its number of occurrences.
    fn to_words(&self) -> Vec<u64> {
        let Measured { done, replies, posts, again, missed, header_only, latency, phases } = self;
        let counts = [*done, *replies, *posts, *again, *missed, *header_only, latency.sum()];
        let latency = latency.histogram();
        let seen = latency.iter_recorded();
        let seen = seen.flat_map(|seen| [seen.value_iterated_to(), seen.count_since_last_iteration()]);
        let phases = phases.iter().flat_map(|spent| [spent.times, spent.picoseconds]);
        counts.into_iter().chain(phases).chain(seen).collect()
    }

    fn from_words(words: &[u64]) -> Option<Measured> {
        let (&[done, replies, posts, again, missed, header_only, sum], rest) = words.split_first_chunk()?;
        let (phases, seen) = rest.split_first_chunk::<{ 2 * Phase::ALL.len() }>()?;
        let mut measured =
            Measured { done, replies, posts, again, missed, header_only, ..Measured::default() };
        for (spent, [times, picoseconds]) in measured.phases.iter_mut().zip(phases.as_chunks().0) {
            *spent = Spent { times: *times, picoseconds: *picoseconds };
        }
        measured.latency.add_to_sum(sum);
        let (pairs, []) = seen.as_chunks() else { return None };
        for &[value, count] in pairs {
            measured.latency.record_n(value, u32::try_from(count).ok()?)?;
        }
        Some(measured)
    }
}

/// A result as bytes: a 1 and the words of the result, or a 0 and the text of the error.
pub(crate) fn to_bytes<R: Record>(result: Result<R, SystemError>) -> Vec<u8> {
    match result {
        Ok(record) => {
            let words = record.to_words();
            std::iter::once(1).chain(words.iter().flat_map(|word| word.to_le_bytes())).collect()
        }
        Err(error) => std::iter::once(0).chain(error.to_string().into_bytes()).collect(),
    }
}

pub(crate) fn from_bytes<R: Record>(bytes: &[u8]) -> Result<R, String> {
    match bytes.split_first() {
        Some((1, rest)) => {
            let words: Vec<u64> = rest.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word)).collect();
            R::from_words(&words).ok_or_else(|| "its result is not of the expected type".into())
        }
        Some((_, text)) => Err(String::from_utf8_lossy(text).into_owned()),
        None => Err("it returned no result".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use doorbell_verbs::Span;

    #[test]
    fn what_is_published_is_what_was_measured() {
        let mut measured = Measured { done: 7, replies: 8, again: 9, ..Measured::default() };
        measured.phases[2] = Spent { times: 3, picoseconds: 4 };
        for ns in [100, 100, 2500, 9_000_000] {
            measured.latency.record(Span::from_ps(ns * 1000 + 9));
        }
        let again: Measured = from_bytes(&to_bytes(Ok(measured.clone()))).unwrap();
        assert_eq!(again.phases, measured.phases);
        assert_eq!((again.done, again.replies, again.again), (7, 8, 9));
        assert_eq!(again.latency.sum(), measured.latency.sum());
        let (read, said) = (again.latency.histogram(), measured.latency.histogram());
        for q in [0.1, 0.5, 0.75, 1.0] {
            assert_eq!(read.value_at_quantile(q), said.value_at_quantile(q));
        }
        let error = SystemError::Protocol("no".into());
        assert_eq!(from_bytes::<u64>(&to_bytes::<u64>(Err(error))), Err("no".into()));
        assert!(from_bytes::<u64>(&to_bytes(Ok(measured))).is_err());
        assert!(from_bytes::<u64>(&[]).is_err());
    }
}
