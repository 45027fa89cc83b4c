//! What is known about the caches and the memory of a host, where a profile tells it.

use super::parameter::{ProfileError, ProfileReader, Section, Unit, section};
use doorbell_verbs::Span;
use toml::Spanned;

section! {
    /// Caches of three levels, memory, and how many misses a core has under way. A profile without this section
    /// has caches without sizes, in which each way to a line takes its time.
    Hierarchy in "hierarchy" {
        /// Bytes of a core's first level, for data.
        l1: u64 = "l1_bytes" Bytes 4096..=1048576;
        /// Its ways.
        l1_ways: u32 = "l1_ways" Count 1..=64;
        /// Latency of a load that it has.
        l1_latency: Span = "l1_ns" Nanoseconds 0.1..=1000;
        /// Bytes of a core's second level.
        l2: u64 = "l2_bytes" Bytes 4096..=67108864;
        /// Its ways.
        l2_ways: u32 = "l2_ways" Count 1..=64;
        /// Latency of a load that it has.
        l2_latency: Span = "l2_ns" Nanoseconds 0.1..=1000;
        /// Bytes of the last level, which includes the others.
        llc: u64 = "llc_bytes" Bytes 65536..=1073741824;
        /// Its ways.
        llc_ways: u32 = "llc_ways" Count 1..=64;
        /// Latency of a load that it has.
        llc_latency: Span = "llc_ns" Nanoseconds 0.1..=1000;
        /// Where a set is full, a line that is drawn goes, not the one used longest ago.
        random_replacement: bool = "random_replacement" Flag 0..=1;
        /// More latency where another core has changed the line.
        other_core: Span = "other_core_ns" Nanoseconds 0..=1000;
        /// Latency of a load from memory.
        dram_latency: Span = "dram_ns" Nanoseconds 1..=10000;
        /// Bandwidth of memory in bytes per second.
        dram_rate: u64 = "dram_mb_per_s" MegabytesPerSecond 100..=10000000;
        /// Lines on their way into a core's first level at a time.
        fill_buffers: u32 = "fill_buffers" Count 1..=1024;
        /// Lines that its prefetchers may have on their way into the second level.
        prefetch_buffers: u32 = "prefetch_buffers" Count 1..=1024;
        /// Instructions under way from the oldest that is not done on.
        reorder: u32 = "reorder_instructions" Count 1..=4096;
        /// Stores that are done but not in the cache.
        store_buffer: u32 = "store_buffer" Count 1..=4096;
        /// Lines that such stores may wait for at a time.
        store_lines: u32 = "store_lines" Count 1..=4096;
        /// Time of an instruction where none waits.
        instruction: Span = "instruction_ns" Nanoseconds 0.001..=100;
        /// Whether the line after one that ascending loads missed comes into the first level.
        next_line: bool = "next_line_prefetcher" Flag 0..=1;
        /// Whether the other line of a pair comes into the second level.
        adjacent_line: bool = "adjacent_line_prefetcher" Flag 0..=1;
        /// Lines that the streamer of the second level runs ahead by; 0: there is none.
        streamer: u32 = "streamer_lines" Count 0..=64;
        /// Whether what devices do is coherent with the caches.
        io_coherent: bool = "io_coherent" Flag 0..=1;
        /// Whether a device's reads take ownership (RdInvOwn), not a snapshot (RdCur).
        reads_own: bool = "dma_reads_own" Flag 0..=1;
        /// Ways of the last level that a device's writes go to (DDIO); at 0 they go to memory.
        write_ways: u32 = "dma_write_ways" Count 0..=64;
        /// Time that a modified line keeps the way to memory which a device's request forces back.
        forced_write_back: Span = "forced_write_back_ns" Nanoseconds 0..=10000;
    }
}

impl Hierarchy {
    /// Cores that share a last level at most: the simulator has a bit for each.
    pub const MOST_CORES: u32 = 64;

    /// What does not go together: one sentence. A level that is further away has no less latency, and devices write to
    /// no more ways than there are.
    pub(super) fn check(&self) -> Result<(), String> {
        let levels = [("l1_ns", self.l1_latency), ("l2_ns", self.l2_latency), ("llc_ns", self.llc_latency)];
        for pair in levels.windows(2) {
            let [(near, less), (far, more)] = [pair[0], pair[1]];
            if less > more {
                let ns = |span: Span| span.as_ps() as f64 / 1e3;
                return Err(format!(
                    "hierarchy.{near} is {}, but must be at most {far}, {}",
                    ns(less),
                    ns(more)
                ));
            }
        }
        if self.write_ways > self.llc_ways {
            let (ways, all) = (self.write_ways, self.llc_ways);
            return Err(format!("hierarchy.dma_write_ways is {ways}, but must be at most llc_ways, {all}"));
        }
        Ok(())
    }
}
