//! Counts of the uncore in the metering window, with the names of its manual (Intel Xeon Processor 7500
//! Series Uncore Programming Guide, 323535).

use super::coherence::{Response, Snoop};

/// Counts of a machine's caches and memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Uncore {
    /// Lines that cores requested from the LLC and that it held.
    pub llc_hits: u64,
    /// Lines that cores requested from the LLC and that it did not hold.
    pub llc_misses: u64,
    /// Lines that prefetchers requested from the LLC and that it held.
    pub prefetch_hits: u64,
    /// Lines that prefetchers requested from the LLC and that it did not hold.
    pub prefetch_misses: u64,
    /// Lines that a prefetcher brought from memory before a core asked for them.
    pub used_prefetches: u64,
    /// SNPS: snoops that the LLC saw.
    pub snps: u64,
    /// SNP_HITS.REMOTE_RD: snoop hits that left the line shared, or asked for a snapshot.
    pub remote_rd: u64,
    /// SNP_HITS.REMOTE_RFO: snoop hits that took the line away.
    pub remote_rfo: u64,
    /// IMPLICIT_WBS: write-backs forced by a snoop.
    pub implicit_wbs: u64,
    /// Write-backs of lines that were evicted or flushed.
    pub write_backs: u64,
}

impl Uncore {
    /// Counts a snoop, which hit or missed.
    pub(super) fn snooped(&mut self, snoop: Snoop, hit: bool, response: Response) {
        self.snps += 1;
        self.implicit_wbs += u64::from(response.writes_back());
        match snoop {
            Snoop::SnpData | Snoop::SnpCur => self.remote_rd += u64::from(hit),
            Snoop::SnpInvOwn | Snoop::SnpInvItoE => self.remote_rfo += u64::from(hit),
        }
    }

    /// Share of requests that the LLC served, prefetchers' requests included; `None` if there were no
    /// requests.
    pub fn llc_hit_rate(&self) -> Option<f64> {
        let hits = self.llc_hits + self.prefetch_hits;
        let all = hits + self.llc_misses + self.prefetch_misses;
        (all > 0).then(|| hits as f64 / all as f64)
    }

    /// Share of snoops that found their line; `None` if there were no snoops.
    pub fn snoop_hit_rate(&self) -> Option<f64> {
        (self.snps > 0).then(|| (self.remote_rd + self.remote_rfo) as f64 / self.snps as f64)
    }
}
