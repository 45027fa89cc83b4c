//! Devices, protection domains, memory regions, completion queues.

use crate::{
    AccessFlags, CqHandle, DeviceAttr, DeviceHandle, Mem, MrHandle, MrKeys, PdHandle, PortAttr, Provider,
    RemoteAddr, Sge, VerbsError, Wc,
};
use std::rc::Rc;

/// An opened device (`struct ibv_context`). Clones of any type in this module refer to one object. The object
/// lives until no clone and no dependent object is left.
#[derive(Clone)]
pub struct Context<P: Provider>(Rc<ContextInner<P>>);

struct ContextInner<P: Provider> {
    provider: P,
    handle: DeviceHandle,
}

impl<P: Provider> Drop for ContextInner<P> {
    fn drop(&mut self) {
        self.provider.close_device(self.handle);
    }
}

impl<P: Provider> Context<P> {
    /// Opens device `index` of the thread's machine (ibv_get_device_list(3), ibv_open_device(3)).
    pub fn open(provider: &P, index: u32) -> Result<Context<P>, VerbsError> {
        let handle = provider.open_device(index)?;
        Ok(Context(Rc::new(ContextInner { provider: provider.clone(), handle })))
    }

    pub(crate) fn provider(&self) -> &P {
        &self.0.provider
    }

    /// The device's name and limits.
    pub fn query_device(&self) -> Result<DeviceAttr, VerbsError> {
        self.provider().query_device(self.0.handle)
    }

    /// State and addresses of a port, counted from 1.
    pub fn query_port(&self, port: u8) -> Result<PortAttr, VerbsError> {
        self.provider().query_port(self.0.handle, port)
    }

    /// Allocates a protection domain.
    pub fn alloc_pd(&self) -> Result<Pd<P>, VerbsError> {
        let handle = self.provider().alloc_pd(self.0.handle)?;
        Ok(Pd(Rc::new(PdInner { context: self.clone(), handle })))
    }

    /// Allocates `len` bytes of memory on the device (ibv_alloc_dm(3)). Work requests and the peers of its
    /// regions access it, but cores do not.
    pub fn alloc_dm(&self, len: u64) -> Result<Mem, VerbsError> {
        self.provider().alloc_dm(self.0.handle, len)
    }

    /// Creates a completion queue of at least `cqe` entries.
    pub fn create_cq(&self, cqe: u32) -> Result<Cq<P>, VerbsError> {
        let handle = self.provider().create_cq(self.0.handle, cqe)?;
        Ok(Cq(Rc::new(CqInner { context: self.clone(), handle })))
    }
}

/// A protection domain.
#[derive(Clone)]
pub struct Pd<P: Provider>(Rc<PdInner<P>>);

struct PdInner<P: Provider> {
    context: Context<P>,
    handle: PdHandle,
}

impl<P: Provider> Drop for PdInner<P> {
    fn drop(&mut self) {
        self.context.provider().dealloc_pd(self.handle);
    }
}

impl<P: Provider> Pd<P> {
    pub(crate) fn provider(&self) -> &P {
        self.0.context.provider()
    }

    pub(crate) fn handle(&self) -> PdHandle {
        self.0.handle
    }

    /// The device of the protection domain.
    pub fn context(&self) -> &Context<P> {
        &self.0.context
    }

    /// Registers memory.
    pub fn reg_mr(&self, mem: Mem, access: AccessFlags) -> Result<Mr<P>, VerbsError> {
        let (handle, keys) = self.provider().reg_mr(self.0.handle, mem, access)?;
        Ok(Mr(Rc::new(MrInner { pd: self.clone(), handle, mem, keys })))
    }
}

/// A memory region.
#[derive(Clone)]
pub struct Mr<P: Provider>(Rc<MrInner<P>>);

struct MrInner<P: Provider> {
    pd: Pd<P>,
    handle: MrHandle,
    mem: Mem,
    keys: MrKeys,
}

impl<P: Provider> Drop for MrInner<P> {
    fn drop(&mut self) {
        self.pd.provider().dereg_mr(self.handle);
    }
}

impl<P: Provider> Mr<P> {
    /// The registered memory.
    pub fn mem(&self) -> Mem {
        self.0.mem
    }

    /// The key for SGEs.
    pub fn lkey(&self) -> u32 {
        self.0.keys.lkey
    }

    /// The key for remote requesters.
    pub fn rkey(&self) -> u32 {
        self.0.keys.rkey
    }

    /// An SGE of `length` bytes from `offset`.
    ///
    /// # Panics
    /// If the bytes do not lie within the region.
    pub fn sge(&self, offset: u64, length: u32) -> Sge {
        let part = self.0.mem.slice(offset, u64::from(length));
        Sge { addr: part.addr(0), length, lkey: self.lkey() }
    }

    /// The address of `offset` and the rkey, for a remote requester.
    pub fn remote(&self, offset: u64) -> RemoteAddr {
        RemoteAddr { addr: self.0.mem.addr(offset), rkey: self.rkey() }
    }
}

/// A completion queue.
#[derive(Clone)]
pub struct Cq<P: Provider>(Rc<CqInner<P>>);

struct CqInner<P: Provider> {
    context: Context<P>,
    handle: CqHandle,
}

impl<P: Provider> Drop for CqInner<P> {
    fn drop(&mut self) {
        self.context.provider().destroy_cq(self.handle);
    }
}

impl<P: Provider> Cq<P> {
    pub(crate) fn handle(&self) -> CqHandle {
        self.0.handle
    }

    /// Polls completions into the front of `wc`, oldest first, and returns them.
    pub fn poll<'w>(&self, wc: &'w mut [Wc]) -> Result<&'w [Wc], VerbsError> {
        let n = self.0.context.provider().poll_cq(self.0.handle, wc)?;
        Ok(&wc[..n])
    }

    /// Polls until there is a completion or `deadline` comes.
    pub fn wait(&self, deadline: crate::Time) -> Result<Option<Wc>, VerbsError> {
        let provider = self.0.context.provider();
        let mut wc = [Wc::default()];
        loop {
            if let Some(wc) = self.poll(&mut wc)?.first() {
                return Ok(Some(*wc));
            }
            if provider.now() >= deadline {
                return Ok(None);
            }
            provider.pause(deadline);
        }
    }
}
