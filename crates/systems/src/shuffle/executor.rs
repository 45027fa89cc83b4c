//! An executor: its sending half and its receiving half. While one half waits, the other continues.

use super::connections::{Connecting, Connections};
use super::incoming::{Incoming, TakenEntries};
use super::layout::{Full, Plan};
use super::outgoing::{Input, Outgoing, RoundEnd};
use crate::config::Seats;
use crate::device::Device;
use crate::{Interval, Measured, Phase, SystemError, work};
use doorbell_verbs::{Mem, Mr, Provider, Span, Time};
use std::ops::Range;

/// Number of entries that a sender lists between two polls for arrived entries.
const LOOK_AFTER: u64 = 64;

/// Longest time for which an executor waits for its peers' farewells. It is far longer than the time between
/// the ends of live executors.
const FAREWELL: Span = Span::from_ms(1_000);

/// Measurements, and their interval.
struct Meter {
    measured: Measured,
    interval: Interval,
}

/// An executor of a shuffle. See [`super`] for its promises.
pub struct Executor<P: Provider> {
    cpu: P,
    plan: Plan,
    device: Device<P>,
    inbox: Mr<P>,
    scratch: Mr<P>,
    outgoing: Outgoing<P>,
    incoming: Incoming<P>,
    meter: Meter,
    round: u64,
    /// The number of the last round, once it is known.
    last: Option<u64>,
    /// When the executor last saw something new while it waited.
    moved: Time,
}

impl<P: Provider> Executor<P> {
    /// Opens executor `number`. Returns when it and its peers are connected. `inboxes` has the zeroed inboxes
    /// of all executors, with [`Plan::inbox_bytes`] bytes each. Inboxes on other machines are not used.
    /// `service` is the prefix of published keys.
    ///
    /// # Errors
    /// If the device lacks resources.
    pub fn open(
        cpu: &P,
        plan: &Plan,
        seats: &Seats,
        number: u32,
        inboxes: &[Mem],
        service: &str,
    ) -> Result<Executor<P>, SystemError> {
        let Connections { device, inbox, scratch, to, from } =
            Connecting { plan, seats, number, inboxes, service }.connect(cpu)?;
        // The half of an executor that does not receive has no connections, and uses no number.
        let as_receiver = plan.as_receiver(number).unwrap_or(0);
        let meter = Meter { measured: Measured::default(), interval: Interval::endless() };
        Ok(Executor {
            outgoing: Outgoing::new(*plan, number, cpu.clone(), inbox.clone(), to),
            incoming: Incoming::new(*plan, as_receiver, cpu.clone(), inbox.clone(), from),
            cpu: cpu.clone(),
            plan: *plan,
            device,
            inbox,
            scratch,
            meter,
            round: 0,
            last: None,
            moved: cpu.now(),
        })
    }

    /// The executor's device.
    pub fn device(&self) -> &Device<P> {
        &self.device
    }

    /// From now on, measures in this interval.
    pub fn measure(&mut self, interval: Interval) {
        self.meter.interval = interval;
    }

    /// Measurements so far.
    pub fn measured(&self) -> &Measured {
        &self.meter.measured
    }

    /// Whether all rounds are over. Executor 0 decides this. Waits until it is known whether there is a next
    /// round.
    ///
    /// # Errors
    /// If the executor gives up.
    pub fn is_over(
        &mut self,
        mut sink: impl FnMut(TakenEntries) -> Result<(), SystemError>,
    ) -> Result<bool, SystemError> {
        let ready =
            Shuffling { executor: self, sink: &mut sink }.wait(|executor| Ok(executor.outgoing.may_begin()));
        self.or_give_up(ready)?;
        self.last = self.last.or(self.incoming.last).or_else(|| self.outgoing.last());
        Ok(self.last.is_some_and(|last| last < self.round))
    }

