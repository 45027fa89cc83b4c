//! The reasons for which posts and changes of QPs are refused on every device.

crate::causes! {
    pub ALL:
    "ibv_modify_qp(3)" {
        QP_TRANSITION: EINVAL "attr.qp_state"
            "is {}, but a QP of type {} in state {} can only go to {}"
        QP_MASK_NO_STATE: EINVAL "attr_mask"
            "lacks IBV_QP_STATE, so the QP stays in {}, where a QP of type {} takes {}"
        QP_MASK_LACKS: EINVAL "attr_mask" "lacks {}, which a QP of type {} needs from {} to {}"
        QP_MASK_EXTRA: EINVAL "attr_mask" "has {}, which a QP of type {} does not take from {} to {}"
        QP_RQ_PSN: EINVAL "attr.rq_psn" "is {}, but must be 0 to 16777215, because a PSN has 24 bits"
        QP_SQ_PSN: EINVAL "attr.sq_psn" "is {}, but must be 0 to 16777215, because a PSN has 24 bits"
        QP_DEST_QPN: EINVAL "attr.dest_qp_num"
            "is {}, but must be 0 to 16777215, because a QP number has 24 bits"
        QP_PORT_NUM: EINVAL "attr.port_num" "is {}, but ports count from 1"
        QP_AH_PORT_NUM: EINVAL "attr.ah_attr.port_num" "is {}, but ports count from 1"
        QP_TIMEOUT: EINVAL "attr.timeout" "is {}, but must be 0 to 31"
        QP_RETRY_CNT: EINVAL "attr.retry_cnt" "is {}, but must be 0 to 7"
        QP_RNR_RETRY: EINVAL "attr.rnr_retry" "is {}, but must be 0 to 7"
    }
    "ibv_post_send(3)" {
        SEND_STATE: EINVAL "qp.state" "is {}, but work requests can only be sent from IBV_QPS_RTS on"
        SEND_OPCODE: EINVAL "wr.opcode" "is {}, which QPs of type {} do not have"
        SEND_NUM_SGE: EINVAL "wr.num_sge" "is {}, but the QP was created with cap.max_send_sge {}"
        SEND_LENGTH: EINVAL "wr.sg_list" "has {} bytes, but a message has at most {}"
        SEND_MTU: EINVAL "wr.sg_list"
            "has {} bytes, but a message on UD must fit into the active_mtu of the port, {} bytes"
        SEND_ATOMIC: EINVAL "wr.sg_list" "has {} SGEs with {} bytes, but an atomic needs 1 SGE of 8 bytes"
        SEND_INLINE_FLAG: EINVAL "wr.send_flags"
            "has IBV_SEND_INLINE, but {} returns data, and only payload that is sent can be inline"
        SEND_INLINE_LENGTH: EINVAL "wr.sg_list"
            "has {} bytes with IBV_SEND_INLINE, but cap.max_inline_data of the QP is {}"
        SEND_NO_AH: EINVAL "wr.wr.ud.ah" "is null, but a QP of type UD needs an address handle"
        SEND_REMOTE_QPN: EINVAL "wr.wr.ud.remote_qpn"
            "is {}, but must be at most 16777215, because a QP number has 24 bits"
        SEND_DEST: EINVAL "wr.wr.ud" "is set, but a QP of type {} takes its destination from ibv_modify_qp(3)"
    }
    "ibv_post_recv(3)" {
        RECV_SRQ: EINVAL "qp.srq"
            "is set, so the QP takes its RECVs from the SRQ; post them by ibv_post_srq_recv(3)"
        RECV_STATE: EINVAL "qp.state" "is IBV_QPS_RESET, but RECVs can only be posted from IBV_QPS_INIT on"
    }
}
