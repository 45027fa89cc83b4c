//! Proxy sockets in virtual time.
#![allow(clippy::disallowed_types, reason = "who counts is no part of the system")]

use crate::common::{PATIENCE, cluster};
use doorbell_systems::config::Clients;
use doorbell_systems::proxy::{Path, Proxy, put_up};
use doorbell_systems::site::{Course, Dress, Site};
use doorbell_systems::{Measured, System};
use doorbell_systems_suite::{Layer, Layered};
use doorbell_verbs::{Mem, Program, Provider, QpHandle, QpInitAttr, Span};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// A layer that counts QPs, and that stops before each 64-bit store. Such a store is part of a request, or
/// reports a result.
#[derive(Clone, Default)]
struct Around {
    qps: Arc<AtomicU32>,
    stops: Option<Span>,
}

impl Layer for Around {
    fn created(&self, _: QpHandle, _: &QpInitAttr) {
        self.qps.fetch_add(1, Ordering::Relaxed);
    }

    fn store_u64<P: Provider>(&self, below: &P, mem: Mem, offset: u64, value: u64) {
        let until = below.now() + self.stops.unwrap_or(Span::ZERO);
        while below.now() < until {
            below.pause(until);
        }
        below.store_u64(mem, offset, value);
    }
}

/// A program in the layer [`Around`].
struct Dressed<T>(T, Around);

impl<T: Program> Program for Dressed<T> {
    type Output = T::Output;

    fn run<P: Provider>(self, p: P) -> T::Output {
        self.0.run(Layered::new(p, self.1))
    }
}

impl Dress for Around {
    fn server<T: Program>(self, _: u32, program: T) -> impl Program<Output = T::Output> {
        Dressed(program, self)
    }

    fn client<T: Program>(self, _: u32, program: T) -> impl Program<Output = T::Output> {
        Dressed(program, self)
    }
}

/// Runs the system with `limit` READs of each client. Returns the number of QPs, counted at both ends, and
/// the number of READs by proxies.
fn run(profile: &str, config: &Proxy, limit: u64, stops: Option<Span>) -> (u32, u64) {
    let around = Around { stops, ..Around::default() };
    let mut cluster = cluster(profile, config.shape().machines, |_| ());
    let mut site: Site<'_, _, Measured, Around> =
        Site::dressed(&mut cluster, Course::Patience(PATIENCE), around.clone()).unwrap();
    put_up(&mut site, config, limit).unwrap();
    let ended = site.run().unwrap().expect("all machines are in this process");
    assert!(ended.clients.iter().all(|client| client.done == limit), "{ended:?}");
    (around.qps.load(Ordering::Relaxed), ended.clients.iter().map(|client| client.replies).sum())
}

/// `m` machines of `s` sockets, with a thread at each socket.
fn config(path: Path, m: u32, s: u32) -> Proxy {
    let clients = Clients::new(m * s, s, 4, false);
    Proxy { clients, path, sockets: s, cores_per_socket: 4, unmatched_permille: 1000, ..Proxy::usual() }
}

#[test]
fn qps_are_as_many_as_the_paper_counts() {
    for (m, s) in [(1, 1), (1, 2), (3, 2), (2, 3)] {
        let qps = |path| run("cx3", &config(path, m, s), 10, None).0;
        assert_eq!(qps(Path::Direct), s * s * 2 * m, "all to all, {m} machines of {s} sockets");
        assert_eq!(qps(Path::Proxy), s * 2 * m, "by proxies, {m} machines of {s} sockets");
        assert_eq!(qps(Path::Home), s * 2 * m, "to the match, {m} machines of {s} sockets");
    }
}

#[test]
fn a_proxy_reads_what_is_asked_for() {
    for profile in ["cx3-dual", "cx3-dual-split", "cib"] {
        for stops in [None, Some(Span::from_us(3))] {
            let (_, by_proxy) = run(profile, &config(Path::Proxy, 2, 2), 100, stops);
            assert_eq!(by_proxy, 400, "{profile}");
            let (_, by_proxy) = run(profile, &config(Path::Direct, 2, 2), 100, stops);
            assert_eq!(by_proxy, 0, "{profile}");
            // With one socket, all memory is at the thread's own socket.
            let (_, by_proxy) = run(profile, &config(Path::Proxy, 2, 1), 100, stops);
            assert_eq!(by_proxy, 0, "{profile}");
        }
    }
}
