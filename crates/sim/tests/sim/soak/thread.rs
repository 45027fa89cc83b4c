//! A thread of a case: it creates its objects, takes random actions for a while, and winds up.

use super::draw::Draw;
use super::ledger::{Ledger, Tally};
use super::objects::{Device, DeviceSlot, QKEY};
use super::plan::{Link, Place, Plan};
use doorbell_verbs::{
    AccessFlags, AhAttr, ConnectAttr, Context, Endpoint, Gid, Mem, Mtu, PageSize, Program, Provider, QpAttr,
    QpState, QpType, RemoteAddr, Span, Time, VerbsError, Wc,
};

/// Time within which everything must complete after a flush.
const PATIENCE: Span = Span::from_ms(100);

/// Maximum number of completions that one call polls.
pub(crate) const MOST_POLLED: usize = 16;

/// Bytes of the memory that each thread has.
const LARGE: u64 = 65_536;

/// The program of a thread.
pub(crate) struct Soaker(pub(crate) Plan);

impl Program for Soaker {
    type Output = Result<Tally, String>;

    fn run<P: Provider>(self, p: P) -> Result<Tally, String> {
        let mut thread = Thread::set_up(&p, self.0).map_err(|error| format!("setting up: {error}"))?;
        while p.now() < thread.plan.until {
            thread.step();
        }
        if thread.draw.percent(70) {
            thread.wind_up();
        }
        match thread.ledger.broken.take() {
            Some(broken) => Err(broken),
            None => Ok(Tally { lasted: p.now().as_ps(), ..thread.ledger.tally.clone() }),
        }
    }
}

/// Published data of a QP: its endpoint, and memory that it can reach.
#[derive(Clone, Copy)]
pub(crate) struct Card {
    pub(crate) endpoint: Endpoint,
    pub(crate) remote: RemoteAddr,
    pub(crate) len: u64,
}

impl Card {
    fn to_bytes(self) -> Vec<u8> {
        let parts = [&self.endpoint.to_bytes()[..], &self.remote.to_bytes(), &self.len.to_be_bytes()];
        parts.concat()
    }

    fn from_bytes(bytes: &[u8]) -> Card {
        let (endpoint, rest) = bytes.split_at(22);
        let (remote, len) = rest.split_at(12);
        Card {
            endpoint: Endpoint::from_bytes(endpoint).expect("an endpoint"),
            remote: RemoteAddr::from_bytes(remote).expect("an address"),
            len: u64::from_be_bytes(len.try_into().expect("a length")),
        }
    }
}

fn key((thread, slot): Place) -> String {
    format!("{thread}/{slot}")
}

/// State of a thread.
pub(crate) struct Thread<'p, P: Provider> {
    pub(crate) p: &'p P,
    pub(crate) draw: Draw,
    pub(crate) plan: Plan,
    pub(crate) mems: Vec<Mem>,
    pub(crate) devices: Vec<Device<P>>,
    /// One QP per link; none if its creation failed.
    pub(crate) slots: Vec<Option<DeviceSlot<P>>>,
    pub(crate) ledger: Ledger,
}

