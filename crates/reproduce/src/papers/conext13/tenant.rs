//! CoNEXT'13, 4.1: a tenant on the server's machine. The server's work may evict the tenant's lines from the
//! caches.

use super::runs::{self, CLUSTER, MB, TABLE_3, phase_us, touch};
use crate::experiment::percent_more;
use crate::experiment::{Check, Ctx, Experiment, Findings, Runs};
use doorbell_lab::NotYet;
use doorbell_systems::Phase;
use doorbell_systems::touch::{Mode, Scanned, Tenancy, Touch};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "tenant",
    paper: "conext13",
    title: "a tenant on another core: its memory, and the buffer that is sent",
    claims: &["doorbell-tenant-own", "doorbell-tenant-shared"],
    runs: Runs::Touch,
    run,
};

/// Largest slowdown, in percent, that counts as none.
const SAME: f64 = 5.0;

/// Bytes of the tenant's own memory. Alone, they fit the LLC of 18 MB. Together with two buffers of 4 MB,
/// they do not.
const OWN: u32 = 14 * MB;

/// A server without load: it does not scan, and sends one byte.
fn alone(t: &Touch) -> Touch {
    Touch { size: 1, tenant_bytes: t.tenant_bytes, ..t.clone() }
}

fn run(ctx: &Ctx<'_>) -> Result<Findings, NotYet> {
    let profile = ctx.profile(CLUSTER);
    let own = Touch { tenant: Tenancy::Own, tenant_bytes: OWN, ..touch(Mode::Touch, Scanned::Read, 4 * MB) };
    let shared = |mode| Touch { tenant: Tenancy::Shared, ..touch(mode, Scanned::Read, TABLE_3) };
    let quiet = with_pauses(shared(Mode::NoTouch));
    let asked = [alone(&own), own, quiet, shared(Mode::NoTouch)];
    let found = runs::systems(ctx, profile, "tenant", &asked);
    let snapshots = runs::with_caches(ctx, |h| h.reads_own = false);
    let kept = runs::systems(ctx, &snapshots, "tenant", &asked[3..]);
    let (found, kept) = (found?, kept?);
    let pass = |i: usize| phase_us(&found[i], Phase::TenantPass);
    let slower = percent_more(pass(0), pass(1));
    let purged = percent_more(pass(2), pass(3));
    let spared = percent_more(pass(2), phase_us(&kept[0], Phase::TenantPass));
    let checks = vec![
        Check::statement(
            "doorbell-tenant-own",
            CLUSTER,
            slower > SAME,
            format!("14 MB, beside responses of 4 MB: a pass takes {slower:.1}% longer"),
        ),
        Check::statement(
            "doorbell-tenant-shared",
            CLUSTER,
            purged > SAME && spared < SAME,
            format!(
                "256 kB that are sent again and again: a pass takes {purged:.1}% longer than with \
                 occasional sends; {spared:.1}% if the NIC reads without ownership"
            ),
        ),
    ];
    Ok(Findings { checks, ..Findings::default() })
}

/// The workload with so much computation per request that the server hardly ever sends.
fn with_pauses(t: Touch) -> Touch {
    let mut t = Touch { compute: doorbell_lab::Duration::new(doorbell_verbs::Span::from_ms(20)), ..t };
    runs::measure(&mut t, 1, 2);
    t
}
