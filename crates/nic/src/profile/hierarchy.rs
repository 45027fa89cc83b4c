//! Parameters of a host's caches and memory, in profiles that give caches sizes.

use super::parameter::{ProfileError, ProfileReader, Section, Unit, section};
use doorbell_verbs::Span;
use toml::Spanned;

section! {
    /// Caches of three levels, memory, and the misses that a core may have in flight. Without this section,
    /// caches have no sizes and each kind of access to a line has a fixed time.
    Hierarchy in "hierarchy" {
        /// Bytes of a core's first-level data cache.
        l1: u64 = "l1_bytes" Bytes 4096..=1048576;
        /// Ways of the first level.
        l1_ways: u32 = "l1_ways" Count 1..=64;
        /// Latency of a load that hits the first level.
        l1_latency: Span = "l1_ns" Nanoseconds 0.1..=1000;
        /// Bytes of a core's second-level cache.
        l2: u64 = "l2_bytes" Bytes 4096..=67108864;
        /// Ways of the second level.
        l2_ways: u32 = "l2_ways" Count 1..=64;
        /// Latency of a load that hits the second level.
        l2_latency: Span = "l2_ns" Nanoseconds 0.1..=1000;
        /// Bytes of the last level, which includes the other levels.
        llc: u64 = "llc_bytes" Bytes 65536..=1073741824;
        /// Ways of the last level.
        llc_ways: u32 = "llc_ways" Count 1..=64;
        /// Latency of a load that hits the last level.
        llc_latency: Span = "llc_ns" Nanoseconds 0.1..=1000;
        /// Whether a full set evicts a random line, not the one used longest ago.
        random_replacement: bool = "random_replacement" Flag 0..=1;
        /// Additional latency if another core has modified the line.
        other_core: Span = "other_core_ns" Nanoseconds 0..=1000;
        /// Latency of a load from memory.
        dram_latency: Span = "dram_ns" Nanoseconds 1..=10000;
        /// Bandwidth of memory in bytes per second.
        dram_rate: u64 = "dram_mb_per_s" MegabytesPerSecond 100..=10000000;
        /// Lines in flight to a core's first level at a time.
        fill_buffers: u32 = "fill_buffers" Count 1..=1024;
        /// Lines that a core's prefetchers may have in flight to the second level.
        prefetch_buffers: u32 = "prefetch_buffers" Count 1..=1024;
        /// Instructions in flight, counted from the oldest unfinished one.
        reorder: u32 = "reorder_instructions" Count 1..=4096;
        /// Stores that a core has executed but that are not yet in the cache.
        store_buffer: u32 = "store_buffer" Count 1..=4096;
        /// Lines for which the stores in the store buffer may wait at a time.
        store_lines: u32 = "store_lines" Count 1..=4096;
        /// Time of an instruction that does not wait.
        instruction: Span = "instruction_ns" Nanoseconds 0.001..=100;
        /// Whether a miss of ascending loads prefetches the next line into the first level.
        next_line: bool = "next_line_prefetcher" Flag 0..=1;
        /// Whether a miss prefetches the other line of its pair into the second level.
        adjacent_line: bool = "adjacent_line_prefetcher" Flag 0..=1;
        /// Lines that the second level's streamer runs ahead; 0: no streamer.
        streamer: u32 = "streamer_lines" Count 0..=64;
        /// Whether accesses of devices are coherent with the caches.
        io_coherent: bool = "io_coherent" Flag 0..=1;
        /// Whether a device's read takes ownership (RdInvOwn) instead of a snapshot (RdCur).
        reads_own: bool = "dma_reads_own" Flag 0..=1;
        /// Ways of the last level for a device's writes (DDIO); 0: the writes go to memory.
        write_ways: u32 = "dma_write_ways" Count 0..=64;
        /// Time that the write-back of a modified line occupies the memory path if a device's request forces
        /// it.
        forced_write_back: Span = "forced_write_back_ns" Nanoseconds 0..=10000;
    }
}

impl Hierarchy {
    /// The most cores that share a last level: the simulator has a bit for each.
    pub const MOST_CORES: u32 = 64;

    /// Checks that the parameters fit together; the error is one sentence. A level that is further away must
    /// not have less latency, and devices must not write to more ways than there are.
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
