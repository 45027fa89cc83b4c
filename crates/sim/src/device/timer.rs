//! Time-outs of QPs.

use super::nic::SimDevice;
use crate::core::index::QpId;
use crate::core::ps::Ps;
use crate::core::queue::SimEvent;
use crate::env::Env;

impl SimDevice {
    /// Schedules an event for the QP's next time-out. A destroyed QP has none.
    pub(super) fn arm_timer(&mut self, env: &mut Env, qp: QpId) {
        let slot = &mut self.qps[qp];
        if slot.alive
            && let Some(deadline) = slot.qp.deadline()
            && Ps::from(deadline) < slot.timer_at
        {
            slot.timer_at = deadline.into();
            env.queue.push(slot.timer_at.max(env.now), SimEvent::Timer { device: self.id, qp });
        }
    }

    /// Handles a timer event. The time-out may have been postponed since the event was scheduled.
    pub(crate) fn timer(&mut self, env: &mut Env, qp: QpId) {
        env.with_actions(|env, actions| {
            let now = env.now.time();
            let slot = &mut self.qps[qp];
            if env.now >= slot.timer_at {
                slot.timer_at = Ps::NEVER;
            }
            if slot.alive && slot.qp.deadline().is_some_and(|d| d <= now) {
                slot.qp.timeout(now, &self.keys, actions);
            }
            self.settle_all(env, qp, actions);
        });
        self.arm_timer(env, qp);
        if self.qps[qp].alive {
            self.kick(env, qp);
        }
    }
}
