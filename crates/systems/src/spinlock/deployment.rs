//! Deployment of spinlocks.

use super::Waits;
use super::client::{Section, SpinlockClient};
use super::config::{LocalSpinlock, Locks, Release, RemoteSpinlock, RpcSpinlock};
use super::layout::Layout;
use super::leased::Leased;
use super::local::{self, Local};
use super::lock::Design;
use super::remote::Remote;
use super::rpc::{self, Rpc};
use crate::config::{Clients, OneByOne, Timing};
use crate::site::{Dress, Site, SiteError};
use crate::{Measured, System, SystemShape};
use doorbell_schema::{Duration, Given};
use doorbell_verbs::{Cluster, Span};

/// The span that a latency covers.
const LATENCY: &str = "a lock, from the first attempt to acquire it until its release";

impl Locks {
    /// The work that each client repeats.
    fn section(&self, timing: &Timing) -> Section {
        Section {
            locks: self.locks,
            hold: self.hold.span(),
            data: self.data,
            waits: Waits { first: self.backoff.span(), most: self.backoff_most.span() },
            limit: 0,
            seed: timing.seed,
        }
    }

    /// Layout of the locks, with one slot for the data of each.
    fn layout(&self) -> Layout {
        Layout { locks: self.locks, data: self.data, slots: 1 }
    }

    /// Bytes that a client has for the counts of the locks, if they guard data.
    fn count_bytes(&self) -> u64 {
        if self.data > 0 { 8 * u64::from(self.locks) } else { 0 }
    }
}

impl RemoteSpinlock {
    /// Layout of the locks, and of the slots for their data.
    pub(super) fn layout(&self) -> Layout {
        let Locks { locks, data, .. } = self.locks;
        match self.is_leased() {
            true => Leased::layout(self.clients.clients().clients, (locks, data), self.fencing),
            false => self.locks.layout(),
        }
    }
}

fn add_clients<C: Cluster, D: Dress>(
    site: &mut Site<'_, C, Measured, D>,
    design: &impl Design,
    section: Section,
    places: impl Iterator<Item = (u32, u32)>,
) {
    for (number, place) in (0..).zip(places) {
        let interval = site.client_interval();
        site.add_client(place, SpinlockClient { design: design.clone(), number, section, interval });
    }
}

/// Machine and core of each client, if clients run on several machines.
fn spread(clients: &Clients) -> impl Iterator<Item = (u32, u32)> {
    (0..clients.clients).map(|number| clients.place(number))
}

impl System for LocalSpinlock {
    const NAME: &'static str = "local-spinlock";
    const ABOUT: &'static str =
        "Spinlock by compare-and-swap of threads of one machine; the server takes no part";
    const DESIGN: Option<(&'static str, &'static str)> = Some(("spinlock", "local"));

    fn usual() -> LocalSpinlock {
        let clients = OneByOne::new(8, 8);
        LocalSpinlock { clients, locks: Locks::USUAL, timing: Timing::USUAL, release: Release::Write }
    }

    fn check(&self) -> Result<(), String> {
        self.clients.refuse()?;
        self.locks.refuse(&self.locks.layout())
    }

    fn shape(&self) -> SystemShape {
        SystemShape {
            store_bytes: self.locks.layout().bytes(),
            client_bytes: self.locks.count_bytes(),
            latency_of: Some(LATENCY),
            one_machine: true,
            competes: true,
            retries_at_once: self.locks.backoff.span() == Span::ZERO,
            ..SystemShape::of(self.clients.clients())
        }
    }

    fn deploy<C: Cluster, D: Dress>(&self, site: &mut Site<'_, C, Measured, D>) -> Result<(), SiteError> {
        let local = Local::put_up(site, self.locks.layout(), self.release)?;
        let places = (0..self.clients.clients().clients).map(|number| (local::MACHINE, number));
        add_clients(site, &local, self.locks.section(&self.timing), places);
        Ok(())
    }
}

impl System for RemoteSpinlock {
    const NAME: &'static str = "remote-spinlock";
    const ABOUT: &'static str =
        "Spinlock by RDMA compare-and-swap on the server's memory, with or without a lease";
    const DESIGN: Option<(&'static str, &'static str)> = Some(("spinlock", "remote"));

    /// The paper does not say how a lock is released. The default costs the NIC less.
    fn usual() -> RemoteSpinlock {
        RemoteSpinlock {
            clients: OneByOne::new(8, 16),
            locks: Locks::USUAL,
            timing: Timing::USUAL,
            release: Release::Write,
            lease: Duration::new(Span::ZERO),
            drift: RemoteSpinlock::USUAL_DRIFT,
            fencing: true,
        }
    }

    /// A lock with a lease is released by compare-and-swap.
    fn settle(&mut self, given: &Given) {
        if self.is_leased() && given.get(RemoteSpinlock::release.key).is_none() {
            self.release = Release::Cas;
        }
    }

    fn check(&self) -> Result<(), String> {
        self.refuse()
    }

    fn shape(&self) -> SystemShape {
        let known = if self.is_leased() { Leased::known_bytes(self.locks.locks) } else { 0 };
        SystemShape {
            store_bytes: self.layout().bytes(),
            client_bytes: self.locks.count_bytes() + known,
            latency_of: Some(LATENCY),
            competes: true,
            ..SystemShape::of(self.clients.clients())
        }
    }

    fn deploy<C: Cluster, D: Dress>(&self, site: &mut Site<'_, C, Measured, D>) -> Result<(), SiteError> {
        let (clients, section) = (self.clients.clients(), self.locks.section(&self.timing));
        if self.is_leased() {
            let locks = (self.locks.locks, self.locks.data);
            let terms = (self.lease.span(), self.drift.span(), self.fencing);
            let leased = Leased::put_up(site, clients.clients, locks, terms)?;
            add_clients(site, &leased, section, spread(clients));
        } else {
            let remote = Remote::put_up(site, clients.clients, self.locks.layout(), self.release)?;
            add_clients(site, &remote, section, spread(clients));
        }
        Ok(())
    }
}

impl System for RpcSpinlock {
    const NAME: &'static str = "rpc-spinlock";
    const ABOUT: &'static str =
        "Spinlock kept by threads of the server, each with locks of its own, with requests by RC SEND";
    const DESIGN: Option<(&'static str, &'static str)> = Some(("spinlock", "rpc"));

    fn usual() -> RpcSpinlock {
        RpcSpinlock { clients: OneByOne::new(8, 16), locks: Locks::USUAL, timing: Timing::USUAL, cores: 1 }
    }

    fn check(&self) -> Result<(), String> {
        self.locks.refuse(&self.locks.layout())
    }

    fn shape(&self) -> SystemShape {
        let data = if self.locks.data > 0 { self.locks.layout().bytes() } else { 0 };
        SystemShape {
            workers: Some(self.cores),
            store_bytes: data + rpc::table_bytes(self.locks.locks),
            client_bytes: self.locks.count_bytes(),
            latency_of: Some(LATENCY),
            competes: true,
            ..SystemShape::of(self.clients.clients())
        }
    }

    fn deploy<C: Cluster, D: Dress>(&self, site: &mut Site<'_, C, Measured, D>) -> Result<(), SiteError> {
        let (clients, section) = (self.clients.clients(), self.locks.section(&self.timing));
        let rpc = Rpc::put_up(site, clients.clients, self.locks.layout(), self.cores)?;
        add_clients(site, &rpc, section, spread(clients));
        Ok(())
    }
}
