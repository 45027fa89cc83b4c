//! The senders' *lead* over receivers, on transports without acknowledgements: the work that has completed
//! for the sender and is not in the receiver's memory yet ([`Ahead`]).
//!
//! Operations of unreliable transports complete when they are sent. As long as buffers on the path have room,
//! more operations complete than arrive, and the lead grows. The rate of completions then looks steady, but
//! drops once the buffers are full. Confidence intervals do not show this.

use doorbell_sim::Ahead;
use doorbell_verbs::Time;

/// With this many samples or more, the last third of the samples is compared with the first third. So a
/// fluctuating level does not count as a rise.
const MANY: usize = 6;

/// Samples of the lead, in order of time.
#[derive(Clone, Debug, Default)]
pub(super) struct Lead(Vec<(Time, Ahead)>);

impl Lead {
    pub(super) fn saw(&mut self, now: Time, ahead: Ahead) {
        self.0.push((now, ahead));
    }

    pub(super) fn forget(&mut self) {
        self.0.clear();
    }

    /// Growth of the lead between the last two samples, divided by the operations that ended between them;
    /// `None` with fewer than two samples.
    pub(super) fn lately(&self) -> Option<f64> {
        grown(&self.0[self.0.len().checked_sub(2)?..])
    }

    /// Growth of the lead from the first sample to the last, divided by the operations that ended between
    /// them; `None` with fewer than two samples.
    pub(super) fn grown(&self) -> Option<f64> {
        grown(&self.0)
    }
}

fn grown(samples: &[(Time, Ahead)]) -> Option<f64> {
    let [(begin, first), .., (end, last)] = samples else { return None };
    let messages =
        rise(samples, |ahead| ahead.messages) / last.ended.saturating_sub(first.ended).max(1) as f64;
    let writes = rise(samples, |ahead| ahead.writes.as_ps()) / (*end - *begin).as_ps().max(1) as f64;
    Some(messages + writes)
}

/// Rise of a level. With many samples, the rise is extrapolated from a difference: the minimum of the last
/// third of the samples, less the maximum of the first third. So a level that only fluctuates does not rise.
fn rise(samples: &[(Time, Ahead)], level: impl Fn(&Ahead) -> u64) -> f64 {
    let levels: Vec<u64> = samples.iter().map(|(_, ahead)| level(ahead)).collect();
    let third = if levels.len() < MANY { 1 } else { levels.len() / 3 };
    let before = levels[..third].iter().max().copied().unwrap_or(0);
    let after = levels[levels.len() - third..].iter().min().copied().unwrap_or(0);
    let way = (levels.len() - 1) as f64 / (levels.len() + 1 - 2 * third) as f64;
    after.saturating_sub(before) as f64 * way
}

#[cfg(test)]
mod tests {
    use super::*;
    use doorbell_verbs::Span;

    fn lead(levels: &[u64]) -> Lead {
        let mut lead = Lead::default();
        for (n, messages) in (0..).zip(levels) {
            let ahead = Ahead { ended: n * 1000, messages: *messages, writes: Span::ZERO };
            lead.saw(Time::START + Span::from_us(n), ahead);
        }
        lead
    }

    #[test]
    fn what_grows_is_told_as_a_part_of_what_ended() {
        assert_eq!(lead(&[5]).grown(), None);
        assert_eq!(lead(&[5, 25]).grown(), Some(0.02));
        assert_eq!(lead(&[25, 5]).grown(), Some(0.0));
        assert_eq!(lead(&[0, 500, 520]).lately(), Some(0.02));
        let line: Vec<u64> = (0..9).map(|n| 20 * n).collect();
        let grown = lead(&line).grown().unwrap();
        assert!((grown - 0.02).abs() < 1e-12, "{grown}");
    }

    #[test]
    fn what_goes_up_and_down_does_not_grow() {
        assert_eq!(lead(&[3, 40, 10, 33, 12, 40, 3, 40, 39]).grown(), Some(0.0));
    }

    #[test]
    fn writes_that_wait_for_the_link_count_as_the_time_they_take() {
        let mut lead = Lead::default();
        lead.saw(Time::START, Ahead::default());
        lead.saw(Time::START + Span::from_us(100), Ahead { writes: Span::from_us(1), ..Ahead::default() });
        assert_eq!(lead.grown(), Some(0.01));
    }
}
