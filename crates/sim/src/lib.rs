//! A verbs provider in virtual time.
