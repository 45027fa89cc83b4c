//! An executor: both halves together, one of which goes on while the other waits.

use super::connections::{Connecting, Connections};
use super::incoming::{Incoming, TakenEntries};
use super::layout::{Full, Plan};
use super::outgoing::{Input, Outgoing, RoundEnd};
use crate::config::Seats;
use crate::device::Device;
use crate::{Interval, Measured, Phase, SystemError, work};
use doorbell_verbs::{Mem, Mr, Provider, Span, Time};
use std::ops::Range;

/// Entries that a sender lists before it looks at what has come.
const LOOK_AFTER: u64 = 64;

/// How long one waits for the farewells of others: by far longer than they end one after the other.
const FAREWELL: Span = Span::from_ms(1_000);

/// What is measured, from when to when.
struct Meter {
    measured: Measured,
    interval: Interval,
}

/// One of those that shuffle: see [`super`] for what is promised.
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
    /// The round that is the last, once that is known.
    last: Option<u64>,
    /// When something new was seen last.
    moved: Time,
}

impl<P: Provider> Executor<P> {
    /// Executor `number`, connected with all others: returns when they are, too. `inboxes` are those of all executors, of [`Plan::inbox_bytes`], zeroed;
    /// those of other machines are not used. What is published is below `service`.
    ///
    /// # Errors
    /// If the device has not what it takes.
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

    /// Its device.
    pub fn device(&self) -> &Device<P> {
        &self.device
    }

    /// Measures during an interval, from now on.
    pub fn measure(&mut self, interval: Interval) {
        self.meter.interval = interval;
    }

    /// What it measured.
    pub fn measured(&self) -> &Measured {
        &self.meter.measured
    }

    /// Whether all rounds are over, as executor 0 has said. Waits until that is known of the next one.
    ///
    /// # Errors
    /// If it gives up.
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

    /// A round, in which it sends these entries of `source`, which must not change meanwhile, to the receivers that `rule` says by their keys, and has `sink` take what
    /// comes. As executor 0 it asks `ends` when it has sent all, until that is so: whether the next round is to be the last.
    ///
    /// # Errors
    /// If it gives up: a verb failed, `sink` says so, nothing new was seen for [`Plan::give_up`], or another executor has given up. There are no further
    /// rounds then.
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

    /// Tells all others that it gives up, where it does.
    fn or_give_up<T>(&mut self, ended: Result<T, SystemError>) -> Result<T, SystemError> {
        if ended.is_err() {
            self.outgoing.give_up(&self.scratch);
            self.incoming.give_up(&self.scratch);
            self.outgoing.settle();
            self.incoming.settle();
        }
        ended
    }

    /// Ends it: waits until no other needs it any more, or, for those that are gone, for a second.
    pub fn leave(mut self) -> Measured {
        // All rounds are whole: what goes wrong from now on harms nobody.
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

/// An executor, and the function that takes the entries that come for it.
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
        // Once it has said so, it does not say so again.
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

    /// Lists an entry, and posts what is listed for its receiver, if that is enough.
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
            return Err(SystemError::Config(format!("the rule has no receiver {receiver}")));
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

    /// Posts entries that are listed for a receiver, which has room for them.
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

    /// Posts all that is listed, whoever has room first.
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

    /// Takes what has come; returns whether anything has.
    fn take(&mut self) -> Result<bool, SystemError> {
        let Meter { measured, interval } = &mut self.executor.meter;
        let any = self.executor.incoming.take(self.sink, (measured, interval), &self.executor.scratch)?;
        if self.executor.cpu.load_u64(self.executor.inbox.mem(), self.executor.plan.given_up()) != 0 {
            return Err(SystemError::Protocol("another executor has given up".into()));
        }
        Ok(any)
    }

    /// Waits until something is so, and takes what comes meanwhile.
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
