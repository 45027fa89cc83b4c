//! Parameters of a machine without its NIC.

use super::parameter::{ProfileError, ProfileReader, Section, Unit, section};
use doorbell_verbs::Span;
use toml::Spanned;

section! {
    /// The host: its cores, the cost of its memory accesses, and the driver's cost on a core.
    Host in "host" {
        /// Cores of the socket that the NIC is attached to; the simulator has up to 256.
        cores: u32 = "cores" Count 1..=256;
        /// Clock rate in Hz.
        clock_hz: u64 = "clock_ghz" Gigahertz 0.1..=10;
        /// Bytes per cache line.
        cache_line: u32 = "cache_line_bytes" Bytes 64..=64;
        /// Write-combined MMIO lines that a core may have in flight.
        wc_buffers: u32 = "wc_buffers" Count 1..=64;
        /// From a core's MMIO until the written data has left the core. An atomic waits for this (Intel SDM,
        /// volume 3, 11.3.1: a locked instruction drains the write-combining buffers).
        mmio_drain: Span = "mmio_drain_ns" Nanoseconds 0..=10000;
        /// Lines that a core may be fetching. A core that prefetches one more waits.
        fill_buffers: u32 = "fill_buffers" Count 1..=64;
        /// CPU time of a workload's program for each operation, apart from its verbs: drawing the destination
        /// and filling in the work request.
        program: Span = "program_ns" Nanoseconds 0..=10000;
        /// CPU time of a call of ibv_post_send(3) or ibv_post_recv(3), regardless of its list.
        post_call: Span = "post_call_ns" Nanoseconds 0..=10000;
        /// CPU time to build a send WQE, without its lines and payload.
        build_wqe: Span = "build_wqe_ns" Nanoseconds 0..=10000;
        /// CPU time to store each 64 B line of a send WQE into the send queue.
        build_line: Span = "build_line_ns" Nanoseconds 0..=10000;
        /// CPU time to copy each line of inline payload into the WQE.
        inline_copy_line: Span = "inline_copy_line_ns" Nanoseconds 0..=10000;
        /// CPU time to store a line to a write-combining buffer and send it to the NIC.
        mmio_line: Span = "mmio_line_ns" Nanoseconds 0..=10000;
        /// CPU time of an 8-byte Doorbell, with its fence.
        doorbell: Span = "doorbell_ns" Nanoseconds 0..=10000;
        /// CPU time to build a RECV WQE.
        post_recv_wqe: Span = "post_recv_wqe_ns" Nanoseconds 0..=10000;
        /// CPU time of an ibv_poll_cq(3) that finds nothing.
        poll_empty: Span = "poll_empty_ns" Nanoseconds 0..=10000;
        /// CPU time for each completion polled, without the load of its line.
        poll_cqe: Span = "poll_cqe_ns" Nanoseconds 0..=10000;
        /// Load or store of a line in the core's own cache.
        l1_hit: Span = "l1_hit_ns" Nanoseconds 0..=1000;
        /// Load of a line in the LLC that no other core owns.
        llc_hit: Span = "llc_hit_ns" Nanoseconds 0..=1000;
        /// Load of a line that the NIC has written since the last load.
        dma_line: Span = "dma_line_ns" Nanoseconds 0..=1000;
        /// Load or store of a line that another core owns.
        line_transfer: Span = "line_transfer_ns" Nanoseconds 0..=1000;
        /// Load or store of a line that another core owns, after a long wait for other cores. The request
        /// travels during this wait.
        line_transfer_queued: Span = "line_transfer_queued_ns" Nanoseconds 0..=1000;
        /// Extra time of an atomic read-modify-write on a line already owned.
        atomic_op: Span = "atomic_op_ns" Nanoseconds 0..=1000;
        /// Load of a line from DRAM.
        dram: Span = "dram_ns" Nanoseconds 0..=1000;
        /// Time between two lines of a sequential access, if they come from DRAM of the core's own socket.
        /// `dram_ns` divided by this time is the number of lines that a core has in flight. This number also
        /// holds if the latency is longer.
        stream_line: Span = "stream_line_ns" Nanoseconds 0..=1000;
        /// Copy of a line between buffers in the core's own cache.
        copy_line: Span = "copy_line_ns" Nanoseconds 0..=1000;
        /// Least time between two DMA reads of one line, because caches serve reads of a line one after
        /// another; 0: no such limit. A longer read counts as a read of its first line.
        dma_read_again: Span = "dma_read_again_ns" Nanoseconds 0..=10000 else 0;
    }
}
