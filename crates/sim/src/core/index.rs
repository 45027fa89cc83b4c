//! Typed ids, one type for each kind of thing, and the collections that they index.

use std::marker::PhantomData;
use std::ops::{Index, IndexMut};

/// A number that names one of many things.
pub(crate) trait Id: Copy {
    /// The id of thing `index`. There are fewer than `u32::MAX` things of a kind.
    fn from_index(index: usize) -> Self;
    /// The index of the thing among the things of its kind.
    fn index(self) -> usize;
}

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident($number:ty);)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub(crate) struct $name(pub(crate) $number);

        impl Id for $name {
            #[inline]
            fn from_index(index: usize) -> $name {
                debug_assert!(index <= <$number>::MAX as usize);
                $name(index as $number)
            }
            #[inline]
            fn index(self) -> usize {
                self.0 as usize
            }
        }
    )*};
}

ids! {
    /// A machine of the cluster.
    MachineId(u16);
    /// A core of a machine.
    CoreId(u8);
    /// A thread of the cluster.
    ThreadId(u32);
    /// A device of the cluster.
    DeviceId(u16);
    /// A port of the fabric.
    PortId(u32);
    /// A QP of a device.
    QpId(u32);
    /// A CQ of a device.
    CqId(u32);
    /// A receive queue of a device: a QP's own or a shared one.
    RecvQueueId(u32);
    /// A slot of a send queue.
    WqeId(u32);
    /// A processing unit of a device, counted among the sending or among the receiving units.
    UnitId(u16);
    /// A lock for atomics of a device.
    LockId(u32);
    /// A lock of a device's driver.
    DriverLockId(u32);
    /// A packet in flight.
    FlightId(u32);
    /// A DMA read of a device that is in flight.
    ReadId(u32);
    /// A TCP socket of a machine.
    SocketId(u32);
    /// The contents of a TCP frame in flight.
    SegmentId(u32);
}

/// An optional id of kind `I`, in 32 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Maybe<I> {
    number: u32,
    names: PhantomData<I>,
}

impl<I: Id> Maybe<I> {
    pub(crate) const NONE: Maybe<I> = Maybe { number: u32::MAX, names: PhantomData };

    #[inline]
    pub(crate) fn some(id: I) -> Maybe<I> {
        Maybe { number: id.index() as u32, names: PhantomData }
    }

    #[inline]
    pub(crate) fn get(self) -> Option<I> {
        (self.number != u32::MAX).then(|| I::from_index(self.number as usize))
    }

    /// The id.
    ///
    /// # Panics
    /// With `why`, if there is none.
    #[inline]
    pub(crate) fn expect(self, why: &str) -> I {
        assert!(self.number != u32::MAX, "{why}");
        I::from_index(self.number as usize)
    }

    #[inline]
    pub(crate) fn is_none(self) -> bool {
        self.number == u32::MAX
    }
}

/// Values indexed by a typed id.
#[derive(Clone, Debug)]
pub(crate) struct IdVec<I, T> {
    items: Vec<T>,
    named_by: PhantomData<I>,
}

impl<I: Id, T> IdVec<I, T> {
    pub(crate) const fn new() -> IdVec<I, T> {
        IdVec { items: Vec::new(), named_by: PhantomData }
    }

    /// Adds a value and returns its id. Capacity grows by an eighth, because there may be many large values.
    pub(crate) fn push(&mut self, item: T) -> I {
        if self.items.len() == self.items.capacity() {
            self.items.reserve_exact((self.items.len() / 8).max(16));
        }
        self.items.push(item);
        I::from_index(self.items.len() - 1)
    }

    pub(crate) fn len(&self) -> usize {
        self.items.len()
    }

    #[inline]
    pub(crate) fn get(&self, id: I) -> Option<&T> {
        self.items.get(id.index())
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, id: I) -> Option<&mut T> {
        self.items.get_mut(id.index())
    }

    pub(crate) fn iter(&self) -> std::slice::Iter<'_, T> {
        self.items.iter()
    }

    /// The values with their ids.
    pub(crate) fn named(&self) -> impl Iterator<Item = (I, &T)> {
        self.items.iter().enumerate().map(|(i, item)| (I::from_index(i), item))
    }

    pub(crate) fn iter_mut(&mut self) -> std::slice::IterMut<'_, T> {
        self.items.iter_mut()
    }
}

impl<I: Id, T> FromIterator<T> for IdVec<I, T> {
    fn from_iter<A: IntoIterator<Item = T>>(items: A) -> IdVec<I, T> {
        IdVec { items: items.into_iter().collect(), named_by: PhantomData }
    }
}

impl<I: Id, T> Index<I> for IdVec<I, T> {
    type Output = T;
    #[inline]
    fn index(&self, id: I) -> &T {
        &self.items[id.index()]
    }
}

impl<I: Id, T> IndexMut<I> for IdVec<I, T> {
    #[inline]
    fn index_mut(&mut self, id: I) -> &mut T {
        &mut self.items[id.index()]
    }
}
