//! Threads of one machine compare-and-swap a word of its memory (CLUSTER'21, III-E:
//! `__sync_compare_and_swap`).

use super::config::Release;
use super::layout::Layout;
use super::lock::{Design, Lock};
use crate::config::LLC;
use crate::site::{Dress, Site, SiteError};
use crate::{Interval, Record, SystemError};
use doorbell_verbs::{Cluster, Mem, Provider};

/// The machine of all threads: the first machine that has clients.
pub(super) const MACHINE: u32 = 1;

/// Locks in a machine's memory, near its first core.
#[derive(Clone, Copy, Debug)]
pub struct Local {
    memory: Mem,
    layout: Layout,
    release: Release,
}

impl Local {
    /// Allocates the locks.
    ///
    /// # Errors
    /// If the machine has no more memory.
    pub fn put_up<C: Cluster, R: Record, D: Dress>(
        site: &mut Site<'_, C, R, D>,
        layout: Layout,
        release: Release,
    ) -> Result<Local, SiteError> {
        let memory = site.alloc_near((MACHINE, 0), layout.bytes())?;
        if layout.bytes() > LLC {
            site.cluster().limit_cached(MACHINE, memory, LLC);
        }
        Ok(Local { memory, layout, release })
    }
}

impl Design for Local {
    type Lock<P: Provider> = Words<P>;

    fn open<P: Provider>(&self, cpu: &P, number: u32) -> Result<Words<P>, SystemError> {
        Ok(Words { cpu: cpu.clone(), locks: *self, mark: u64::from(number) + 1 })
    }
}

/// A thread's access to the locks.
pub struct Words<P> {
    cpu: P,
    locks: Local,
    mark: u64,
}

impl<P: Provider> Lock for Words<P> {
    fn attempt(&mut self, lock: u32, _: &Interval) -> Result<bool, SystemError> {
        let Local { memory, layout, .. } = self.locks;
        Ok(self.cpu.compare_swap_u64(memory, layout.word(lock), 0, self.mark) == 0)
    }

    fn read(&mut self, lock: u32, into: &mut [u8], _: &Interval) -> Result<bool, SystemError> {
        let Local { memory, layout, .. } = self.locks;
        self.cpu.read(memory, layout.data(lock, 0), into);
        Ok(true)
    }

    fn release(&mut self, lock: u32, data: &[u8], _: &Interval) -> Result<bool, SystemError> {
        let Local { memory, layout, release } = self.locks;
        if !data.is_empty() {
            self.cpu.write(memory, layout.data(lock, 0), data);
        }
        let word = layout.word(lock);
        match release {
            Release::Write => self.cpu.store_u64(memory, word, 0),
            Release::Cas => {
                let seen = self.cpu.compare_swap_u64(memory, word, self.mark, 0);
                super::remote::given_back(lock, seen, self.mark)?;
            }
        }
        Ok(true)
    }
}
