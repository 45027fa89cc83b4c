//! Handles of objects in the provider interface.

macro_rules! handles {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {$(
        $(#[$doc])*
        ///
        /// The handle names an object of one provider and thread. A provider refuses a handle that it does
        /// not know.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub struct $name(pub u32);
    )*};
}

handles! {
    /// An opened device.
    DeviceHandle,
    /// A protection domain.
    PdHandle,
    /// A memory region.
    MrHandle,
    /// A completion queue.
    CqHandle,
    /// A queue pair.
    QpHandle,
    /// A shared receive queue.
    SrqHandle,
    /// An address handle.
    AhHandle,
}
