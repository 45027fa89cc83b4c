//! The driver's state of a device: the registers by which QPs ring doorbells, and its locks.
//!
//! A device has this state only if its profile describes doorbell registers, if the user sets something of
//! the driver, or if threads share a QP. Otherwise a lock is always in the cache of its only thread, and
//! `host.post_call_ns` and `host.poll_empty_ns` include its time.
//!
//! Lines that a lock guards are those of rdma-core, providers/mlx5/mlx5.h: `struct mlx5_wq`, `struct mlx5_cq`
//! and `struct mlx5_bf`.

use crate::core::index::{CoreId, CqId, DriverLockId, IdVec, Maybe, QpId, ThreadId};
use crate::core::ps::Ps;
use crate::host::{Host, LINE, Lines, MemPlace};
use doorbell_nic::generation::{PostingRule, REGISTER_ZERO, UuarUse, Uuars};
use doorbell_nic::{Device, DriverSettings};
use doorbell_verbs::{PageSize, VerbsError};
use std::collections::VecDeque;

/// Lines of a send queue: the lock with the queue's head and tail, the doorbell record, and the entries of
/// `wrid` and of `wqe_head`.
const SEND_QUEUE_LINES: u8 = 4;
/// Of these lines, the ones that hold the entries of a work request.
pub(crate) const ENTRIES: std::ops::Range<u8> = 2..4;
/// Lines of a CQ: the lock with the consumer index, and the doorbell record.
const CQ_LINES: u8 = 2;
/// Lines of a doorbell register: the lock with the offset of the next BlueFlame buffer.
const REGISTER_LINES: u8 = 1;

/// A spin lock of the driver, and the lines that it guards.
pub(crate) struct SpinLock {
    /// The line of the lock. The other guarded lines follow.
    first: MemPlace,
    /// Number of lines.
    pub(crate) lines: u8,
    pub(crate) holder: Option<ThreadId>,
    /// Threads that spin, in the order in which they began, each with the end of its last access.
    pub(crate) spinning: VecDeque<(ThreadId, Ps)>,
}

impl SpinLock {
    /// One of the lines. Line 0 has the lock.
    pub(crate) fn line(&self, number: u8) -> Lines {
        Lines::at(MemPlace { offset: self.first.offset + u64::from(number) * LINE, ..self.first })
    }
}

/// How a QP rings doorbells, and its lock.
#[derive(Clone, Copy)]
pub(crate) struct DriverQp {
    /// The lock of the send queue, if several threads post to the queue.
    pub(crate) send_lock: Maybe<DriverLockId>,
    /// The lock of the doorbell register, if the driver takes one.
    pub(crate) register_lock: Maybe<DriverLockId>,
    /// Whether the register has BlueFlame.
    pub(crate) blueflame: bool,
    /// The context and number of the register; none for a register of a thread domain.
    register: Option<(usize, u32)>,
}

impl DriverQp {
    const ALONE: DriverQp =
        DriverQp { send_lock: Maybe::NONE, register_lock: Maybe::NONE, blueflame: true, register: None };
}

/// The registers of a context.
struct ContextRegisters {
    /// The thread that opened the context.
    thread: ThreadId,
    registers: UuarUse,
    /// The lock of each register, once a QP uses it.
    locks: Vec<Maybe<DriverLockId>>,
}

/// The driver's state of a device.
pub(crate) struct Driver {
    pub(crate) rule: PostingRule,
    settings: DriverSettings,
    /// The registers of a context, if the profile describes them.
    uuars: Option<Uuars>,
    /// Whether all threads of the machine use one context.
    one_context: bool,
    contexts: Vec<ContextRegisters>,
    qps: IdVec<QpId, DriverQp>,
    /// The lock of each CQ that several threads poll.
    cqs: IdVec<CqId, Maybe<DriverLockId>>,
    pub(crate) locks: IdVec<DriverLockId, SpinLock>,
}

impl Driver {
    /// The state of a device without QPs; `None` if nothing is known of its driver and nothing is set.
    pub(super) fn of(device: &Device, settings: DriverSettings, one_context: bool) -> Option<Box<Driver>> {
        let needed = device.registers.is_some() || settings.shut_up_bf;
        needed.then(|| Box::new(Driver::new(device, settings, one_context)))
    }

    /// # Panics
    /// If the settings do not fit the registers. Whoever accepts settings checks them.
    pub(super) fn new(device: &Device, settings: DriverSettings, one_context: bool) -> Driver {
        let uuars = device.registers.map(|registers| {
            registers.uuars(&settings).unwrap_or_else(|why| panic!("settings of a driver are checked: {why}"))
        });
        Driver {
            rule: device.posting_rule(&settings),
            settings,
            uuars,
            one_context,
            contexts: Vec::new(),
            qps: IdVec::new(),
            cqs: IdVec::new(),
            locks: IdVec::new(),
        }
    }

