//! Conversions between the kernel's structs and the structs of verbs.h (infiniband/marshall.h). librdmacm
//! calls these functions.

use doorbell_abi::cm::{ib_user_path_rec, ib_uverbs_ah_attr, ib_uverbs_qp_attr, ibv_sa_path_rec};
use doorbell_abi::{ibv_ah_attr, ibv_gid, ibv_global_route, ibv_qp_attr, ibv_qp_cap};

fn ah_attr(from: &ib_uverbs_ah_attr) -> ibv_ah_attr {
    let grh = &from.grh;
    ibv_ah_attr {
        grh: ibv_global_route {
            dgid: ibv_gid { raw: grh.dgid },
            flow_label: grh.flow_label,
            sgid_index: grh.sgid_index,
            hop_limit: grh.hop_limit,
            traffic_class: grh.traffic_class,
        },
        dlid: from.dlid,
        sl: from.sl,
        src_path_bits: from.src_path_bits,
        static_rate: from.static_rate,
        is_global: from.is_global,
        port_num: from.port_num,
    }
}

pub unsafe extern "C" fn ibv_copy_ah_attr_from_kern(to: *mut ibv_ah_attr, from: *const ib_uverbs_ah_attr) {
    // SAFETY: the caller's structs.
    unsafe { to.write(ah_attr(&*from)) }
}

/// Copies all attributes except `rate_limit`, which stays unchanged. The kernel's struct does not have this
/// field, and the struct of an older program does not have it either.
pub unsafe extern "C" fn ibv_copy_qp_attr_from_kern(to: *mut ibv_qp_attr, from: *const ib_uverbs_qp_attr) {
    // SAFETY: the caller's structs; all fields of the program's struct are numbers.
    let (to, from) = unsafe { (&mut *to, &*from) };
    (to.qp_state, to.cur_qp_state) = (from.qp_state, from.cur_qp_state);
    (to.path_mtu, to.path_mig_state) = (from.path_mtu, from.path_mig_state);
    (to.qkey, to.rq_psn, to.sq_psn) = (from.qkey, from.rq_psn, from.sq_psn);
    (to.dest_qp_num, to.qp_access_flags) = (from.dest_qp_num, from.qp_access_flags);
    to.cap = ibv_qp_cap {
        max_send_wr: from.max_send_wr,
        max_recv_wr: from.max_recv_wr,
        max_send_sge: from.max_send_sge,
        max_recv_sge: from.max_recv_sge,
        max_inline_data: from.max_inline_data,
    };
    (to.ah_attr, to.alt_ah_attr) = (ah_attr(&from.ah_attr), ah_attr(&from.alt_ah_attr));
    (to.pkey_index, to.alt_pkey_index) = (from.pkey_index, from.alt_pkey_index);
    (to.en_sqd_async_notify, to.sq_draining) = (from.en_sqd_async_notify, from.sq_draining);
    (to.max_rd_atomic, to.max_dest_rd_atomic) = (from.max_rd_atomic, from.max_dest_rd_atomic);
    (to.min_rnr_timer, to.port_num) = (from.min_rnr_timer, from.port_num);
    (to.timeout, to.retry_cnt, to.rnr_retry) = (from.timeout, from.retry_cnt, from.rnr_retry);
    (to.alt_port_num, to.alt_timeout) = (from.alt_port_num, from.alt_timeout);
}

pub unsafe extern "C" fn ibv_copy_path_rec_from_kern(
    to: *mut ibv_sa_path_rec,
    from: *const ib_user_path_rec,
) {
    // SAFETY: the caller's structs.
    unsafe {
        let from = &*from;
        to.write(ibv_sa_path_rec {
            dgid: ibv_gid { raw: from.dgid },
            sgid: ibv_gid { raw: from.sgid },
            dlid: from.dlid,
            slid: from.slid,
            raw_traffic: from.raw_traffic as i32,
            flow_label: from.flow_label,
            hop_limit: from.hop_limit,
            traffic_class: from.traffic_class,
            reversible: from.reversible as i32,
            numb_path: from.numb_path,
            pkey: from.pkey,
            sl: from.sl,
            mtu_selector: from.mtu_selector,
            mtu: from.mtu as u8,
            rate_selector: from.rate_selector,
            rate: from.rate,
            packet_life_time_selector: from.packet_life_time_selector,
            packet_life_time: from.packet_life_time,
            preference: from.preference,
        });
    }
}

pub unsafe extern "C" fn ibv_copy_path_rec_to_kern(to: *mut ib_user_path_rec, from: *const ibv_sa_path_rec) {
    // SAFETY: the caller's structs.
    unsafe {
        let from = &*from;
        to.write(ib_user_path_rec {
            dgid: from.dgid.raw,
            sgid: from.sgid.raw,
            dlid: from.dlid,
            slid: from.slid,
            raw_traffic: from.raw_traffic as u32,
            flow_label: from.flow_label,
            reversible: from.reversible as u32,
            mtu: from.mtu.into(),
            pkey: from.pkey,
            hop_limit: from.hop_limit,
            traffic_class: from.traffic_class,
            numb_path: from.numb_path,
            sl: from.sl,
            mtu_selector: from.mtu_selector,
            rate_selector: from.rate_selector,
            rate: from.rate,
            packet_life_time_selector: from.packet_life_time_selector,
            packet_life_time: from.packet_life_time,
            preference: from.preference,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zerocopy::{FromBytes, IntoBytes};

    /// A struct with a different value in each byte.
    fn counted<T: FromBytes>() -> T {
        let bytes: Vec<u8> = (1..=size_of::<T>()).map(|byte| byte as u8).collect();
        T::read_from_bytes(&bytes).expect("as many bytes")
    }

    #[test]
    fn a_path_record_comes_back_as_it_was() {
        let from = ib_user_path_rec { mtu: 5, ..counted() };
        let (mut there, mut back) = (ibv_sa_path_rec::default(), ib_user_path_rec::default());
        // SAFETY: structs of this test.
        unsafe {
            ibv_copy_path_rec_from_kern(&mut there, &from);
            ibv_copy_path_rec_to_kern(&mut back, &there);
        }
        assert_eq!(back.as_bytes(), from.as_bytes());
        assert_eq!((there.dlid, there.preference), (from.dlid, from.preference));
    }

    #[test]
    fn attributes_of_a_qp_are_copied_but_for_its_rate() {
        let from: ib_uverbs_qp_attr = counted();
        // SAFETY: numbers, which may be zero; structs of this test.
        let mut to: ibv_qp_attr = unsafe { std::mem::zeroed() };
        to.rate_limit = 77;
        // SAFETY: as above.
        unsafe { ibv_copy_qp_attr_from_kern(&mut to, &from) };
        assert_eq!(
            (to.qp_state, to.dest_qp_num, to.alt_timeout),
            (from.qp_state, from.dest_qp_num, from.alt_timeout)
        );
        assert_eq!((to.cap.max_inline_data, to.rnr_retry), (from.max_inline_data, from.rnr_retry));
        assert_eq!(to.ah_attr.grh.dgid.raw, from.ah_attr.grh.dgid);
        assert_eq!(
            (to.ah_attr.port_num, to.alt_ah_attr.dlid),
            (from.ah_attr.port_num, from.alt_ah_attr.dlid)
        );
        assert_eq!(to.rate_limit, 77);
    }
}
