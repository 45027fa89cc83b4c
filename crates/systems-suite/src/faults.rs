//! Faults that a layer can inject on any provider.

use crate::kill::{Death, Kill, VisibleStep};
use crate::layer::Layer;
use doorbell_verbs::{
    CqHandle, Mem, Opcode, PostError, Provider, QpCap, QpHandle, QpInitAttr, QpType, RemoteAddr, SendFlags,
    SendOp, SendWr, Sge, Span, Time, VerbsError, Wc,
};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::rc::Rc;

/// The faults to inject.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// UC and UD messages per million that never leave, of the messages that ask for no completion. To both
    /// sides it is as if the fabric had lost them.
    pub loss_ppm: u32,
    /// Span for which a server's thread stops in the middle of each longer store and before each 64-bit
    /// store, like a thread that loses its processor to another. WRITEs are placed in two parts, this span
    /// apart, as by a device that copies: RC WRITEs halfway, UC WRITEs before the last four bytes. The fabric
    /// must not lose anything then, because one part must not arrive without the other.
    pub hesitation: Option<Span>,
    /// Span after which the device comes to a part of a UC WRITE, and reads it only then. The parts are the
    /// request and its last four bytes. A WRITE takes two messages, so the fabric must not lose anything.
    pub late: Option<Span>,
    /// Clients stop now and then.
    pub stop: Option<Stop>,
    /// One WRITE leaves late.
    pub late_write: Option<LateWrite>,
    /// READs of a list are posted apart.
    pub apart: Option<Apart>,
    /// Clients are killed.
    pub kill: Option<Kill>,
    /// Seed of the losses, and of the points at which clients stop or are killed.
    pub seed: u64,
}

/// A client stops before one in `one_in` of its posts, compare-and-swaps and 64-bit stores, like a thread
/// that loses its processor to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stop {
    /// A stop comes once in this many steps.
    pub one_in: u32,
    /// Duration of a stop.
    pub span: Span,
}

/// A list of a client with a WRITE is held back. To others, the WRITE seems to be on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LateWrite {
    /// The client.
    pub client: u32,
    /// Number of the list among the client's lists with a WRITE, from 0.
    pub number: u32,
    /// How long the list is held back.
    pub span: Span,
}

/// A client posts the READs of a list apart, so that much may be written in between.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Apart {
    /// The client.
    pub client: u32,
    /// Span between two READs.
    pub span: Span,
}

/// A part of a WRITE that waits for the device.
struct Late {
    qp: QpHandle,
    wr_id: u64,
    remote: RemoteAddr,
    sge: Sge,
    flags: SendFlags,
}

/// A thread's faults.
#[derive(Clone)]
pub(crate) struct Faulty(Rc<Inner>);

struct Inner {
    faults: Faults,
    /// For stores.
    hesitation: Option<Span>,
    /// For clients.
    stop: Option<Stop>,
    /// The list with a WRITE that is late, if it is still to come.
    late_write: Cell<Option<LateWrite>>,
    /// Span between the READs of a list.
    apart: Option<Span>,
    death: Option<Death>,
    random: RefCell<Xoshiro256PlusPlus>,
    transports: RefCell<HashMap<QpHandle, QpType>>,
    late: RefCell<VecDeque<Late>>,
    /// When the device comes to the next part.
    due: Cell<Time>,
}

impl Faulty {
    fn new(faults: Faults, hesitation: Option<Span>, (client, stream): (Option<u32>, u64)) -> Faulty {
        let stop = faults.stop.filter(|_| client.is_some());
        let late_write = Cell::new(faults.late_write.filter(|late| Some(late.client) == client));
        let apart = faults.apart.filter(|apart| Some(apart.client) == client).map(|apart| apart.span);
        let random = RefCell::new(Xoshiro256PlusPlus::seed_from_u64(faults.seed ^ stream << 32));
        let (transports, late) = Default::default();
        let (due, death) = (Cell::new(Time::START), Death::of(faults.kill, faults.seed, client));
        Faulty(Rc::new(Inner {
            faults,
            hesitation,
            stop,
            late_write,
            apart,
            death,
            random,
            transports,
            late,
            due,
        }))
    }

    pub(crate) fn server(faults: Faults, thread: u32) -> Faulty {
        Faulty::new(faults, faults.hesitation, (None, u64::from(thread) << 1))
    }

    pub(crate) fn client(faults: Faults, number: u32) -> Faulty {
        Faulty::new(faults, None, (Some(number), u64::from(number) << 1 | 1))
    }

    /// Stops a client, if it is its turn.
    fn stop<P: Provider>(&self, below: &P) {
        let Some(Stop { one_in, span }) = self.0.stop else { return };
        if self.0.random.borrow_mut().next_u64().is_multiple_of(one_in.into()) {
            hesitate(below, Some(span));
        }
    }

