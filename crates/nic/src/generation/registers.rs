//! The doorbell registers of mlx5's driver (UARs, which libmlx5 calls uuars), and which QP gets which.
//!
//! Sources: rdma-core, providers/mlx5/mlx5.c (`get_total_uuars`, `get_num_low_lat_uuars`, `need_uuar_lock`);
//! Linux, drivers/infiniband/hw/mlx5/qp.c (`alloc_bfreg`) and main.c (`calc_total_bfregs`). A kernel that
//! allocates registers on request has no register 0, and shares one register more.

/// Registers of a UAR, the page in which registers are allocated (`MLX5_NUM_NON_FP_BFREGS_PER_UAR`).
const PER_UAR: u32 = 2;
/// Most registers of a context (`MLX5_MAX_BFREGS`).
const MOST: u32 = 512;
/// Registers beyond this number are low-latency ones (`MLX5_MED_BFREGS_TSHOLD`).
const MOST_NOT_LOW_LATENCY: u32 = 12;

/// The register that has no BlueFlame and needs no lock.
pub const REGISTER_ZERO: u32 = 0;

/// The doorbell registers of a process's context, by number: register 0, the shared ones, the low-latency
/// ones. There are at least two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Uuars {
    total: u32,
    low_latency: u32,
}

impl Uuars {
    /// The registers if the user asks for this many, of which `low_latency` serve one QP each.
    ///
    /// The driver rounds `total` up to whole UARs, and takes more low-latency registers if more than 12
    /// others would be left.
    ///
    /// # Errors
    /// One sentence if there are too many registers, or if all registers were low-latency ones.
    pub fn new(total: u32, low_latency: u32) -> Result<Uuars, String> {
        if total == 0 || total > MOST {
            return Err(format!("a context has 1 to {MOST} doorbell registers, not {total}"));
        }
        let total = total.next_multiple_of(PER_UAR);
        let least = total.saturating_sub(MOST_NOT_LOW_LATENCY);
        if low_latency >= total {
            return Err(format!(
                "at most {} of {total} doorbell registers are low-latency ones, not {low_latency}, because \
                 register {REGISTER_ZERO} is none",
                total - 1
            ));
        }
        Ok(Uuars { total, low_latency: low_latency.max(least) })
    }

    /// Number of all registers.
    pub const fn total(&self) -> u32 {
        self.total
    }

    /// The first low-latency register. The shared registers are 1 and up to this one.
    pub const fn first_low_latency(&self) -> u32 {
        self.total - self.low_latency
    }

    /// Number of registers that QPs share under a lock.
    pub const fn shared(&self) -> u32 {
        self.first_low_latency() - 1
    }

    /// Whether the driver writes to this register under a lock, because QPs may share it.
    pub const fn is_shared(&self, register: u32) -> bool {
        register != REGISTER_ZERO && register < self.first_low_latency()
    }
}

/// The use of the registers of a context.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UuarUse {
    uuars: Uuars,
    /// QPs of each register.
    qps: Vec<u32>,
}

impl UuarUse {
    /// Registers that no QP uses.
    pub fn of(uuars: Uuars) -> UuarUse {
        UuarUse { uuars, qps: vec![0; uuars.total as usize] }
    }

    /// The register of the next QP: a free low-latency register, else the shared register with the fewest
    /// QPs, else register 0. Of equal registers, it is the first.
    pub fn take(&mut self) -> u32 {
        let first_low_latency = self.uuars.first_low_latency();
        let free = (first_low_latency..self.uuars.total).find(|register| self.qps[*register as usize] == 0);
        let shared = (1..first_low_latency).min_by_key(|register| self.qps[*register as usize]);
        let register = free.or(shared).unwrap_or(REGISTER_ZERO);
        self.qps[register as usize] += 1;
        register
    }

    /// Notes that a QP of this register was destroyed.
    ///
    /// # Panics
    /// If the register has no QP.
    pub fn put(&mut self, register: u32) {
        let qps = &mut self.qps[register as usize];
        *qps = qps.checked_sub(1).expect("a QP that is destroyed has a register");
    }
}