    /// Adds a lock with its lines, near the core of the thread that creates it.
    fn add_lock(&mut self, host: &mut Host, core: CoreId, lines: u8) -> Result<DriverLockId, VerbsError> {
        let mem = host.alloc_near(core.0.into(), core, u64::from(lines) * LINE, PageSize::Small)?;
        let first = MemPlace { allocation: mem.allocation(), offset: mem.start() };
        Ok(self.locks.push(SpinLock { first, lines, holder: None, spinning: VecDeque::new() }))
    }

    /// The context of a thread, which is opened with its first QP.
    fn context(&mut self, uuars: Uuars, thread: ThreadId) -> usize {
        let opened = self.contexts.iter().position(|context| self.one_context || context.thread == thread);
        opened.unwrap_or_else(|| {
            let locks = vec![Maybe::NONE; uuars.total() as usize];
            self.contexts.push(ContextRegisters { thread, registers: UuarUse::of(uuars), locks });
            self.contexts.len() - 1
        })
    }

    /// The entry of a QP. QPs that are older than this state have entries from now on, too.
    fn entry(&mut self, qp: QpId) -> &mut DriverQp {
        while self.qps.get(qp).is_none() {
            self.qps.push(DriverQp::ALONE);
        }
        &mut self.qps[qp]
    }

    /// Gives a new QP its register.
    pub(crate) fn add_qp(
        &mut self,
        host: &mut Host,
        qp: QpId,
        (thread, core): (ThreadId, CoreId),
    ) -> Result<(), VerbsError> {
        if let Some(uuars) = self.uuars.filter(|_| !self.settings.thread_domains) {
            *self.entry(qp) = self.with_register(host, uuars, (thread, core))?;
        }
        Ok(())
    }

    fn with_register(
        &mut self,
        host: &mut Host,
        uuars: Uuars,
        (thread, core): (ThreadId, CoreId),
    ) -> Result<DriverQp, VerbsError> {
        let context = self.context(uuars, thread);
        let register = self.contexts[context].registers.take();
        let mut lock = self.contexts[context].locks[register as usize];
        if lock.is_none() && uuars.is_shared(register) && !self.settings.single_threaded {
            lock = Maybe::some(self.add_lock(host, core, REGISTER_LINES)?);
            self.contexts[context].locks[register as usize] = lock;
        }
        Ok(DriverQp {
            register_lock: lock,
            blueflame: register != REGISTER_ZERO,
            register: Some((context, register)),
            ..DriverQp::ALONE
        })
    }

    /// Frees the register of a destroyed QP.
    pub(crate) fn remove_qp(&mut self, qp: QpId) {
        if let Some((context, register)) = self.entry(qp).register.take() {
            self.contexts[context].registers.put(register);
        }
    }

    /// How a QP rings doorbells, and its lock. A QP that is older than this state has neither.
    #[inline]
    pub(crate) fn qp(&self, qp: QpId) -> DriverQp {
        self.qps.get(qp).copied().unwrap_or(DriverQp::ALONE)
    }

    /// The lock of a CQ, if several threads poll the CQ.
    #[inline]
    pub(crate) fn cq_lock(&self, cq: CqId) -> Option<DriverLockId> {
        self.cqs.get(cq)?.get()
    }

    /// Lets several threads use a QP and its CQs. The locks lie near `core`.
    ///
    /// # Errors
    /// If the driver takes no locks.
    pub(super) fn share(
        &mut self,
        host: &mut Host,
        core: CoreId,
        qp: QpId,
        cqs: [CqId; 2],
    ) -> Result<(), VerbsError> {
        if self.settings.thread_domains || self.settings.single_threaded {
            let why = if self.settings.thread_domains {
                "in a thread domain"
            } else {
                "if MLX5_SINGLE_THREADED is set"
            };
            return Err(VerbsError::Invalid(format!("only one thread may use a QP {why}")));
        }
        if self.entry(qp).send_lock.is_none() {
            let lock = self.add_lock(host, core, SEND_QUEUE_LINES)?;
            self.entry(qp).send_lock = Maybe::some(lock);
        }
        for cq in cqs {
            while self.cqs.get(cq).is_none() {
                self.cqs.push(Maybe::NONE);
            }
            if self.cqs[cq].is_none() {
                self.cqs[cq] = Maybe::some(self.add_lock(host, core, CQ_LINES)?);
            }
        }
        Ok(())
    }
}
