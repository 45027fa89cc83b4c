//! The counts as text.

use super::report::{Counts, NOT_COUNTED, Report, TIMING};
use super::together::Together;
use doorbell_nic::accounting::Transactions;
use doorbell_nic::counted;
use doorbell_nic::limits::Limit;
use doorbell_workload::Workload;
use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};

/// The most QPs that are printed one by one. The JSON has all QPs.
const PRINTED_QPS: usize = 16;
/// The most entries of a histogram that are printed.
const PRINTED_BUCKETS: usize = 12;
/// The most characters of a line.
const LINE: usize = 110;

impl Display for Report {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Report { program, pid, profile, .. } = self;
        writeln!(f, "\ndoorbell: {program} (process {pid}, {}) on profile {profile}", self.role.name())?;
        counts(
            f,
            &self.total,
            self.limits.first(),
            &format!(" on {}", counted(self.qps.len() as u64, "QP")),
        )?;
        if let Some(w @ Workload { transport: Some(transport), .. }) = &self.workload {
            let share = 100.0 * self.workload_share;
            let what = posted(w).unwrap_or_default();
            let text = format!("{what} over {transport}: {share:.0}% of the work requests");
            wrapped(f, "  workload    ", &text)?;
        }
        told_left_out(f, &self.left_out)?;
        if self.qps.len() > 1 {
            for qp in self.qps.iter().take(PRINTED_QPS) {
                writeln!(f, "  QP {:#x}, {}", qp.qp_num, qp.transport)?;
                counts(f, &qp.counts, qp.limit.as_ref(), "")?;
            }
            if let more @ 1.. = self.qps.len().saturating_sub(PRINTED_QPS) {
                writeln!(f, "  {}: --stats-json lists all QPs", counted(more as u64, "more QP"))?;
            }
        }
        for note in [TIMING, NOT_COUNTED] {
            wrapped(f, "  note        ", note)?;
        }
        Ok(())
    }
}

impl Display for Together {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f)?;
        wrapped(f, "doorbell: ", &self.words())?;
        counts(f, self.total(), None, "")?;
        told_left_out(f, self.left_out())
    }
}

fn told_left_out(f: &mut Formatter<'_>, left_out: &[String]) -> fmt::Result {
    left_out.iter().try_for_each(|what| wrapped(f, "  left out    ", what))
}

/// The work requests of a workload, as text.
fn posted(w: &Workload) -> Option<String> {
    let one = || Some(format!("{} of {} bytes", w.verb?, w.size?));
    // The spaces allow a line break after each item.
    let mix = w.mix.as_ref().map(|mix| format!("mix of {}", mix.to_string().replace(',', ", ")));
    mix.or_else(one)
}

fn counts(f: &mut Formatter<'_>, c: &Counts, limit: Option<&Limit>, place: &str) -> fmt::Result {
    let each = |n: u64| n as f64 / c.work_requests.max(1) as f64;
    let percent = |n: u64| 100.0 * each(n);
    let verbs: Vec<String> = c.verbs.iter().map(|(verb, n)| format!("{n} {verb}")).collect();
    let verbs = if verbs.is_empty() { "nothing".to_owned() } else { verbs.join(", ") };
    writeln!(f, "  posted      {verbs}{place}, {} bytes", c.payload_bytes)?;
    if c.work_requests > 0 {
        writeln!(f, "  sizes       {}", histogram(&c.sizes, "up to ", " B"))?;
        let wqes = c.work_requests as f64 / c.doorbells.max(1) as f64;
        let lists = histogram(&c.wqes_per_doorbell, "", "");
        writeln!(f, "  doorbells   {}: {wqes:.2} WQEs each ({lists})", c.doorbells)?;
        writeln!(
            f,
            "  requests    {:.0}% inlined, {:.0}% signalled, {:.2} SGEs each ({})",
            percent(c.inlined),
            percent(c.signaled),
            each(c.sges),
            histogram(&c.sges_per_work_request, "", "")
        )?;
        writeln!(f, "  outstanding {:.1} on average, {} at most", c.outstanding_mean, c.outstanding_max)?;
    }
    if c.messages_received + c.recvs > 0 {
        let (messages, recvs) = (c.messages_received, c.recvs);
        writeln!(f, "  received    {messages} messages, {recvs} RECVs in {} posts", c.recv_doorbells)?;
    }
    if c.undelivered > 0 {
        let messages = counted(c.undelivered, "message");
        let causes: Vec<String> =
            c.undelivered_by_cause.iter().map(|(name, n)| format!("{name} {n}")).collect();
        let text = format!("{messages} of UC or UD that no receiver took: {}", causes.join(", "));
        wrapped(f, "  undelivered ", &text)?;
    }
    if c.rnr_naks > 0 {
        let (naks, ms) = (counted(c.rnr_naks, "RNR NAK"), c.rnr_wait_ns as f64 / 1e6);
        writeln!(f, "  RNR         {naks}: no RECV was posted; min_rnr_timer stopped QPs for {ms:.2} ms")?;
    }
    if c.timeouts > 0 {
        let timeouts = counted(c.timeouts, "time-out");
        writeln!(f, "  retries     {} after {timeouts} without an answer", c.retries)?;
    }
    if let Some(mtu) = c.path_mtu {
        writeln!(f, "  attributes  path_mtu {mtu}{}", reads(c))?;
    }
    if c.multicast > 0 {
        writeln!(f, "  multicast   {} to groups", counted(c.multicast, "datagram"))?;
    }
    writeln!(f, "  PCIe        {}", pcie(&c.pcie))?;
    if c.responder_pcie != Transactions::default() {
        writeln!(f, "  at peers    {}", pcie(&c.responder_pcie))?;
    }
    match limit {
        Some(limit) => {
            writeln!(f, "  limit       {:.1} Mops by {}: {}", limit.mops, limit.resource, limit.text)
        }
        None => Ok(()),
    }
}

/// Wraps text into lines. The first line begins with `head`. All later lines are indented by the length of
/// `head`.
fn wrapped(f: &mut Formatter<'_>, head: &str, text: &str) -> fmt::Result {
    let mut line = head.to_owned();
    for word in text.split(' ') {
        if line.len() + word.len() > LINE {
            writeln!(f, "{}", line.trim_end())?;
            line = " ".repeat(head.len());
        }
        line.push_str(word);
        line.push(' ');
    }
    writeln!(f, "{}", line.trim_end())
}

/// The limits of READs and atomics; empty if none was posted.
fn reads(c: &Counts) -> String {
    let own = c.max_rd_atomic.map(|most| format!(", max_rd_atomic {most}"));
    let peer = c.peer_max_dest_rd_atomic.map(|most| format!(", max_dest_rd_atomic of the peer {most}"));
    own.into_iter().chain(peer).collect()
}

fn pcie(p: &Transactions) -> String {
    format!(
        "MMIO {} writes, {} bytes; DMA reads {}, {} bytes; DMA writes {}, {} bytes",
        p.mmio_writes, p.mmio_bytes, p.dma_reads, p.dma_read_bytes, p.dma_writes, p.dma_write_bytes
    )
}

/// Formats keys with their counts, up to [`PRINTED_BUCKETS`] of them.
fn histogram(counts: &BTreeMap<u32, u64>, before: &str, behind: &str) -> String {
    let mut parts: Vec<String> =
        counts.iter().take(PRINTED_BUCKETS).map(|(key, n)| format!("{before}{key}{behind}: {n}")).collect();
    if counts.len() > PRINTED_BUCKETS {
        parts.push(format!("{} more", counts.len() - PRINTED_BUCKETS));
    }
    parts.join(", ")
}
