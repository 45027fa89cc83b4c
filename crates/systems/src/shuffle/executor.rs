//! An executor: both halves together, one of which goes on while the other waits.

use super::connections::{Connections, Who};
use super::incoming::{Incoming, Taken};
use super::layout::Plan;
use super::outgoing::{End, Input, Outgoing};
use crate::config::Seats;
use crate::{Interval, Measured, Phase, SystemError, work};
use doorbell_verbs::{Mem, Mr, Provider, Span, Time};
use std::ops::Range;

use super::config::Full;
use crate::device::Device;

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
            Who { plan, seats, number, inboxes, service }.connect(cpu)?;
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
        mut sink: impl FnMut(Taken) -> Result<(), SystemError>,
    ) -> Result<bool, SystemError> {
        let ready = self.wait(&mut sink, |this| Ok(this.outgoing.may_begin()));
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
        mut sink: impl FnMut(Taken) -> Result<(), SystemError>,
    ) -> Result<(), SystemError> {
        let input = Input { mr: source, entry: self.plan.entry };
        let ended = self.shuffle(&input, entries, rule, ends, &mut sink);
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

    fn shuffle(
        &mut self,
        input: &Input<'_, P>,
        entries: Range<u64>,
        rule: impl Fn(u64) -> u32,
        ends: impl FnOnce() -> bool,
        sink: &mut impl FnMut(Taken) -> Result<(), SystemError>,
    ) -> Result<(), SystemError> {
        self.wait(sink, |this| Ok(this.outgoing.may_begin()))?;
        for number in entries {
            self.list(input, number, &rule, sink)?;
            if number % LOOK_AFTER == 0 {
                self.take(sink)?;
            }
        }
        self.flush(sink)?;
        // Once it has said so, it does not say so again.
        let says_so = self.outgoing.receivers() > 0 && self.last.is_none() && ends();
        let end = if says_so { End::NextIsLast } else { End::MoreMayFollow };
        if says_so {
            self.last = Some(self.round + 1);
        }
        for receiver in 0..self.outgoing.receivers() {
            self.tell(receiver, Some(end), sink)?;
        }
        self.wait(sink, |this| {
            let Meter { measured, interval } = &mut this.meter;
            Ok(this.outgoing.has_arrived(measured, interval)? && this.incoming.has_round())
        })?;
        self.round += 1;
        self.outgoing.next_round();
        self.incoming.next_round(&self.scratch)
    }

    /// Lists an entry, and posts what is listed for its receiver, if that is enough.
    fn list(
        &mut self,
        input: &Input<'_, P>,
        number: u64,
        rule: &impl Fn(u64) -> u32,
        sink: &mut impl FnMut(Taken) -> Result<(), SystemError>,
    ) -> Result<(), SystemError> {
        let began = self.cpu.now();
        let key = self.cpu.load_u64(input.mr.mem(), number * u64::from(self.plan.entry));
        self.cpu.work(work::DESTINATION);
        let receiver = rule(key);
        if receiver >= self.outgoing.receivers() {
            return Err(SystemError::Config(format!("the rule has no receiver {receiver}")));
        }
        let batch = u64::from(self.plan.batch);
        let mut listed = self.outgoing.list(receiver, input.piece(number), began);
        while listed >= batch {
            if self.outgoing.room(receiver) < batch {
                if self.plan.full == Full::Spill {
                    return Ok(());
                }
                self.wait(sink, |this| Ok(this.outgoing.room(receiver) >= batch))?;
            }
            self.post(receiver, batch, sink)?;
            listed = self.outgoing.listed(receiver);
        }
        Ok(())
    }

    /// Posts entries that are listed for a receiver, which has room for them.
    fn post(
        &mut self,
        receiver: u32,
        entries: u64,
        sink: &mut impl FnMut(Taken) -> Result<(), SystemError>,
    ) -> Result<(), SystemError> {
        self.wait_for_post(sink)?;
        let began = self.cpu.now();
        let Meter { measured, interval } = &mut self.meter;
        self.outgoing.send(receiver, entries, (measured, interval))?;
        measured.spent(interval, Phase::Post, began, self.cpu.now());
        if self.outgoing.untold(receiver) >= self.plan.quarter() {
            self.tell(receiver, None, sink)?;
        }
        Ok(())
    }

    fn wait_for_post(
        &mut self,
        sink: &mut impl FnMut(Taken) -> Result<(), SystemError>,
    ) -> Result<(), SystemError> {
        self.wait(sink, |this| {
            let Meter { measured, interval } = &mut this.meter;
            this.outgoing.may_post(measured, interval)
        })
    }

    fn tell(
        &mut self,
        receiver: u32,
        end: Option<End>,
        sink: &mut impl FnMut(Taken) -> Result<(), SystemError>,
    ) -> Result<(), SystemError> {
        self.wait_for_post(sink)?;
        self.outgoing.tell(receiver, end, &self.scratch)
    }

    /// Posts all that is listed, whoever has room first.
    fn flush(&mut self, sink: &mut impl FnMut(Taken) -> Result<(), SystemError>) -> Result<(), SystemError> {
        loop {
            let mut left = false;
            let mut any = false;
            for receiver in 0..self.outgoing.receivers() {
                let listed = self.outgoing.listed(receiver).min(self.plan.batch.into());
                if listed == 0 {
                    continue;
                }
                let entries = listed.min(self.outgoing.room(receiver));
                if entries > 0 {
                    self.post(receiver, entries, sink)?;
                    any = true;
                }
                left |= self.outgoing.listed(receiver) > 0;
            }
            if !left {
                return Ok(());
            }
            if !any {
                self.wait(sink, |this| {
                    let mut waiting =
                        (0..this.outgoing.receivers()).filter(|to| this.outgoing.listed(*to) > 0);
                    Ok(waiting.any(|to| this.outgoing.room(to) > 0))
                })?;
            }
        }
    }

    /// Takes what has come; returns whether anything has.
    fn take(&mut self, sink: &mut impl FnMut(Taken) -> Result<(), SystemError>) -> Result<bool, SystemError> {
        let Meter { measured, interval } = &mut self.meter;
        let any = self.incoming.take(sink, (measured, interval), &self.scratch)?;
        if self.cpu.load_u64(self.inbox.mem(), self.plan.given_up()) != 0 {
            return Err(SystemError::Protocol("another executor has given up".into()));
        }
        Ok(any)
    }

    /// Waits until something is so, and takes what comes meanwhile.
    fn wait(
        &mut self,
        sink: &mut impl FnMut(Taken) -> Result<(), SystemError>,
        mut until: impl FnMut(&mut Self) -> Result<bool, SystemError>,
    ) -> Result<(), SystemError> {
        if until(self)? {
            return Ok(());
        }
        self.moved = self.cpu.now();
        let mut idle = None;
        loop {
            let any = self.take(sink)?;
            let ready = until(self)?;
            if (any || ready)
                && let Some(since) = idle.take()
            {
                let Meter { measured, interval } = &mut self.meter;
                measured.spent(interval, Phase::Wait, since, self.cpu.now());
            }
            if ready {
                return Ok(());
            }
            if any {
                self.moved = self.cpu.now();
                continue;
            }
            let deadline = self.moved + self.plan.give_up;
            if self.cpu.now() >= deadline {
                let (ns, round) = (self.plan.give_up.as_ns(), self.round);
                return Err(SystemError::Timeout(format!("saw nothing new for {ns} ns in round {round}")));
            }
            if idle.is_none() {
                idle = Some(self.cpu.now());
                continue;
            }
            self.cpu.pause(deadline);
        }
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
