//! What the uncore counts, by the names of its manual (Intel Xeon Processor 7500 Series Uncore Programming Guide,
//! 323535), within the measured time.

use super::coherence::{Response, Snoop};

/// Counts of a machine's caches and memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Uncore {
    /// Lines that cores asked the LLC for, and it had.
    pub llc_hits: u64,
    /// Lines that cores asked the LLC for, and it had not.
    pub llc_misses: u64,
    /// Lines that prefetchers asked the LLC for, and it had.
    pub prefetch_hits: u64,
    /// Lines that prefetchers asked the LLC for, and it had not.
    pub prefetch_misses: u64,
    /// Lines that a prefetcher had brought from memory before a core asked for them.
    pub used_prefetches: u64,
    /// SNPS: snoops that the LLC saw.
    pub snps: u64,
    /// SNP_HITS.REMOTE_RD: those that left a line shared, or asked for a snapshot.
    pub remote_rd: u64,
    /// SNP_HITS.REMOTE_RFO: those that took a line away.
    pub remote_rfo: u64,
    /// IMPLICIT_WBS: write-backs that a snoop forced.
    pub implicit_wbs: u64,
    /// Write-backs of lines that went for others, or were flushed.
    pub write_backs: u64,
}

impl Uncore {
    /// A snoop that hit or missed.
    pub(super) fn snooped(&mut self, snoop: Snoop, hit: bool, response: Response) {
        self.snps += 1;
        self.implicit_wbs += u64::from(response.writes_back());
        match snoop {
            Snoop::SnpData | Snoop::SnpCur => self.remote_rd += u64::from(hit),
            Snoop::SnpInvOwn | Snoop::SnpInvItoE => self.remote_rfo += u64::from(hit),
        }
    }

    /// Share of requests that the LLC had, those of prefetchers included; `None` where there were none.
    pub fn llc_hit_rate(&self) -> Option<f64> {
        let hits = self.llc_hits + self.prefetch_hits;
        let all = hits + self.llc_misses + self.prefetch_misses;
        (all > 0).then(|| hits as f64 / all as f64)
    }

    /// Share of snoops that found their line; `None` where there were none.
    pub fn snoop_hit_rate(&self) -> Option<f64> {
        (self.snps > 0).then(|| (self.remote_rd + self.remote_rfo) as f64 / self.snps as f64)
    }
}
