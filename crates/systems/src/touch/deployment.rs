//! Deployment of the server that scans: the server on machine 0, its client on machine 1.

use super::config::{Mode, Order, Reading, Response, Scanned, Stack, Tenancy, Touch};
use super::protocol::{TouchClient, TouchServer, Verdict};
use super::tenant::Tenant;
use crate::config::{Clients, Timing};
use crate::site::{Dress, Site, SiteError};
use crate::{Measured, System, SystemShape};
use doorbell_schema::{Duration, Given};
use doorbell_verbs::{Cluster, PageSize, Span};

/// One client, with one request at a time.
const ALONE: Clients = Clients::new(1, 1, 1, false);

/// The core of the tenant's thread, after the server's thread.
const TENANT: u32 = 1;

impl Touch {
    /// Bytes of up to four buffers on both machines, of the drawn order of their lines, and of the tenant's
    /// memory. Each buffer has the size of a response.
    fn memory(&self) -> u64 {
        let tenant = if self.tenant == Tenancy::Own { self.tenant_bytes } else { 0 };
        5 * u64::from(self.size) + u64::from(tenant)
    }

    /// The first parameter with another value than its default, among those that only matter if caches have
    /// sizes. They decide which accesses of a scan hit, or the work of a scan besides its accesses.
    fn needs_sizes(&self) -> Option<(&'static str, String)> {
        let usual = Touch::usual();
        let given = [
            (Touch::mode.key, "notouch".to_owned(), self.mode != usual.mode),
            (Touch::scan.key, "read".to_owned(), self.scan != usual.scan),
            (Touch::order.key, "random".to_owned(), self.order != usual.order),
            (Touch::instructions.key, self.instructions.to_string(), self.instructions != usual.instructions),
            (
                Touch::prefetch_lines.key,
                self.prefetch_lines.to_string(),
                self.prefetch_lines != usual.prefetch_lines,
            ),
        ];
        given.into_iter().find(|(_, _, differs)| *differs).map(|(key, value, _)| (key, value))
    }
}

impl System for Touch {
    const NAME: &'static str = "touch";
    const ABOUT: &'static str = "Server that scans a buffer before it answers";

    /// Values of Table 3 of CoNEXT'13: 256 kB, and every line scanned word by word.
    fn usual() -> Touch {
        Touch {
            timing: Timing::USUAL,
            size: 256 << 10,
            mode: Mode::Touch,
            scan: Scanned::Write,
            stack: Stack::Rdma,
            response: Response::Send,
            step: 8,
            instructions: Scanned::Write.instructions(),
            order: Order::Sequential,
            prefetch_lines: 0,
            sends_per_fill: 1,
            compute: Duration::new(Span::ZERO),
            client_scan: Reading::None,
            tenant: Tenancy::None,
            tenant_bytes: 4 << 20,
        }
    }

    fn settle(&mut self, given: &Given) {
        if given.get(Touch::instructions.key).is_none() {
            self.instructions = self.scan.instructions();
        }
    }

    fn check(&self) -> Result<(), String> {
        Touch::check(self)
    }

    fn shape(&self) -> SystemShape {
        SystemShape {
            store_bytes: self.memory(),
            beside: (self.tenant != Tenancy::None).then_some(TENANT),
            needs_sizes: self.needs_sizes(),
            over_tcp: self.stack == Stack::Tcp,
            ..SystemShape::of(&ALONE)
        }
    }

    fn deploy<C: Cluster, D: Dress>(&self, site: &mut Site<'_, C, Measured, D>) -> Result<(), SiteError> {
        let Touch { stack, response, size, mode, scan, sends_per_fill, .. } = *self;
        // Programs allocate memory in small pages, which may be anywhere in physical memory.
        let mut alloc = |len: u32| site.cluster().alloc(0, len.into(), PageSize::Small);
        let buffer = alloc(size)?;
        let own = if self.tenant == Tenancy::Own { Some(alloc(self.tenant_bytes)?) } else { None };
        let interval = site.server_interval();
        let (walk, sends_per_fill, compute) = (self.walk(), sends_per_fill.into(), self.compute.span());
        site.add_server(TouchServer {
            stack,
            response,
            mode,
            scan,
            walk,
            sends_per_fill,
            compute,
            buffer,
            interval: interval.clone(),
        });
        let memory = match self.tenant {
            Tenancy::None => None,
            Tenancy::Own => own,
            Tenancy::Shared => Some(buffer),
        };
        if let Some(memory) = memory {
            site.add_server(Tenant { walk: self.walk_of(memory.len()), memory, interval });
        }
        let (walk, reading, interval) = (self.walk(), self.client_scan, site.client_interval());
        let verdict = Verdict::Trusted;
        site.add_client(
            (1, 0),
            TouchClient { stack, response, size, reading, walk, limit: 0, verdict, interval },
        );
        Ok(())
    }
}
