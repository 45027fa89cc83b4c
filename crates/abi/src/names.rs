//! Names of opcodes and statuses.

use doorbell_verbs::{Opcode, WcStatus};

/// The name of an opcode in verbs.h, without the prefix `IBV_WR_`.
pub fn opcode_name(opcode: Opcode) -> &'static str {
    match opcode {
        Opcode::Send => "SEND",
        Opcode::SendWithImm => "SEND_WITH_IMM",
        Opcode::Write => "RDMA_WRITE",
        Opcode::WriteWithImm => "RDMA_WRITE_WITH_IMM",
        Opcode::Read => "RDMA_READ",
        Opcode::CompareSwap => "ATOMIC_CMP_AND_SWP",
        Opcode::FetchAdd => "ATOMIC_FETCH_AND_ADD",
    }
}

/// The name of a status in verbs.h.
pub fn status_name(status: WcStatus) -> &'static str {
    match status {
        WcStatus::Success => "IBV_WC_SUCCESS",
        WcStatus::LocLenErr => "IBV_WC_LOC_LEN_ERR",
        WcStatus::LocQpOpErr => "IBV_WC_LOC_QP_OP_ERR",
        WcStatus::LocProtErr => "IBV_WC_LOC_PROT_ERR",
        WcStatus::WrFlushErr => "IBV_WC_WR_FLUSH_ERR",
        WcStatus::MwBindErr => "IBV_WC_MW_BIND_ERR",
        WcStatus::BadRespErr => "IBV_WC_BAD_RESP_ERR",
        WcStatus::LocAccessErr => "IBV_WC_LOC_ACCESS_ERR",
        WcStatus::RemInvReqErr => "IBV_WC_REM_INV_REQ_ERR",
        WcStatus::RemAccessErr => "IBV_WC_REM_ACCESS_ERR",
        WcStatus::RemOpErr => "IBV_WC_REM_OP_ERR",
        WcStatus::RetryExcErr => "IBV_WC_RETRY_EXC_ERR",
        WcStatus::RnrRetryExcErr => "IBV_WC_RNR_RETRY_EXC_ERR",
        WcStatus::GeneralErr => "IBV_WC_GENERAL_ERR",
    }
}