    /// Runs a round: sends the entries with the numbers `entries` of `source`, and passes arrived entries to
    /// `sink`. `rule` returns the receiver of a key. `source` must not change during the round. When executor
    /// 0 has sent all its entries, it calls `ends`, which returns whether the next round is the last. Once
    /// `ends` has returned true, it is not called again.
    ///
    /// # Errors
    /// If the executor gives up, because a verb or `sink` failed, because it saw nothing new for
    /// [`Plan::give_up`], or because another executor has given up. No further rounds are possible then.
    pub fn round(
        &mut self,
        source: &Mr<P>,
        entries: Range<u64>,
        rule: impl Fn(u64) -> u32,
        ends: impl FnOnce() -> bool,
        mut sink: impl FnMut(TakenEntries) -> Result<(), SystemError>,
    ) -> Result<(), SystemError> {
        let input = Input { mr: source, entry: self.plan.entry };
        let ended = Shuffling { executor: self, sink: &mut sink }.round(&input, entries, rule, ends);
        self.or_give_up(ended)
    }

    /// If `ended` is an error, tells all peers that this executor gives up.
    fn or_give_up<T>(&mut self, ended: Result<T, SystemError>) -> Result<T, SystemError> {
        if ended.is_err() {
            self.outgoing.give_up(&self.scratch);
            self.incoming.give_up(&self.scratch);
            self.outgoing.settle();
            self.incoming.settle();
        }
        ended
    }

    /// Ends the executor. Waits until its peers no longer need it, but at most a second. Returns its
    /// measurements.
    pub fn leave(mut self) -> Measured {
        // All rounds are complete, so a failure from now on does no harm.
        let _ = self.outgoing.bid_farewell(&self.scratch);
        let _ = self.incoming.bid_farewell(&self.scratch);
        self.outgoing.settle();
        self.incoming.settle();
        let deadline = self.cpu.now() + FAREWELL;
        while !(self.outgoing.is_left() && self.incoming.is_left()) && self.cpu.now() < deadline {
            self.cpu.pause(deadline);
        }
        self.meter.measured
    }
}

/// An executor, and the function that takes its arrived entries.
struct Shuffling<'a, P: Provider, S> {
    executor: &'a mut Executor<P>,
    sink: &'a mut S,
}

