//! A verbs provider on any libibverbs.so.1.
