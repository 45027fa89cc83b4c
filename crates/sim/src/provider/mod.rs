//! A thread's verbs and processor in virtual time: how it keeps in step with the world.

mod cpu;
mod poll;
mod post;
mod verbs;

use crate::core::queue::Key;
use crate::world::World;
use corosensei::Yielder;
use doorbell_verbs::{QpHandle, VerbsError};
use std::cell::RefCell;
use std::rc::Rc;

/// The provider of one simulated thread.
#[derive(Clone)]
pub struct SimProvider<'y> {
    world: Rc<RefCell<World>>,
    thread: u32,
    machine: u16,
    core: u32,
    yielder: &'y Yielder<(), ()>,
}

fn invalid<T>(message: String) -> Result<T, VerbsError> {
    Err(VerbsError::Invalid(message))
}

impl<'y> SimProvider<'y> {
    pub(crate) fn new(
        world: Rc<RefCell<World>>,
        thread: u32,
        machine: u16,
        core: u32,
        yielder: &'y Yielder<(), ()>,
    ) -> SimProvider<'y> {
        SimProvider { world, thread, machine, core, yielder }
    }

    /// Lets everything happen that comes before this thread's clock.
    fn sync(&self) {
        if std::thread::panicking() {
            return; // The thread is being taken down.
        }
        if !self.catch_up(&mut self.world.borrow_mut()) {
            self.yielder.suspend(());
        }
    }

    /// [`SimProvider::sync`] up to where another thread comes first; false then.
    #[inline]
    fn catch_up(&self, w: &mut World) -> bool {
        let clock = w.threads[self.thread as usize].clock;
        if clock <= w.end && w.run_before(Key::thread(clock, self.thread)) {
            return true;
        }
        w.schedule(self.thread, clock);
        false
    }

    fn advance(&self, ps: u64) {
        self.world.borrow_mut().threads[self.thread as usize].clock += ps;
    }

    /// Begins something that has an effect, at this thread's clock.
    fn effect(&self) {
        if std::thread::panicking() {
            return;
        }
        let caught_up = {
            let mut w = self.world.borrow_mut();
            w.threads[self.thread as usize].effect();
            self.catch_up(&mut w)
        };
        if !caught_up {
            self.yielder.suspend(());
        }
    }

    fn live_qp(&self, qp: QpHandle) -> Result<(), VerbsError> {
        let w = self.world.borrow();
        match w.machines[usize::from(self.machine)].nic.qps.get(qp.0 as usize) {
            Some(slot) if slot.alive => Ok(()),
            _ => invalid("there is no such QP".into()),
        }
    }
}