impl<P: Provider, S: FnMut(TakenEntries) -> Result<(), SystemError>> Shuffling<'_, P, S> {
    fn round(
        &mut self,
        input: &Input<'_, P>,
        entries: Range<u64>,
        rule: impl Fn(u64) -> u32,
        ends: impl FnOnce() -> bool,
    ) -> Result<(), SystemError> {
        self.wait(|executor| Ok(executor.outgoing.may_begin()))?;
        for number in entries {
            self.list(input, number, &rule)?;
            if number % LOOK_AFTER == 0 {
                self.take()?;
            }
        }
        self.flush()?;
        // Executor 0 announces the last round only once.
        let says_so = self.executor.outgoing.receivers() > 0 && self.executor.last.is_none() && ends();
        let end = if says_so { RoundEnd::NextIsLast } else { RoundEnd::MoreMayFollow };
        if says_so {
            self.executor.last = Some(self.executor.round + 1);
        }
        for receiver in 0..self.executor.outgoing.receivers() {
            self.tell(receiver, Some(end))?;
        }
        self.wait(|executor| {
            let Meter { measured, interval } = &mut executor.meter;
            Ok(executor.outgoing.has_arrived(measured, interval)? && executor.incoming.has_round())
        })?;
        self.executor.round += 1;
        self.executor.outgoing.next_round();
        self.executor.incoming.next_round(&self.executor.scratch)
    }

    /// Lists an entry for its receiver. If the entries listed for this receiver fill a batch, posts them.
    fn list(
        &mut self,
        input: &Input<'_, P>,
        number: u64,
        rule: &impl Fn(u64) -> u32,
    ) -> Result<(), SystemError> {
        let began = self.executor.cpu.now();
        let key = self.executor.cpu.load_u64(input.mr.mem(), number * u64::from(self.executor.plan.entry));
        self.executor.cpu.work(work::DESTINATION);
        let receiver = rule(key);
        if receiver >= self.executor.outgoing.receivers() {
            return Err(SystemError::Config(format!(
                "the rule names receiver {receiver}, but there is no such receiver"
            )));
        }
        let batch = u64::from(self.executor.plan.batch);
        let mut listed = self.executor.outgoing.list(receiver, input.piece(number), began);
        while listed >= batch {
            if self.executor.outgoing.room(receiver) < batch {
                if self.executor.plan.full == Full::Spill {
                    return Ok(());
                }
                self.wait(|executor| Ok(executor.outgoing.room(receiver) >= batch))?;
            }
            self.post(receiver, batch)?;
            listed = self.executor.outgoing.listed(receiver);
        }
        Ok(())
    }

    /// Posts `entries` of the entries listed for a receiver. The receiver must have room for them.
    fn post(&mut self, receiver: u32, entries: u64) -> Result<(), SystemError> {
        self.wait_for_post()?;
        let began = self.executor.cpu.now();
        let Meter { measured, interval } = &mut self.executor.meter;
        self.executor.outgoing.send(receiver, entries, (measured, interval))?;
        measured.spent(interval, Phase::Post, began, self.executor.cpu.now());
        if self.executor.outgoing.untold(receiver) >= self.executor.plan.quarter() {
            self.tell(receiver, None)?;
        }
        Ok(())
    }

    fn wait_for_post(&mut self) -> Result<(), SystemError> {
        self.wait(|executor| {
            let Meter { measured, interval } = &mut executor.meter;
            executor.outgoing.may_post(measured, interval)
        })
    }

    fn tell(&mut self, receiver: u32, end: Option<RoundEnd>) -> Result<(), SystemError> {
        self.wait_for_post()?;
        self.executor.outgoing.tell(receiver, end, &self.executor.scratch)
    }

    /// Posts all listed entries. Waits only if no receiver with listed entries has room.
    fn flush(&mut self) -> Result<(), SystemError> {
        loop {
            let mut left = false;
            let mut any = false;
            for receiver in 0..self.executor.outgoing.receivers() {
                let listed = self.executor.outgoing.listed(receiver).min(self.executor.plan.batch.into());
                if listed == 0 {
                    continue;
                }
                let entries = listed.min(self.executor.outgoing.room(receiver));
                if entries > 0 {
                    self.post(receiver, entries)?;
                    any = true;
                }
                left |= self.executor.outgoing.listed(receiver) > 0;
            }
            if !left {
                return Ok(());
            }
            if !any {
                self.wait(|executor| {
                    let mut waiting =
                        (0..executor.outgoing.receivers()).filter(|to| executor.outgoing.listed(*to) > 0);
                    Ok(waiting.any(|to| executor.outgoing.room(to) > 0))
                })?;
            }
        }
    }

    /// Takes arrived entries. Returns whether there were any.
    fn take(&mut self) -> Result<bool, SystemError> {
        let Meter { measured, interval } = &mut self.executor.meter;
        let any = self.executor.incoming.take(self.sink, (measured, interval), &self.executor.scratch)?;
        if self.executor.cpu.load_u64(self.executor.inbox.mem(), self.executor.plan.given_up()) != 0 {
            return Err(SystemError::Protocol("another executor has given up".into()));
        }
        Ok(any)
    }

    /// Waits until `until` returns true. Takes arrived entries during the wait.
    fn wait(
        &mut self,
        mut until: impl FnMut(&mut Executor<P>) -> Result<bool, SystemError>,
    ) -> Result<(), SystemError> {
        if until(self.executor)? {
            return Ok(());
        }
        self.executor.moved = self.executor.cpu.now();
        let mut idle = None;
        loop {
            let any = self.take()?;
            let ready = until(self.executor)?;
            if (any || ready)
                && let Some(since) = idle.take()
            {
                let Meter { measured, interval } = &mut self.executor.meter;
                measured.spent(interval, Phase::Wait, since, self.executor.cpu.now());
            }
            if ready {
                return Ok(());
            }
            if any {
                self.executor.moved = self.executor.cpu.now();
                continue;
            }
            let deadline = self.executor.moved + self.executor.plan.give_up;
            if self.executor.cpu.now() >= deadline {
                let (ns, round) = (self.executor.plan.give_up.as_ns(), self.executor.round);
                return Err(SystemError::Timeout(format!("saw nothing new for {ns} ns in round {round}")));
            }
            if idle.is_none() {
                idle = Some(self.executor.cpu.now());
                continue;
            }
            self.executor.cpu.pause(deadline);
        }
    }
}
