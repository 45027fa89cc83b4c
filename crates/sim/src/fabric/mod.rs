//! What lies between the ports.

pub(crate) mod loss;
