//! Text about a resolved workload.

use crate::posted;
use crate::report;
use crate::table;
use doorbell_lab::{
    Addresses, AtomicCounters, BufferOffset, DmaGain, Pattern, Pieces, Profiles, Resolved, ResolvedClass,
    Window,
};
use doorbell_nic::{Digits, counted};
use doorbell_verbs::QpType;

/// Text about the pattern. If threads have fewer connected QPs than there are machines, they reach only some
/// machines.
fn pattern(w: &Resolved) -> String {
    let few = |reached: u32, all: u32| w.transport != QpType::Ud && reached < all;
    match w.pattern {
        Pattern::Outbound if few(w.threads - 1 + w.qps, w.machines - 1) => match w.threads - 1 + w.qps {
            1 => "outbound: machine 0 posts to machine 1".to_owned(),
            last => format!(
                "outbound: machine 0 posts to machines 1 to {last}, because it has no QPs to \
                 the rest"
            ),
        },
        Pattern::Outbound => "outbound: machine 0 posts to the others".to_owned(),
        Pattern::Inbound => "inbound: the others post to machine 0".to_owned(),
        Pattern::AllToAll if few(w.qps, w.machines) => {
            let last = w.qps - 1;
            format!(
                "all-to-all: every machine posts to machines 0 to {last}, because it has no QPs to the \
                 rest"
            )
        }
        Pattern::AllToAll => "all-to-all: every machine posts to the others".to_owned(),
    }
}

/// Rows about the placement of memory and the use of the NIC.
fn memory(w: &Resolved) -> Vec<(&'static str, String)> {
    let sges = w.sges.map(|sges| match w.pieces {
        Some(Pieces::Apart) => format!("{sges}, each in cache lines of its own"),
        _ => format!("{sges} side by side"),
    });
    let offset = w.offset.map(|offset| match offset {
        BufferOffset::Drawn => "random for each buffer".to_owned(),
        BufferOffset::At(byte) => format!("{byte} B from the start of a line"),
    });
    let order = match w.addresses() {
        Addresses::Sequential => "one buffer after the other",
        Addresses::Random => "buffers at random",
        Addresses::AnyByte => "from a random byte on",
    };
    let region = |bytes: Option<u64>| Some(format!("{} B per thread, {order}", bytes?));
    let rows = [
        ("CQs", w.cq_per_qp.then(|| "one for each QP".to_owned())),
        ("max-rd-atomic", w.max_rd_atomic.map(|most| format!("{most} per QP"))),
        ("sges", sges),
        ("offset", offset),
        ("local-region", region(w.local_region)),
        ("remote-region", region(w.remote_region)),
        (
            "remote-addresses",
            w.at_one_address().then(|| "one of each machine, for all operations".to_owned()),
        ),
        ("remote-memory", w.in_device_memory().then(|| "on the NIC".to_owned())),
    ];
    rows.into_iter().filter_map(|(name, said)| Some((name, said?))).collect()
}

/// Changed parameters of the profiles, by group if machines differ.
fn set(w: &Resolved) -> Option<String> {
    let of_groups = w.machine.iter().flatten().zip(w.group_names());
    let of_groups = of_groups.filter_map(|(group, name)| Some((group.set.as_ref()?, name)));
    let each: Vec<String> =
        of_groups.map(|(set, name)| format!("{}: {name}", report::settings(set))).collect();
    w.set.as_ref().map(report::settings).or((!each.is_empty()).then(|| each.join("; ")))
}

