//! Control of a run while it is simulated: when metering begins and ends, and when the run ends.

use crate::core::ps::Ps;
use crate::core::server::MeterWindow;
use crate::world::Waiting;
use crate::world::World;
use doorbell_verbs::{Span, Time};

/// Decides during a run when its resources are metered and when the run ends.
pub trait Steer {
    /// Called when everything up to the last returned time has happened. Returns the time of the next call. A
    /// time that is not later than the present ends the run.
    fn look(&mut self, run: &mut SteeredRun<'_>) -> Time;

    /// Whether to call [`Steer::look`] at once. The run asks every few turns of threads. Everything up to
    /// `now` has happened.
    fn is_called(&mut self, _now: Time) -> bool {
        false
    }
}

/// How far senders of unreliable transports are ahead of memory: work that has completed for the sender, but
/// whose data is not in memory yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ahead {
    /// Work requests of any transport that have ended since the run began.
    pub ended: u64,
    /// Messages whose work request has ended, and that no receiving unit has finished yet.
    pub messages: u64,
    /// Time until the PCIe link to the host is done with its accepted work, at the device where this takes
    /// longest.
    pub writes: Span,
}

/// A run that is paused for a call of [`Steer::look`].
pub struct SteeredRun<'a>(pub(crate) &'a mut World);

impl SteeredRun<'_> {
    /// The time up to which everything has happened.
    pub fn now(&self) -> Time {
        self.0.env.now.time()
    }

    /// The earliest time at which all work begun so far has ended: no thread's clock is later, and ports,
    /// PCIe links and processing units have finished the work that they have accepted.
    pub fn horizon(&self) -> Time {
        self.0.horizon().time()
    }

    /// Number of events so far.
    pub fn events(&self) -> u64 {
        self.0.env.totals.events
    }

    /// How far senders are ahead of memory.
    pub fn ahead(&self) -> Ahead {
        let World { env, devices, .. } = &*self.0;
        let waiting = devices.iter().map(|device| device.pcie.to_host.free_at().saturating_sub(env.now));
        Ahead {
            ended: env.totals.verbs,
            messages: env.totals.ahead,
            writes: waiting.max().unwrap_or_default().span(),
        }
    }

    /// Starts metering at this moment, which must not be before the horizon.
    pub fn meter_from(&mut self, from: Time) {
        self.0.meter(MeterWindow { from: from.into(), to: Ps::NEVER });
    }

    /// Ends metering at this moment, which must not be before the horizon.
    pub fn meter_until(&mut self, to: Time) {
        let window = MeterWindow { to: to.into(), ..self.0.env.window };
        self.0.meter(window);
    }

    /// Describes the threads that wait for something that other threads may bring; empty if there are none.
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