impl<'p, P: Provider> Thread<'p, P> {
    fn set_up(p: &'p P, plan: Plan) -> Result<Thread<'p, P>, VerbsError> {
        let mut draw = Draw::new(plan.seed);
        if Context::open(p, p.num_devices()).is_ok() {
            return Err(VerbsError::Invalid("a device that is not there opens".into()));
        }
        let open = |index| Device::open(p, index, &mut draw);
        let devices = (0..p.num_devices()).map(open).collect::<Result<Vec<_>, _>>()?;
        let mems = plan.shared.into_iter().collect();
        let slots = plan.links.iter().map(|_| None).collect();
        let mut thread = Thread { p, draw, plan, mems, devices, slots, ledger: Ledger::default() };
        thread.mems.push(p.alloc(LARGE, PageSize::Huge)?);
        for _ in 0..thread.draw.within(0..=3) {
            thread.alloc()?;
        }
        thread.furnish()?;
        (0..thread.slots.len()).for_each(|slot| thread.make_qp(slot));
        (0..thread.slots.len()).for_each(|slot| thread.connect(slot));
        Ok(thread)
    }

    /// Creates some objects of each kind on each device.
    fn furnish(&mut self) -> Result<(), VerbsError> {
        for device in &mut self.devices {
            let large = self.mems.iter().copied().max_by_key(|mem| mem.len());
            device.make_large_mrs(large.expect("memory"))?;
            for _ in 0..self.draw.within(0..=4) {
                let mem = self.draw.of(&self.mems);
                device.make_mr(&mut self.draw, mem, self.plan.wildness);
            }
            for _ in 0..self.draw.within(1..=3) {
                device.make_cq(&mut self.draw, 5 * self.plan.wildness.min(10))?;
            }
            if self.draw.percent(50) {
                device.make_srq(&mut self.draw)?;
            }
        }
        Ok(())
    }

    fn alloc(&mut self) -> Result<(), VerbsError> {
        let len = self.draw.of(&[0, 64, 100, 4096, 10_000, 10_000, 65_536, 65_536, 400_000]);
        let page = self.draw.of(&[PageSize::Small, PageSize::Huge]);
        self.mems.push(self.p.alloc(len, page)?);
        Ok(())
    }

    /// True with the probability of an invalid action.
    pub(crate) fn wild(&mut self) -> bool {
        let wildness = self.plan.wildness;
        self.draw.percent(wildness)
    }

    /// Creates the QP of a slot, replacing any old one, and publishes it.
    fn make_qp(&mut self, slot: usize) {
        if let Some(mut old) = self.slots[slot].take() {
            self.ledger.forget(&mut old.posted);
        }
        let link = self.plan.links[slot];
        let index = link.device as usize % self.devices.len();
        let device = &mut self.devices[index];
        if device.cqs.is_empty() && device.make_cq(&mut self.draw, 0).is_err() {
            self.ledger.breaks(|| "a CQ of a plain size is refused".into());
            return;
        }
        match device.make_qp(&mut self.draw, index, link.qp_type) {
            Ok(made) => self.slots[slot] = Some(made),
            Err(error) => self.ledger.breaks(|| format!("a QP within the limits is refused: {error}")),
        }
        self.tell(slot);
    }

    /// Publishes the QP of a slot, and a region of its PD if there is one.
    fn tell(&mut self, slot: usize) {
        let link = self.plan.links[slot];
        let nobody = Endpoint { lid: 0xbfff, gid: Gid::default(), qpn: 0xff_fff0 };
        let mut card = Card { endpoint: nobody, remote: RemoteAddr::default(), len: 0 };
        if let Some(own) = &self.slots[slot] {
            let device = &self.devices[own.device];
            card.endpoint = own.qp.endpoint(device.port(&link)).expect("a port");
            let regions: Vec<_> = device.mrs.iter().filter(|(pd, _)| *pd == own.pd).collect();
            if !regions.is_empty() {
                let (_, mr) = regions[self.draw.index(regions.len())];
                (card.remote, card.len) = (mr.remote(0), mr.mem().len());
            }
        }
        self.p.publish(&key((self.plan.me, slot as u32)), &card.to_bytes());
    }

    /// The last published data of a QP. Waits until there is some.
    pub(crate) fn card(&self, place: Place) -> Card {
        Card::from_bytes(&self.p.lookup(&key(place)))
    }

    /// The published data of a slot's peer, or of a random QP.
    pub(crate) fn peer(&mut self, slot: usize) -> Card {
        let mut place = self.plan.links[slot].peer;
        if self.wild() {
            let thread = self.draw.index(self.plan.qps.len());
            place = (thread as u32, self.draw.below(self.plan.qps[thread].into()) as u32);
        }
        let mut card = self.card(place);
        if self.wild() {
            card.endpoint.qpn = self.draw.any() as u32 & 0x1ff_ffff;
        }
        if self.wild() {
            card.endpoint.lid = self.draw.any() as u16;
        }
        card
    }

    fn access(&mut self) -> AccessFlags {
        if self.wild() { AccessFlags::from_bits_truncate(self.draw.any() as u32) } else { AccessFlags::all() }
    }

    /// Attributes for connecting a slot's QP. Time-outs are as short as possible.
    fn connect_attr(&mut self, link: &Link) -> ConnectAttr {
        let draw = &mut self.draw;
        let mut attr = ConnectAttr {
            access: AccessFlags::all(),
            mtu: Some(link.mtu),
            max_rd_atomic: draw.of(&[0, 1, 2, 4, 16, 16, 16]),
            timeout: draw.of(&[0, 1, 1, 2, 3]),
            retry_cnt: draw.of(&[0, 1, 2, 7]),
            rnr_retry: draw.of(&[0, 1, 3, 7]),
            min_rnr_timer: draw.of(&[1, 1, 1, 2, 3, 0]),
            psn: link.psn,
        };
        attr.access = self.access();
        if self.wild() {
            attr.psn = self.draw.any() as u32 & 0x1ff_ffff;
            attr.mtu = self.draw.maybe(50, |draw| draw.of(&Mtu::ALL));
        }
        if self.wild() {
            attr.max_rd_atomic = self.draw.any() as u8;
            attr.timeout = self.draw.below(40) as u8;
            attr.retry_cnt = self.draw.below(10) as u8;
        }
        attr
    }

    /// Brings up a slot's QP, which is in the Reset state. The device may refuse, or the thread may stop
    /// halfway.
    fn connect(&mut self, slot: usize) {
        let link = self.plan.links[slot];
        let card = self.peer(slot);
        let attr = self.connect_attr(&link);
        let qkey = if self.wild() { self.draw.any() as u32 } else { QKEY };
        let stops = self.wild();
        let Some(own) = &self.slots[slot] else { return };
        let device = &mut self.devices[own.device];
        let port = device.port(&link);
        if own.qp.init(port, attr.access, qkey).is_err() || stops {
            return;
        }
        if link.qp_type == QpType::Ud {
            let _ = own.qp.activate_from_init(link.psn);
            device.make_ah(&mut self.draw, port, &card.endpoint, self.plan.wildness);
        } else {
            let _ = own.qp.connect_from_init(port, &card.endpoint, &attr);
        }
    }

    /// Whether a slot's QP accepts work requests that may succeed.
    fn works(&self, slot: usize) -> bool {
        let state = self.slots[slot].as_ref().and_then(|own| own.qp.state().ok());
        matches!(state, Some(QpState::Rtr | QpState::Rts | QpState::Sqd))
    }

    /// Takes one random action, mostly with a QP that works.
    fn step(&mut self) {
        let slot = self.draw.index(self.slots.len());
        if !self.works(slot) && self.draw.percent(60) {
            return self.mend(slot);
        }
        match self.draw.below(1000) {
            0..330 => self.post_sends(slot),
            330..560 => self.post_recvs(slot),
            560..740 => {
                let most = self.draw.index(MOST_POLLED + 1);
                self.poll_all(most);
            }
            740..820 => self.touch_memory(),
            820..900 => self.wait(),
            900..920 => self.work(),
            920..940 => self.mend(slot),
            940..950 => self.change_state(slot),
            950..956 => self.make_qp_and_connect(slot),
            956..966 => self.change_regions(),
            966..976 => self.change_addresses(slot),
            976..982 => self.change_queues(),
            982..990 => self.tell(slot),
            990..993 => self.ask_too_much(),
            _ => self.modify_at_random(slot),
        }
    }

    fn work(&mut self) {
        self.p.work(Span::from_ns(self.draw.below(500)));
    }

    fn make_qp_and_connect(&mut self, slot: usize) {
        self.make_qp(slot);
        if self.draw.percent(90) {
            self.connect(slot);
        }
    }

    /// Restarts a QP that does not work, and sometimes one that does.
    fn mend(&mut self, slot: usize) {
        let Some(own) = &mut self.slots[slot] else { return self.make_qp_and_connect(slot) };
        let state = own.qp.state().expect("a QP that lives has a state");
        if matches!(state, QpState::Rts | QpState::Rtr) && self.draw.percent(80) {
            return;
        }
        if state == QpState::Sqe && self.draw.percent(50) {
            let _ = own.qp.modify(&QpAttr::state(QpState::Rts));
            return;
        }
        own.qp.modify(&QpAttr::state(QpState::Reset)).expect("any state leads to Reset");
        self.ledger.forget(&mut own.posted);
        self.connect(slot);
    }

    fn change_state(&mut self, slot: usize) {
        let Some(own) = &mut self.slots[slot] else { return };
        let states = [QpState::Sqd, QpState::Rts, QpState::Rts, QpState::Err, QpState::Reset, QpState::Init];
        let next = self.draw.of(&states);
        if own.qp.modify(&QpAttr::state(next)).is_ok() && next == QpState::Reset {
            self.ledger.forget(&mut own.posted);
        }
    }

    /// Modifies a QP with random attributes and values.
    fn modify_at_random(&mut self, slot: usize) {
        let Some(own) = &mut self.slots[slot] else { return };
        let draw = &mut self.draw;
        let path = |draw: &mut Draw| AhAttr {
            port_num: draw.below(4) as u8,
            dlid: draw.below(12) as u16,
            sl: 0,
            grh: None,
        };
        let states = [QpState::Init, QpState::Rtr, QpState::Rts, QpState::Sqd, QpState::Err, QpState::Sqe];
        let small = |draw: &mut Draw| draw.below(35) as u8;
        let attr = QpAttr {
            qp_state: draw.maybe(70, |draw| draw.of(&states)),
            pkey_index: draw.maybe(10, |draw| draw.any() as u16),
            port_num: draw.maybe(15, |draw| draw.below(4) as u8),
            qp_access_flags: draw.maybe(15, |draw| AccessFlags::from_bits_truncate(draw.any() as u32)),
            qkey: draw.maybe(10, |draw| draw.any() as u32),
            path_mtu: draw.maybe(5, |draw| draw.of(&Mtu::ALL)),
            dest_qp_num: draw.maybe(5, |draw| draw.any() as u32),
            rq_psn: draw.maybe(5, |draw| draw.any() as u32),
            ah_attr: draw.maybe(15, path),
            max_dest_rd_atomic: draw.maybe(15, small),
            min_rnr_timer: draw.maybe(15, small),
            sq_psn: draw.maybe(5, |draw| draw.any() as u32),
            timeout: draw.maybe(15, small),
            retry_cnt: draw.maybe(15, |draw| draw.below(9) as u8),
            rnr_retry: draw.maybe(15, |draw| draw.below(9) as u8),
            max_rd_atomic: draw.maybe(15, small),
        };
        let _ = own.qp.modify(&attr);
    }

    fn change_regions(&mut self) {
        if self.mems.len() < 8 && self.draw.percent(20) && self.alloc().is_err() {
            self.ledger.breaks(|| "some kilobytes of memory are refused".into());
        }
        let device = self.draw.index(self.devices.len());
        let device = &mut self.devices[device];
        device.drop_mr(&mut self.draw);
        for _ in 0..self.draw.within(1..=2) {
            let mem = self.draw.of(&self.mems);
            device.make_mr(&mut self.draw, mem, self.plan.wildness);
        }
    }

    fn change_addresses(&mut self, slot: usize) {
        let Some(own) = &self.slots[slot] else { return };
        let index = own.device;
        let card = self.peer(slot);
        let device = &mut self.devices[index];
        if self.draw.percent(40) {
            device.drop_ah(&mut self.draw);
        }
        let port = device.port(&self.plan.links[slot]);
        device.make_ah(&mut self.draw, port, &card.endpoint, self.plan.wildness);
    }

    /// Destroys and creates CQs and SRQs. Queues in use live as long as their QPs.
    fn change_queues(&mut self) {
        let device = self.draw.index(self.devices.len());
        let device = &mut self.devices[device];
        if device.cqs.len() > 1 && self.draw.percent(50) {
            device.cqs.swap_remove(self.draw.index(device.cqs.len()));
        }
        let made = device.make_cq(&mut self.draw, 5 * self.plan.wildness.min(10));
        if !device.srqs.is_empty() && self.draw.percent(50) {
            device.srqs.swap_remove(self.draw.index(device.srqs.len()));
        }
        if made.and_then(|()| device.make_srq(&mut self.draw)).is_err() {
            self.ledger.breaks(|| "a queue of a plain size is refused".into());
        }
    }

    fn ask_too_much(&mut self) {
        let _ = self.p.alloc(self.draw.of(&[1 << 39, 1 << 40, u64::MAX]), PageSize::Small);
        let device = self.draw.index(self.devices.len());
        if !self.devices[device].cqs.is_empty() {
            self.devices[device].ask_too_much(&mut self.draw);
        }
    }

    /// Polls all CQs for up to `most` completions each. Returns the number of completions.
    pub(crate) fn poll_all(&mut self, most: usize) -> usize {
        let mut came = 0;
        for device in 0..self.devices.len() {
            for queue in 0..self.devices[device].cqs.len() {
                came += self.poll(device, queue, most);
            }
        }
        came
    }

    fn poll(&mut self, device: usize, queue: usize, most: usize) -> usize {
        let mut wc = [Wc::default(); MOST_POLLED];
        let queue = &mut self.devices[device].cqs[queue];
        if queue.overrun && self.plan.orderly {
            return 0; // A pass with a failed poll does not count as an empty pass.
        }
        match queue.cq.poll(&mut wc[..most]) {
            Ok(polled) => {
                let of = |slot: &&mut DeviceSlot<P>, wc: &Wc| {
                    slot.device == device && slot.qp.qp_num() == wc.qp_num
                };
                for wc in polled {
                    let slot = self.slots.iter_mut().flatten().find(|slot| of(slot, wc));
                    self.ledger.completed(wc, slot.map(|slot| &mut slot.posted));
                }
                polled.len()
            }
            Err(VerbsError::NoRoom(_)) => {
                queue.overrun = true;
                0
            }
            Err(error) => {
                self.ledger.breaks(|| format!("polling: {error}"));
                0
            }
        }
    }

    /// Flushes all QPs, and waits until all posted work requests have completed.
    fn wind_up(&mut self) {
        for own in self.slots.iter().flatten() {
            if own.qp.state() == Ok(QpState::Err) {
                continue; // The QP must have flushed itself.
            }
            own.qp.modify(&QpAttr::state(QpState::Err)).expect("any state leads to Err");
        }
        let deadline = self.p.now() + PATIENCE;
        while self.is_open() && self.p.now() < deadline {
            if self.poll_all(MOST_POLLED) == 0 {
                self.p.pause(deadline);
            }
        }
        let Thread { slots, devices, ledger, .. } = self;
        for own in slots.iter().flatten().filter(|own| own.is_watched(&devices[own.device])) {
            ledger.closes(&format!("QP {:#x} ({})", own.qp.qp_num(), own.qp.qp_type()), &own.posted);
        }
    }

    /// Whether completions that can be polled are still to come.
    fn is_open(&self) -> bool {
        let open =
            |own: &DeviceSlot<P>| own.is_watched(&self.devices[own.device]) && own.posted.open().is_some();
        self.slots.iter().flatten().any(open)
    }

    /// A deadline for a pause. Sometimes it has passed already.
    pub(crate) fn deadline(&mut self) -> Time {
        let now = self.p.now();
        let span = self.draw.of(&[1, 10, 100, 1_000, 3_000, 10_000]);
        if self.draw.percent(5) { now } else { now + Span::from_ns(self.draw.below(span)) }
    }
}

impl<P: Provider> DeviceSlot<P> {
    /// Whether all completions of the QP can be polled.
    fn is_watched(&self, device: &Device<P>) -> bool {
        device.is_watched(self.send_cq) && device.is_watched(self.recv_cq)
    }
}