/// Rows about a resolved workload as a whole. Thread classes have their own tables.
pub(crate) fn rows(profiles: &Profiles, w: &Resolved) -> Vec<(&'static str, String)> {
    let machines = match w.has_groups() {
        true => format!("{}: {}", w.machines, w.group_names().join(", ")),
        false => w.machines.to_string(),
    };
    let mut rows = if w.has_groups() { Vec::new() } else { vec![("profile", w.profile.clone())] };
    rows.extend(w.host.clone().map(|host| ("host", host)));
    rows.extend(w.pcie.map(|slot| ("PCIe", slot.to_string())));
    rows.extend(w.link.map(|link| ("link", link.to_string())));
    rows.extend(set(w).map(|set| ("set by you", set)));
    let ports = w.ports.map(|ports| ("ports", ports.to_string()));
    if w.has_classes() {
        let classes = match w.classes().len() {
            1 => "1 class".to_owned(),
            several => format!("{several} classes"),
        };
        rows.extend([
            ("machines", machines),
            ("threads", format!("{} per machine, in {classes}", w.threads)),
        ]);
        rows.extend(ports);
        rows.extend(counters(w));
    } else {
        rows.extend(posted::what(w));
        rows.extend([("machines", machines), ("threads", format!("{} per machine", w.threads))]);
        rows.extend(posting(profiles, w));
        rows.extend(ports);
        rows.extend(details(w));
        rows.extend(counters(w));
        rows.push(("pattern", pattern(w)));
    }
    rows.push(("seed", w.seed.to_string()));
    rows
}

/// A table for each thread class; empty without classes.
pub(crate) fn classes(profiles: &Profiles, w: &Resolved) -> String {
    if !w.has_classes() {
        return String::new();
    }
    let of = |ResolvedClass { name, threads, workload: own }: ResolvedClass<'_>| {
        let threads = match threads.len() {
            1 => format!("thread {}", threads.start),
            _ => format!("threads {} to {}", threads.start, threads.end - 1),
        };
        let rows = posted::what(own).into_iter().chain(posting(profiles, own)).chain(details(own));
        let rows = rows.chain([("pattern", pattern(own))]).collect();
        format!("\nClass {name}: {threads} of each machine\n{}", table::pairs(rows))
    };
    w.classes().into_iter().map(of).collect()
}

/// Rows about posting.
fn posting(profiles: &Profiles, w: &Resolved) -> Vec<(&'static str, String)> {
    let of_window = match w.window() {
        Window::PerThread(_) => "thread",
        Window::PerQp(_) => "QP",
    };
    let window = counted(w.window().operations().into(), "operation");
    vec![
        ("qps", format!("{} per thread", w.qps)),
        ("window", format!("{window} per {of_window}")),
        ("batch", format!("{} per doorbell", w.batch)),
        ("signal-every", w.signal_every.to_string()),
        ("inline", inline(profiles, w)),
    ]
}

/// Whether payload is inline. If payload that fits is not, because DMA is faster, the text gives the reason.
fn inline(profiles: &Profiles, w: &Resolved) -> String {
    let choice = w.inline_up_to().map_or(on_off(w.inlines()), |most| format!("up to {most} B"));
    let why = match w.dma_gain(profiles) {
        None => String::new(),
        Some(DmaGain::Rate { inlined, by_dma }) => {
            let (inlined, by_dma) = (Digits(inlined, 2), Digits(by_dma, 2));
            format!(": DMA raises the lowest bound from {inlined} to {by_dma} Mops")
        }
        Some(DmaGain::Latency { inlined, by_dma }) => {
            format!(": DMA lowers the least latency from {} to {} ns", Digits(inlined, 0), Digits(by_dma, 0))
        }
    };
    choice + &why
}

fn on_off(flag: bool) -> String {
    if flag { "yes" } else { "no" }.to_owned()
}

/// Rows about options that have their usual values in most workloads.
fn details(w: &Resolved) -> Vec<(&'static str, String)> {
    let mut rows = memory(w);
    rows.extend(posted::when(w));
    if w.drain {
        rows.push(("drain", on_off(w.drain)));
    }
    if w.consumes_recvs() {
        rows.push(("header-only", on_off(w.header_only)));
        rows.push(("inline-receive", on_off(w.inline_recv)));
    }
    rows
}

fn counters(w: &Resolved) -> Option<(&'static str, String)> {
    let AtomicCounters { count, stride } = w.counters?;
    Some(("counters", format!("{count}, {stride} B apart")))
}
