//! Chooses the fastest vector I/O strategy by the costs in a profile, without simulation.

use doorbell_nic::Profile;
use doorbell_nic::limits::{self, Mix, Pattern};
use doorbell_systems::VectorCalls;
use doorbell_systems::vector_io::Strategy;
use doorbell_verbs::{Opcode, QpType, Span};

/// All strategies. Of equally fast strategies, the first wins.
const ALL: [Strategy; 3] = [Strategy::Sp, Strategy::Sgl, Strategy::Doorbell];

/// Bytes of a cache line.
const LINE: u32 = 64;

/// For each strategy, the upper bound of its rate in millions of calls per second, fastest first.
pub fn rates(profile: &Profile, io: &VectorCalls) -> [(Strategy, f64); 3] {
    let mut rates = ALL.map(|strategy| (strategy, rate(profile, io, strategy)));
    rates.sort_by(|(_, a), (_, b)| b.total_cmp(a));
    rates
}

/// The strategy with the highest bound.
pub fn best(profile: &Profile, io: &VectorCalls) -> Strategy {
    rates(profile, io)[0].0
}

/// Upper bound in millions of calls per second: the lowest bound of a call's WRITEs.
fn rate(profile: &Profile, io: &VectorCalls, strategy: Strategy) -> f64 {
    let copying = match strategy {
        Strategy::Sp => copying(profile, io),
        Strategy::Doorbell | Strategy::Sgl => Span::ZERO,
    };
    // The program of a client does nothing but calls and copies.
    let mut host = profile.clone();
    host.host.program = copying;
    let mix = mix(profile, io, strategy, copying);
    let least = limits::limits(&host, &mix).first().map_or(0.0, |least| least.mops);
    least / f64::from(mix.batch)
}

/// Time for a core to copy the pieces of a call: one load and one store per cache line.
fn copying(profile: &Profile, io: &VectorCalls) -> Span {
    let lines = u64::from(io.piece.div_ceil(LINE)) * u64::from(io.iovcnt);
    profile.host.l1_hit * (2 * lines)
}

/// The WRITEs of a call.
fn mix(profile: &Profile, io: &VectorCalls, strategy: Strategy, copying: Span) -> Mix {
    let clients = &io.clients;
    let bytes = io.iovcnt * io.piece;
    let (batch, sges) = match strategy {
        Strategy::Sp => (1, 1),
        Strategy::Doorbell => (io.iovcnt, 1),
        Strategy::Sgl => {
            let most = io.iovcnt.min(profile.device.nic.max_sge);
            (io.iovcnt.div_ceil(most), most)
        }
    };
    let payload = bytes.div_ceil(batch);
    Mix {
        opcode: Opcode::Write,
        qp_type: QpType::Rc,
        payload,
        inline: sges == 1 && payload <= io.inline_bytes.min(profile.device.nic.max_inline),
        sges,
        batch,
        signal_every: batch,
        window: clients.outstanding * batch,
        window_per_qp: true,
        drain: false,
        pattern: Pattern::Inbound,
        machines: clients.machines(),
        threads: clients.clients.min(clients.clients_per_machine),
        qps: 1,
        ports: u32::MAX,
        max_rd_atomic: u32::MAX,
        counters: 1,
        counter_stride: 8,
        device_memory: false,
        one_address: false,
        inline_recv: false,
        recv_batch: 1,
        think: copying,
        mixed_lists: false,
    }
}