    /// Comes to a step that others may observe. The client may be killed before it.
    fn step<P: Provider>(&self, below: &P, step: VisibleStep<'_>) {
        let qps = || {
            let mut all: Vec<QpHandle> = self.0.transports.borrow().keys().copied().collect();
            all.sort_unstable_by_key(|qp| qp.0);
            all
        };
        if let Some(death) = &self.0.death {
            death.step(below, step, qps);
        }
    }

    /// Posts requests one by one, and RC WRITEs in two parts. The client may be killed before each.
    fn post_step_by_step<P: Provider>(
        &self,
        below: &P,
        qp: QpHandle,
        list: &[SendWr<'_>],
        reliable: bool,
    ) -> Result<(), PostError> {
        for (index, wr) in list.iter().enumerate() {
            self.step(below, VisibleStep::Post(list, index));
            let posted = match parts(wr, true).filter(|_| reliable) {
                Some((sges, remotes)) => {
                    let flags = wr.flags - SendFlags::SIGNALED;
                    let front = SendWr { op: SendOp::Write(remotes[0]), sg_list: &sges[..1], flags, ..*wr };
                    let back = SendWr { op: SendOp::Write(remotes[1]), sg_list: &sges[1..], ..*wr };
                    below.post_send(qp, &[front]).and_then(|()| {
                        self.step(below, VisibleStep::Half(list, index));
                        below.post_send(qp, &[back])
                    })
                }
                None => below.post_send(qp, &[*wr]),
            };
            posted.map_err(|error| PostError { index, ..error })?;
        }
        Ok(())
    }

    /// Holds a list back, if it is the late one.
    fn hold_back<P: Provider>(&self, below: &P, list: &[SendWr<'_>]) {
        let Some(late) = self.0.late_write.get() else { return };
        if list.iter().all(|wr| wr.op.opcode() != Opcode::Write) {
            return;
        }
        self.0.late_write.set(late.number.checked_sub(1).map(|number| LateWrite { number, ..late }));
        if late.number == 0 {
            hesitate(below, Some(late.span));
        }
    }

    fn loses(&self) -> bool {
        self.0.random.borrow_mut().next_u64() % 1_000_000 < u64::from(self.0.faults.loss_ppm)
    }

    fn post_without_the_lost<P: Provider>(
        &self,
        below: &P,
        qp: QpHandle,
        list: &[SendWr<'_>],
    ) -> Result<(), PostError> {
        let leaves = |wr: &&SendWr<'_>| wr.flags.contains(SendFlags::SIGNALED) || !self.loses();
        let left: Vec<SendWr<'_>> = list.iter().filter(leaves).copied().collect();
        if left.is_empty() { Ok(()) } else { below.post_send(qp, &left) }
    }

    /// Posts the next part of a WRITE, if there is one.
    fn next_part<P: Provider>(&self, below: &P) -> Result<bool, PostError> {
        let Some(late) = self.0.late.borrow_mut().pop_front() else { return Ok(false) };
        let wr = SendWr::new(late.wr_id, SendOp::Write(late.remote), std::slice::from_ref(&late.sge));
        below.post_send(late.qp, &[wr.flags(late.flags)])?;
        Ok(true)
    }

    fn post_late<P: Provider>(&self, below: &P, qp: QpHandle, list: &[SendWr<'_>]) -> Result<(), PostError> {
        for (index, wr) in list.iter().enumerate() {
            // Inline bytes are read at the post, so such a WRITE does not wait. For the word by which a
            // client says that it repeats a request, this makes no difference.
            let waits = !wr.flags.contains(SendFlags::INLINE) || wr.length() == 8;
            match parts(wr, false).filter(|_| waits) {
                Some(([front, back], [near, far])) => {
                    let (wr_id, quiet) = (wr.wr_id, wr.flags - SendFlags::SIGNALED);
                    let parts = [(front, near, quiet), (back, far, wr.flags)];
                    let late = parts.map(|(sge, remote, flags)| Late { qp, wr_id, remote, sge, flags });
                    self.0.late.borrow_mut().extend(late);
                }
                // This request goes after all earlier posts.
                None => {
                    while self.next_part(below)? {}
                    below.post_send(qp, &[*wr]).map_err(|error| PostError { index, ..error })?;
                }
            }
        }
        Ok(())
    }
}

/// Pauses for a span. Only a pass that does something hesitates, and such a pass does not end with a pause of
/// its own.
fn hesitate<P: Provider>(below: &P, span: Option<Span>) {
    let Some(span) = span else { return };
    let until = below.now() + span;
    while below.now() < until {
        below.pause(until);
    }
}

/// The two parts of a WRITE that is long enough.
fn parts(wr: &SendWr<'_>, reliable: bool) -> Option<([Sge; 2], [RemoteAddr; 2])> {
    let (SendOp::Write(remote), &[sge]) = (wr.op, wr.sg_list) else { return None };
    let front = if reliable { sge.length / 2 / 8 * 8 } else { sge.length.saturating_sub(4) };
    let back = Sge { addr: sge.addr + u64::from(front), length: sge.length - front, ..sge };
    (front > 0).then_some(([Sge { length: front, ..sge }, back], [remote, remote.at(front.into())]))
}

/// Posts requests one by one, with this span in between.
fn post_apart<P: Provider>(
    below: &P,
    qp: QpHandle,
    list: &[SendWr<'_>],
    apart: Option<Span>,
) -> Result<(), PostError> {
    for (index, wr) in list.iter().enumerate() {
        if index > 0 {
            hesitate(below, apart);
        }
        below.post_send(qp, &[*wr]).map_err(|error| PostError { index, ..error })?;
    }
    Ok(())
}

/// Posts requests one by one, and WRITEs in two parts.
fn post_in_parts<P: Provider>(
    below: &P,
    qp: QpHandle,
    list: &[SendWr<'_>],
    (span, reliable): (Span, bool),
) -> Result<(), PostError> {
    for (index, wr) in list.iter().enumerate() {
        let posted = match parts(wr, reliable) {
            Some((sges, remotes)) => {
                let flags = wr.flags - SendFlags::SIGNALED;
                let front = SendWr { op: SendOp::Write(remotes[0]), sg_list: &sges[..1], flags, ..*wr };
                let back = SendWr { op: SendOp::Write(remotes[1]), sg_list: &sges[1..], ..*wr };
                below.post_send(qp, &[front]).and_then(|()| {
                    hesitate(below, Some(span));
                    below.post_send(qp, &[back])
                })
            }
            None => below.post_send(qp, &[*wr]),
        };
        posted.map_err(|error| PostError { index, ..error })?;
    }
    Ok(())
}

impl Layer for Faulty {
    /// No pause while parts of WRITEs wait: a pass in which the device goes on is not one to repeat.
    fn pause<P: Provider>(&self, below: &P, deadline: Time) {
        if self.0.late.borrow().is_empty() {
            below.pause(deadline);
        }
    }

    fn compare_swap_u64<P: Provider>(
        &self,
        below: &P,
        mem: Mem,
        offset: u64,
        expected: u64,
        new: u64,
    ) -> u64 {
        self.stop(below);
        self.step(below, VisibleStep::Swap);
        below.compare_swap_u64(mem, offset, expected, new)
    }

    fn store_u64<P: Provider>(&self, below: &P, mem: Mem, offset: u64, value: u64) {
        self.stop(below);
        self.step(below, VisibleStep::Store);
        hesitate(below, self.0.hesitation);
        below.store_u64(mem, offset, value);
    }

    fn write<P: Provider>(&self, below: &P, mem: Mem, offset: u64, from: &[u8]) {
        // Splits between words, because `Cpu::write` stores aligned words whole.
        let middle = if self.0.hesitation.is_some() { from.len() / 2 / 8 * 8 } else { 0 };
        let (front, back) = from.split_at(middle);
        if !front.is_empty() {
            below.write(mem, offset, front);
            hesitate(below, self.0.hesitation);
        }
        below.write(mem, offset + middle as u64, back);
    }

    /// A WRITE in two parts takes two entries of the queue.
    fn creating(&self, attr: &QpInitAttr) -> QpInitAttr {
        let Faults { hesitation, late, .. } = self.0.faults;
        let parts = hesitation.is_some() || late.is_some() || self.0.death.is_some();
        let times = if parts { 2 } else { 1 };
        QpInitAttr { cap: QpCap { max_send_wr: attr.cap.max_send_wr * times, ..attr.cap }, ..*attr }
    }

    fn created(&self, qp: QpHandle, attr: &QpInitAttr) {
        self.0.transports.borrow_mut().insert(qp, attr.qp_type);
    }

    fn poll_cq<P: Provider>(&self, below: &P, cq: CqHandle, wc: &mut [Wc]) -> Result<usize, VerbsError> {
        if let Some(late) = self.0.faults.late.filter(|_| self.0.due.get() <= below.now()) {
            self.0.due.set(below.now() + late);
            self.next_part(below).map_err(|error| error.cause)?;
        }
        below.poll_cq(cq, wc)
    }

    fn post_send<P: Provider>(&self, below: &P, qp: QpHandle, list: &[SendWr<'_>]) -> Result<(), PostError> {
        let transport = self.0.transports.borrow().get(&qp).copied();
        let reliable = transport == Some(QpType::Rc);
        self.stop(below);
        self.hold_back(below, list);
        if self.0.death.is_some() {
            return self.post_step_by_step(below, qp, list, reliable);
        }
        if self.0.apart.is_some() && list.iter().all(|wr| wr.op.opcode() == Opcode::Read) {
            return post_apart(below, qp, list, self.0.apart);
        }
        match self.0.faults {
            Faults { late: Some(_), .. } if transport == Some(QpType::Uc) => self.post_late(below, qp, list),
            Faults { loss_ppm: 1.., .. } if !reliable => self.post_without_the_lost(below, qp, list),
            Faults { hesitation: Some(span), .. }
                if list.iter().any(|wr| wr.op.opcode() == Opcode::Write) =>
            {
                post_in_parts(below, qp, list, (span, reliable))
            }
            _ => below.post_send(qp, list),
        }
    }
}
