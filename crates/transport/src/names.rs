//! Names of C constants, for error messages.

use doorbell_verbs::{Opcode, QpState};

/// The name of a state (`enum ibv_qp_state`).
pub const fn state_name(state: QpState) -> &'static str {
    match state {
        QpState::Reset => "IBV_QPS_RESET",
        QpState::Init => "IBV_QPS_INIT",
        QpState::Rtr => "IBV_QPS_RTR",
        QpState::Rts => "IBV_QPS_RTS",
        QpState::Sqd => "IBV_QPS_SQD",
        QpState::Sqe => "IBV_QPS_SQE",
        QpState::Err => "IBV_QPS_ERR",
    }
}

/// The name of an opcode (`enum ibv_wr_opcode`).
pub(crate) const fn opcode_name(opcode: Opcode) -> &'static str {
    match opcode {
        Opcode::Send => "IBV_WR_SEND",
        Opcode::SendWithImm => "IBV_WR_SEND_WITH_IMM",
        Opcode::Write => "IBV_WR_RDMA_WRITE",
        Opcode::WriteWithImm => "IBV_WR_RDMA_WRITE_WITH_IMM",
        Opcode::Read => "IBV_WR_RDMA_READ",
        Opcode::CompareSwap => "IBV_WR_ATOMIC_CMP_AND_SWP",
        Opcode::FetchAdd => "IBV_WR_ATOMIC_FETCH_AND_ADD",
    }
}
