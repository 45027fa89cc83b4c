//! The C ABI of libibverbs.
