//! What kernel TCP costs on a host, where a profile tells it.

use super::parameter::{ProfileError, ProfileReader, Section, Unit, section};
use doorbell_verbs::Span;
use toml::Spanned;

section! {
    /// TCP of the host's kernel over its first device, used as a plain Ethernet NIC. A host without this section has
    /// none. A segment is what TCP hands to the NIC or gets from the driver at once: with segmentation and
    /// receive offload it has several frames.
    Tcp in "tcp" {
        /// Bytes of the largest IP packet.
        mtu: u32 = "mtu_bytes" Bytes 576..=9000;
        /// Whether the NIC cuts large segments into frames (TSO).
        segmentation_offload: bool = "segmentation_offload" Flag 0..=1;
        /// Frames that the driver's poll makes one segment of at most (GRO); 1: it makes none.
        merged_frames: u32 = "merged_frames" Count 1..=44;
        /// Bytes that a socket holds until they are acknowledged.
        send_buffer: u64 = "send_buffer_bytes" Bytes 4096..=67108864;
        /// Bytes that a socket offers its peer, and holds until the program takes them.
        receive_buffer: u64 = "receive_buffer_bytes" Bytes 4096..=67108864;
        /// How long a segment that asks for no more waits for its ACK to go with data.
        delayed_ack: Span = "delayed_ack_ns" Nanoseconds 0..=1000000000;
        /// Into the kernel and back.
        system_call: Span = "system_call_ns" Nanoseconds 0..=100000;
        /// What a call does with a socket beside: its file, its lock, its state.
        socket_call: Span = "socket_call_ns" Nanoseconds 0..=100000;
        /// What poll(2) does for each socket.
        poll_socket: Span = "poll_socket_ns" Nanoseconds 0..=100000;
        /// Instructions of a copy for each 8 bytes, its load and store among them.
        copy_instructions: u32 = "copy_instructions" Count 1..=64;
        /// Lines that a copy prefetches ahead; 0: it does not.
        copy_prefetch: u32 = "copy_prefetch_lines" Count 0..=64;
        /// A segment's way out: its buffer's head, TCP, IP, the queueing discipline, the driver's descriptor.
        segment_out: Span = "segment_out_ns" Nanoseconds 0..=100000;
        /// A page of 4 kB of its data: taken, mapped for the NIC, released.
        page_out: Span = "page_out_ns" Nanoseconds 0..=100000;
        /// The way out of a segment without data: an ACK, or one that opens, ends or resets a connection.
        ack_out: Span = "ack_out_ns" Nanoseconds 0..=100000;
        /// A frame in the driver's poll: its descriptor, its buffer and a new one, whether it continues the last.
        frame_in: Span = "frame_in_ns" Nanoseconds 0..=100000;
        /// A segment's way in: IP, TCP, the socket's queue.
        segment_in: Span = "segment_in_ns" Nanoseconds 0..=100000;
        /// The way in of a segment without data.
        ack_in: Span = "ack_in_ns" Nanoseconds 0..=100000;
        /// From an interrupt to the driver's poll.
        interrupt_entry: Span = "interrupt_entry_ns" Nanoseconds 0..=100000;
        /// From the end of the driver's poll to what was interrupted.
        interrupt_exit: Span = "interrupt_exit_ns" Nanoseconds 0..=100000;
        /// From waking a thread until it runs.
        wake_up: Span = "wake_up_ns" Nanoseconds 0..=100000;
        /// Until a thread that has to wait sleeps.
        sleep: Span = "sleep_ns" Nanoseconds 0..=100000;
        /// How long the NIC holds an interrupt back for further frames.
        coalesce: Span = "coalesce_ns" Nanoseconds 0..=1000000;
        /// Frames for which it holds it back no longer.
        coalesce_frames: u32 = "coalesce_frames" Count 1..=1024;
        /// A frame's time in the NIC on its way out, from its last byte's coming over PCIe.
        nic_out: Span = "nic_out_ns" Nanoseconds 0..=100000;
        /// And on its way in, until it is written to memory.
        nic_in: Span = "nic_in_ns" Nanoseconds 0..=100000;
        /// Bytes of frames that the NIC reads ahead of what leaves.
        nic_buffer: u32 = "nic_buffer_bytes" Bytes 2048..=1048576;
        /// Bytes that the NIC reads for a segment beside its data: its descriptor, with the headers.
        descriptor_out: u32 = "descriptor_out_bytes" Bytes 16..=1024;
        /// Bytes that it writes for a frame beside the frame.
        descriptor_in: u32 = "descriptor_in_bytes" Bytes 16..=256;
        /// Frames after which the driver gives it as many buffers anew.
        refill: u32 = "refill_frames" Count 1..=256;
    }
}
