//! Attributes of a QP.

use crate::ack_timeout;
use doorbell_verbs::{AccessFlags, AhAttr, Mtu, QpAttr, Span};

/// Attributes that ibv_modify_qp(3) has set.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    pub(crate) port_num: u8,
    pub(crate) ah_attr: Option<AhAttr>,
    pub(crate) dest_qp_num: u32,
    pub(crate) path_mtu: Mtu,
    /// Payload bytes of a full packet.
    pub(crate) mtu: u16,
    /// Whether `mtu` is the size of an iWARP segment, not the size of `path_mtu`.
    pub(crate) segments: bool,
    pub(crate) access: AccessFlags,
    pub(crate) qkey: u32,
    pub(crate) min_rnr_timer: u8,
    pub(crate) max_dest_rd_atomic: u8,
    pub(crate) max_rd_atomic: u8,
    pub(crate) retry_cnt: u8,
    pub(crate) rnr_retry: u8,
    /// Zero for no time-out.
    pub(crate) ack_timeout: Span,
}

impl Settings {
    /// Payload bytes of a full packet.
    pub(crate) fn mtu(&self) -> u32 {
        self.mtu.into()
    }

    pub(crate) const UNSET: Settings = Settings {
        port_num: 1,
        ah_attr: None,
        dest_qp_num: 0,
        path_mtu: Mtu::Mtu4096,
        mtu: 4096,
        segments: false,
        access: AccessFlags::empty(),
        qkey: 0,
        min_rnr_timer: 0,
        max_dest_rd_atomic: 0,
        max_rd_atomic: 0,
        retry_cnt: 0,
        rnr_retry: 0,
        ack_timeout: Span::ZERO,
    };

    pub(crate) fn update(&mut self, attr: &QpAttr) {
        fn set<T>(field: &mut T, value: Option<T>) {
            if let Some(value) = value {
                *field = value;
            }
        }
        set(&mut self.port_num, attr.port_num);
        set(&mut self.ah_attr, attr.ah_attr.map(Some));
        set(&mut self.dest_qp_num, attr.dest_qp_num);
        set(&mut self.path_mtu, attr.path_mtu);
        if !self.segments {
            set(&mut self.mtu, attr.path_mtu.map(|mtu| mtu.bytes() as u16));
        }
        set(&mut self.access, attr.qp_access_flags);
        set(&mut self.qkey, attr.qkey);
        // A packet has room for 5 bits of the code, so devices take the lowest 5 bits of any value.
        set(&mut self.min_rnr_timer, attr.min_rnr_timer.map(|code| code & 31));
        set(&mut self.max_dest_rd_atomic, attr.max_dest_rd_atomic);
        set(&mut self.max_rd_atomic, attr.max_rd_atomic);
        set(&mut self.retry_cnt, attr.retry_cnt);
        set(&mut self.rnr_retry, attr.rnr_retry);
        set(&mut self.ack_timeout, attr.timeout.map(ack_timeout));
    }
}
