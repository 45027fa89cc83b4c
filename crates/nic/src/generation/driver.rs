//! Settings of a driver, and its rule for announcing WQEs.

use super::blueflame::{Announcement, BlueFlame};
use super::layout::{Method, Posting};

/// Settings of mlx5's driver that a process chooses, by its environment or by its calls. The default leaves
/// everything to the driver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct DriverSettings {
    /// Doorbell registers of a context (`MLX5_TOTAL_UUARS`).
    pub total_uuars: Option<u32>,
    /// Registers that serve one QP each (`MLX5_NUM_LOW_LAT_UUARS`).
    pub num_low_lat_uuars: Option<u32>,
    /// Whether the driver takes no locks (`MLX5_SINGLE_THREADED=1`).
    pub single_threaded: bool,
    /// Whether each thread creates its QPs in a thread domain of its own (ibv_alloc_td(3)). They have a
    /// register of their own, and need no locks.
    pub thread_domains: bool,
    /// Whether BlueFlame is off (`MLX5_SHUT_UP_BF=1`).
    pub shut_up_bf: bool,
    /// Whether only WQEs with inline payload go by BlueFlame (`MLX5_POST_SEND_PREFER_BF=0`).
    pub bf_only_inline: bool,
}

impl DriverSettings {
    /// Whether something is set that concerns doorbell registers or the choice of WQEs for BlueFlame. Only a
    /// profile with doorbell registers has an effect of it.
    pub const fn needs_registers(&self) -> bool {
        self.total_uuars.is_some()
            || self.num_low_lat_uuars.is_some()
            || self.single_threaded
            || self.thread_domains
            || self.bf_only_inline
    }
}

/// How a driver announces the WQEs of a call to the NIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PostingRule {
    /// By the rule of the generation, which depends on the number of WQEs alone.
    Count(&'static Posting),
    /// By mlx5's rule for BlueFlame.
    BlueFlame(BlueFlame),
    /// Always by a doorbell.
    Doorbell,
}

impl PostingRule {
    /// How the WQEs of a call reach the NIC.
    pub const fn method(&self, post: Announcement) -> Method {
        match self {
            PostingRule::Count(posting) => posting.method(post.wqes),
            PostingRule::BlueFlame(rule) => rule.method(post),
            PostingRule::Doorbell if post.wqes == 0 => Method::Doorbell { batch: 1 },
            PostingRule::Doorbell => Method::Doorbell { batch: post.wqes },
        }
    }
}
