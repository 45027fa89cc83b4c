//! Costs of kernel TCP on a host, in profiles with kernel TCP.

use super::parameter::{ProfileError, ProfileReader, Section, Unit, section};
use doorbell_verbs::Span;
use toml::Spanned;

section! {
    /// TCP of the host's kernel over its first device, used as a plain Ethernet NIC. Without this section a
    /// host has no kernel TCP. A segment is the unit that TCP exchanges with the driver. With segmentation
    /// and receive offload it has several frames.
    Tcp in "tcp" {
        /// Bytes of the largest IP packet.
        mtu: u32 = "mtu_bytes" Bytes 576..=9000;
        /// Whether the NIC cuts large segments into frames (TSO).
        segmentation_offload: bool = "segmentation_offload" Flag 0..=1;
        /// Maximum number of frames that the driver's poll merges into a segment (GRO); 1: it does not merge.
        merged_frames: u32 = "merged_frames" Count 1..=44;
        /// Bytes that a socket holds until they are acknowledged.
        send_buffer: u64 = "send_buffer_bytes" Bytes 4096..=67108864;
        /// Bytes that a socket offers its peer and holds until the program reads them.
        receive_buffer: u64 = "receive_buffer_bytes" Bytes 4096..=67108864;
        /// How long TCP delays an ACK that is not due at once, in order to send it with data.
        delayed_ack: Span = "delayed_ack_ns" Nanoseconds 0..=1000000000;
        /// Entering the kernel and returning.
        system_call: Span = "system_call_ns" Nanoseconds 0..=100000;
        /// A call's further work on a socket: its file, its lock, its state.
        socket_call: Span = "socket_call_ns" Nanoseconds 0..=100000;
        /// Work of poll(2) for each socket.
        poll_socket: Span = "poll_socket_ns" Nanoseconds 0..=100000;
        /// Instructions of a copy for each 8 bytes, including its load and store.
        copy_instructions: u32 = "copy_instructions" Count 1..=64;
        /// Lines that a copy prefetches ahead; 0: none.
        copy_prefetch: u32 = "copy_prefetch_lines" Count 0..=64;
        /// Sending a segment: its buffer's head, TCP, IP, the queueing discipline, the driver's descriptor.
        segment_out: Span = "segment_out_ns" Nanoseconds 0..=100000;
        /// Handling a 4 kB page of a segment to send: allocate, map for the NIC, release.
        page_out: Span = "page_out_ns" Nanoseconds 0..=100000;
        /// Sending a segment without data: an ACK, or a segment that opens, ends or resets a connection.
        ack_out: Span = "ack_out_ns" Nanoseconds 0..=100000;
        /// Receiving a frame in the driver's poll: its descriptor, its buffer and a new one, and the merge
        /// check.
        frame_in: Span = "frame_in_ns" Nanoseconds 0..=100000;
        /// Receiving a segment: IP, TCP, the socket's queue.
        segment_in: Span = "segment_in_ns" Nanoseconds 0..=100000;
        /// Receiving a segment without data.
        ack_in: Span = "ack_in_ns" Nanoseconds 0..=100000;
        /// From an interrupt to the driver's poll.
        interrupt_entry: Span = "interrupt_entry_ns" Nanoseconds 0..=100000;
        /// From the end of the driver's poll to the interrupted code.
        interrupt_exit: Span = "interrupt_exit_ns" Nanoseconds 0..=100000;
        /// From the wake-up of a thread until the thread runs.
        wake_up: Span = "wake_up_ns" Nanoseconds 0..=100000;
        /// From when a thread must wait until it sleeps.
        sleep: Span = "sleep_ns" Nanoseconds 0..=100000;
        /// How long the NIC holds back an interrupt for further frames.
        coalesce: Span = "coalesce_ns" Nanoseconds 0..=1000000;
        /// Frames after which the NIC no longer holds back the interrupt.
        coalesce_frames: u32 = "coalesce_frames" Count 1..=1024;
        /// Time of a sent frame in the NIC, after its last byte has come over PCIe.
        nic_out: Span = "nic_out_ns" Nanoseconds 0..=100000;
        /// Time of a received frame in the NIC, until it is written to memory.
        nic_in: Span = "nic_in_ns" Nanoseconds 0..=100000;
        /// Bytes of later frames that the NIC reads while it sends a frame.
        nic_buffer: u32 = "nic_buffer_bytes" Bytes 2048..=1048576;
        /// Bytes that the NIC reads for a segment besides its data: its descriptor, with the headers.
        descriptor_out: u32 = "descriptor_out_bytes" Bytes 16..=1024;
        /// Bytes that the NIC writes for a frame besides the frame.
        descriptor_in: u32 = "descriptor_in_bytes" Bytes 16..=256;
        /// Frames after which the driver gives the NIC new buffers, one for each of these frames.
        refill: u32 = "refill_frames" Count 1..=256;
    }
}
