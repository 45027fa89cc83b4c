//! Runs whose end is decided while they go on.

use crate::core::ps::Ps;
use crate::core::server::MeterWindow;
use crate::world::Waiting;
use crate::world::World;
use doorbell_verbs::{Span, Time};

/// Who decides, while a run goes on, from when to when its resources are metered and when it ends.
pub trait Steer {
    /// Everything up to the time named last has happened; names the next, or one that is not later to end the run.
    fn look(&mut self, run: &mut SteeredRun<'_>) -> Time;

    /// Whether to look at once; asked every few turns of threads.
    fn is_called(&mut self) -> bool {
        false
    }
}

/// What senders of unreliable transports are ahead of memory by: what they know of as done is not there yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ahead {
    /// Work requests that have ended, of any transport, since the run began.
    pub ended: u64,
    /// Messages whose work request has ended and that no receiving unit is done with.
    pub messages: u64,
    /// How long the DMA writes take that wait for the PCIe link, of the device where that is longest.
    pub writes: Span,
}

/// A run that stands still for who steers it.
pub struct SteeredRun<'a>(pub(crate) &'a mut World);

impl SteeredRun<'_> {
    /// The time up to which everything has happened.
    pub fn now(&self) -> Time {
        self.0.env.now.time()
    }

    /// The first moment that nothing reaches into that has begun by now: no thread's clock is past it, and what ports,
    /// PCIe links and processing units have taken on is done.
    pub fn horizon(&self) -> Time {
        self.0.horizon().time()
    }

    /// What senders are ahead by.
    pub fn ahead(&self) -> Ahead {
        let World { env, devices, .. } = &*self.0;
        let waiting = devices.iter().map(|device| device.pcie.to_host.free_at().saturating_sub(env.now));
        Ahead {
            ended: env.totals.verbs,
            messages: env.totals.ahead,
            writes: waiting.max().unwrap_or_default().span(),
        }
    }

    /// Meters from this moment on, which must not be before the horizon.
    pub fn meter_from(&mut self, from: Time) {
        self.0.meter(MeterWindow { from: from.into(), to: Ps::NEVER });
    }

    /// Meters up to this moment, which must not be before the horizon.
    pub fn meter_until(&mut self, to: Time) {
        let window = MeterWindow { to: to.into(), ..self.0.env.window };
        self.0.meter(window);
    }

    /// What threads wait for that others may bring, in words; empty where none does.
    pub fn waits(&self) -> String {
        self.0.describe_waiting_for_others()
    }
}

impl World {
    fn horizon(&self) -> Ps {
        let threads = self.threads.iter().filter(|t| t.waiting != Waiting::Ended).map(|t| t.clock);
        let ports = self.env.fabric.ports.iter().map(|p| p.out.free_at().max(p.into.free_at()));
        let devices = self.devices.iter().map(crate::device::SimDevice::committed_until);
        threads.chain(ports).chain(devices).fold(self.env.now, Ps::max)
    }

    fn meter(&mut self, window: MeterWindow) {
        self.env.window = window;
        if let Some(tracer) = &mut self.tracer {
            tracer.metered_from(window.from);
        }
        self.hosts.iter_mut().for_each(|host| host.meter(window));
    }
}
