//! The cost of kernel TCP on a core, and the sizes of its frames.

use crate::Tcp;

/// Ethernet's header, IPv4's, and TCP's with timestamps (RFC 7323).
pub const FRAME_HEADERS: u32 = 14 + IP_TCP;
/// Bytes of an IP packet that are not data.
const IP_TCP: u32 = 20 + 32;
/// The frame check sequence. Hosts do not see it.
const FCS: u32 = 4;
/// The shortest frame, with its FCS.
const SHORTEST: u32 = 64;
/// Bytes of the longest IP packet. No segment is longer, even if the NIC cuts it.
const LONGEST: u32 = 65535;
/// Bytes of a page of a socket's buffer.
const PAGE: u64 = 4096;

/// Costs of kernel TCP; times are in picoseconds. [`Tcp`] describes them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TcpCost {
    /// Maximum number of bytes of data in a frame.
    pub mss: u32,
    /// Maximum number of bytes of data that TCP hands to the NIC at once, in whole frames.
    pub most: u32,
    /// Entering the kernel, reaching the socket, and returning.
    pub call: u64,
    /// Work of poll(2) for each socket, in addition to a call.
    pub poll_socket: u64,
    /// Sending a segment without data.
    pub ack_out: u64,
    /// Receiving a segment without data.
    pub ack_in: u64,
    /// A frame in the driver's poll.
    pub frame_in: u64,
    /// Receiving a segment with data.
    pub segment_in: u64,
    /// From an interrupt to the driver's poll.
    pub interrupt_entry: u64,
    /// From the end of the driver's poll to the interrupted code.
    pub interrupt_exit: u64,
    /// From the wake-up of a thread until the thread runs.
    pub wake_up: u64,
    /// From when a thread must wait until it sleeps.
    pub sleep: u64,
    /// How long the NIC holds back an interrupt.
    pub coalesce: u64,
    /// How long TCP delays an ACK in order to send it with data.
    pub delayed_ack: u64,
    segment_out: u64,
    page_out: u64,
}

impl TcpCost {
    /// The costs of a host's kernel TCP.
    pub fn new(tcp: &Tcp) -> TcpCost {
        let mss = tcp.mtu - IP_TCP;
        let frames = if tcp.segmentation_offload { (LONGEST - IP_TCP) / mss } else { 1 };
        TcpCost {
            mss,
            most: frames * mss,
            call: tcp.system_call.as_ps() + tcp.socket_call.as_ps(),
            poll_socket: tcp.poll_socket.as_ps(),
            ack_out: tcp.ack_out.as_ps(),
            ack_in: tcp.ack_in.as_ps(),
            frame_in: tcp.frame_in.as_ps(),
            segment_in: tcp.segment_in.as_ps(),
            interrupt_entry: tcp.interrupt_entry.as_ps(),
            interrupt_exit: tcp.interrupt_exit.as_ps(),
            wake_up: tcp.wake_up.as_ps(),
            sleep: tcp.sleep.as_ps(),
            coalesce: tcp.coalesce.as_ps(),
            delayed_ack: tcp.delayed_ack.as_ps(),
            segment_out: tcp.segment_out.as_ps(),
            page_out: tcp.page_out.as_ps(),
        }
    }

    /// Time to send a segment with `bytes` bytes of data; 0 for a mere ACK.
    pub fn segment_out(&self, bytes: u32) -> u64 {
        match bytes {
            0 => self.ack_out,
            _ => self.segment_out + self.page_out * u64::from(bytes).div_ceil(PAGE),
        }
    }
}

/// Bytes on a link of a frame with `data` bytes. `overhead` is the preamble and the gap of each frame.
pub const fn frame_on_link(data: u32, overhead: u32) -> u32 {
    let frame = FRAME_HEADERS + data + FCS;
    overhead + if frame < SHORTEST { SHORTEST } else { frame }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_frame_of_ethernet_takes_1538_bytes() {
        assert_eq!(frame_on_link(1448, 20), 1538);
        assert_eq!(frame_on_link(0, 20), 90, "headers and FCS of an ACK are more than the shortest frame");
    }
}
