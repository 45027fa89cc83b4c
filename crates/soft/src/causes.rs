//! The reasons for which verbs are refused by this device, besides those of `doorbell_transport::causes`.
//! `docs/run-calls.md` has both tables.

use crate::errno::{ENOMEM, Errno};
pub(crate) use doorbell_transport::causes::*;
use doorbell_transport::{Cause, Refused};
use std::fmt::{self, Display, Formatter};

doorbell_transport::causes! {
    #[cfg(test)]
    pub(crate) OF_DEVICE:
    "ibv_open_device(3)" {
        DEVICE_NULL: EINVAL "device" "is null, but must be a device of ibv_get_device_list(3)"
        DEVICE_JOIN: ENOMEM "device"
            "cannot join its fabric, for the reason in the line \"this process cannot use the software NIC\""
        DEVICE_FILES: EMFILE "device" "cannot be opened ({}); each context needs three open files"
        CONTEXT_NULL: EINVAL "context" "is null, but must be a context of ibv_open_device(3)"
        CONTEXT_OTHER: EINVAL "context"
            "of {} differs from the context of the call; create all objects of a call in one context"
        SYSTEM: EIO "context"
            "cannot serve the call, because the operating system refuses memory, a file or a lock for it ({})"
    }
    "ibv_alloc_pd(3)" {
        PD_LIMIT: ENOMEM "context"
            "cannot have another PD; a process has at most {} (max_pd of ibv_query_device(3)), and 2^30 in its life"
        PD_BUSY: EBUSY "pd"
            "still has {} regions, windows, QPs, SRQs, AHs or parent domains; destroy them first"
    }
    "ibv_reg_mr(3)" {
        MR_LENGTH: EINVAL "length" "is 0, but must be at least 1"
        MR_ACCESS_BITS: EINVAL "access" "has the bits {}, which are not in enum ibv_access_flags"
        MR_ACCESS_LOCAL: EINVAL "access"
            "is {}, but IBV_ACCESS_REMOTE_WRITE and IBV_ACCESS_REMOTE_ATOMIC also need IBV_ACCESS_LOCAL_WRITE"
        MR_ADDR_END: EINVAL "addr" "is {} with length {}, but the region must end below 2^64"
        MR_MEMORY: EFAULT "addr"
            "is {} with length {}, but not all of these bytes are mapped with the rights for access {}"
        MR_MAPS: EIO "addr"
            "cannot be looked up in /proc/self/maps ({}); the process may have too many open files"
        MR_LIMIT: ENOMEM "pd"
            "cannot have another region or window; a process has at most {}, max_mr of ibv_query_device(3)"
        MR_BUSY: EBUSY "mr" "still has bound memory windows; invalidate or deallocate them first"
    }
    "ibv_rereg_mr(3)" {
        REREG_FLAGS: EINVAL "flags" "is {}, but must be 1 to 7, an OR of enum ibv_rereg_mr_flags"
        REREG_PD: EINVAL "pd" "is null, but IBV_REREG_MR_CHANGE_PD needs a PD"
        REREG_ADDR: EINVAL "addr" "is {} with length {}, but IBV_REREG_MR_CHANGE_TRANSLATION needs memory"
        REREG_DM: EINVAL "mr" "lies in device memory, but only regions of other memory can be changed"
        REREG_KEY: EINVAL "mr" "has lkey {}, which no region of the process has"
    }
    "ibv_reg_dmabuf_mr(3)" {
        MR_DMABUF: EOPNOTSUPP "fd" "is a dma-buf, but the device only reaches memory of processes"
    }
    "ibv_advise_mr(3)" {
        ADVICE: EOPNOTSUPP "advice" "is {}, but must be 0 to 2 (enum ib_uverbs_advise_mr_advice)"
        ADVICE_FLAGS: EINVAL "flags" "is {}, but must be 0 or IBV_ADVISE_MR_FLAG_FLUSH"
        ADVICE_EMPTY: EINVAL "num_sge" "is 0, but must be at least 1"
        ADVICE_LKEY: ENOENT "sg_list" "has lkey {}, which no region has"
        ADVICE_RIGHTS: EPERM "sg_list"
            "has lkey {}, whose region is of another PD, or lacks IBV_ACCESS_LOCAL_WRITE for advice {}"
        ADVICE_BYTES: EFAULT "sg_list" "has {} bytes at {}, which are not all in the region of lkey {}"
    }
    "ibv_alloc_mw(3)" {
        MW_TYPE: EINVAL "type" "is {}, but must be IBV_MW_TYPE_1 or IBV_MW_TYPE_2"
    }
    "ibv_bind_mw(3)" {
        MW_BIND_TYPE: EINVAL "mw" "is of type {}, but windows of type 2 are bound by IBV_WR_BIND_MW"
        MW_BIND_MR: EINVAL "bind_info.mr" "is null, but addr is {} and length is {}; both must be 0"
        MW_BIND_ZERO: EINVAL "bind_info.mw_access_flags"
            "has IBV_ACCESS_ZERO_BASED, but only windows of type 2 can be zero-based"
    }
    "ibv_alloc_dm(3)" {
        DM_MASK: EINVAL "attr.comp_mask" "is {}, but must be 0"
        DM_LENGTH: EINVAL "attr.length" "is 0, but must be at least 1"
        DM_ALIGN: EINVAL "attr.log_align_req" "is {}, but must be at most 12"
        DM_SIZE: ENOMEM "attr.length" "is {}, but must be at most {}, max_dm_size of ibv_query_device_ex(3)"
        DM_ROOM: ENOMEM "attr.length" "is {}, but the shared memory of the process has no room for it"
        DM_BUSY: EBUSY "dm" "still has {} memory regions; deregister them first"
        DM_RANGE: EINVAL "dm_offset" "is {} with length {}, but the device memory has {} bytes"
        DM_WORDS: EINVAL "dm_offset" "is {} with length {}, but both must be multiples of 4"
        DM_ACCESS: EINVAL "access" "is {}, but a region of device memory needs IBV_ACCESS_ZERO_BASED"
    }
    "ibv_alloc_td(3)" {
        TD_MASK: EOPNOTSUPP "attr.comp_mask" "is {}, but must be 0"
        TD_BUSY: EBUSY "td" "is still used by {} parent domains; deallocate them first"
    }
    "ibv_alloc_parent_domain(3)" {
        PARENT_MASK: EOPNOTSUPP "attr.comp_mask" "is {}, but must be at most 3"
        PARENT_PD: EINVAL "attr.pd" "is null, but a parent domain needs a PD"
    }
    "ibv_create_comp_channel(3)" {
        CHANNEL_FILES: EMFILE "context" "gets no channel ({}); each channel needs two open files"
        CHANNEL_BUSY: EBUSY "channel" "is still used by {} CQs; destroy them first"
    }
    "ibv_create_cq(3)" {
        CQ_CQE: EINVAL "cqe" "is {}, but must be 1 to {}, max_cqe of ibv_query_device(3)"
        CQ_VECTOR: EINVAL "comp_vector" "is {}, but must be 0 to {}, num_comp_vectors of the context less 1"
        CQ_CHANNEL: EBADF "channel" "is of another context, but a CQ and its channel need one context"
        CQ_ROOM: ENOMEM "cqe"
            "is {}, but the process has {} CQs (max_cq of ibv_query_device(3)), or too little shared memory"
        CQ_BUSY: EBUSY "cq" "is still used by {} QPs or SRQs; destroy them first"
    }
    "ibv_create_cq_ex(3)" {
        CQ_EX_FLAGS: EOPNOTSUPP "cq_attr"
            "has comp_mask {}, wc_flags {} and flags {}, but must only have bits of 3, 0x8ff and 1"
        CQ_EX_PARENT: EINVAL "cq_attr.parent_domain"
            "is null or a plain PD, but must be of ibv_alloc_parent_domain(3)"
        CQ_EX_POLL: EINVAL "attr.comp_mask" "is {}, but must be 0"
        CQ_EX_EMPTY: ENOENT "cq" "has no completion yet; start to poll again later"
    }
    "ibv_resize_cq(3)" {
        CQ_RESIZE: EINVAL "cqe" "is {}, but the CQ holds more completions; poll them first"
        CQ_RESIZE_ROOM: ENOMEM "cqe" "is {}, but the process has too little shared memory for it"
    }
    "ibv_modify_cq(3)" {
        CQ_PERIOD: EINVAL "attr.moderate.cq_period"
            "is {}, but must be at most {}, max_cq_period of ibv_query_device_ex(3)"
        CQ_ATTR_NONE: EINVAL "attr.attr_mask" "is 0, but must be IBV_CQ_ATTR_MODERATE"
        CQ_ATTR_MASK: EOPNOTSUPP "attr.attr_mask" "is {}, but must be IBV_CQ_ATTR_MODERATE"
    }
    "ibv_poll_cq(3)" {
        POLL_ENTRIES: EINVAL "num_entries" "is {}, but must be at least 0"
        POLL_OVERRUN: EIO "cq" "has overrun and lost a completion, so no completion can be polled any more"
    }
    "ibv_get_cq_event(3)" {
        CQ_EVENTS: EAGAIN "channel" "is non-blocking and has no event, or a signal has ended the wait"
    }
    "ibv_get_async_event(3)" {
        ASYNC_EVENTS: EAGAIN "context" "is non-blocking and has no event, or a signal has ended the wait"
    }
    "ibv_create_qp(3)" {
        QP_TYPE: EOPNOTSUPP "qp_type" "is {}, but the device only has RC, UC, UD and XRC"
        QP_PD: EINVAL "pd" "is null, but a QP needs a PD"
        QP_SEND_CQ: EINVAL "send_cq" "is null, but a QP needs a CQ for its send work requests"
        QP_RECV_CQ: EINVAL "recv_cq" "is null, but a QP needs a CQ for its RECVs; it may be the send_cq"
        QP_SEND_WR: EINVAL "cap.max_send_wr" "is {}, but must be at most {}, max_qp_wr of ibv_query_device(3)"
        QP_RECV_WR: EINVAL "cap.max_recv_wr" "is {}, but must be at most {}, max_qp_wr of ibv_query_device(3)"
        QP_SEND_SGE: EINVAL "cap.max_send_sge" "is {}, but must be at most {}, max_sge of ibv_query_device(3)"
        QP_RECV_SGE: EINVAL "cap.max_recv_sge" "is {}, but must be at most {}, max_sge of ibv_query_device(3)"
        QP_INLINE: EINVAL "cap.max_inline_data"
            "is {}, but must be at most {}, which no query shows; ask for less until the call succeeds"
        QP_ROOM: ENOMEM "pd"
            "cannot have another QP; a process has at most {} (max_qp of ibv_query_device(3)), or too little memory"
        QP_NULL: EINVAL "qp" "is null, but must be a QP of ibv_create_qp(3)"
    }
    "ibv_create_qp_ex(3)" {
        QP_EX_FLAGS: EOPNOTSUPP "qp_init_attr_ex"
            "has comp_mask {}, create_flags {} and send_ops_flags {}, which a QP of this type does not have"
        QP_EX_MASK: EINVAL "comp_mask" "is {}, but must have {}, and that field must not be null"
    }
    "ibv_modify_qp(3)" {
        QP_ELSEWHERE: EOPNOTSUPP "qp" "is of another process, and only its own process can modify it"
        QP_CUR_STATE: EINVAL "attr.cur_qp_state" "is {}, but the QP is in state {}"
        QP_MASK_BITS: EINVAL "attr_mask"
            "has the bits {}, such as IBV_QP_CAP or IBV_QP_ALT_PATH, which the device does not have"
        QP_STATE: EINVAL "attr.qp_state" "is {}, but must be 0 to 6 (enum ibv_qp_state)"
        QP_PATH_MTU: EINVAL "attr.path_mtu" "is {}, but must be 1 to 5 (IBV_MTU_256 to IBV_MTU_4096)"
        QP_PORT: EINVAL "attr.port_num" "is {}, but the device only has port 1"
        QP_PKEY: EINVAL "attr.pkey_index" "is {}, but must be 0, because the port has one P_Key"
        QP_RD_ATOMIC: EINVAL "attr.max_rd_atomic"
            "is {}, but must be at most {}, max_qp_init_rd_atom of ibv_query_device(3)"
        QP_DEST_RD_ATOMIC: EINVAL "attr.max_dest_rd_atomic"
            "is {}, but must be at most {}, max_qp_rd_atom of ibv_query_device(3)"
        QP_RESET: ENOMEM "attr.qp_state"
            "is IBV_QPS_RESET, but the process has too little shared memory for a new receive queue"
    }
    "ibv_create_ah(3)" {
        PATH_PORT: EINVAL "ah_attr.port_num" "is {}, but the device only has port 1"
        PATH_GRH: EINVAL "ah_attr.is_global" "is 0, but RoCE needs a GRH with the GID of the destination"
        PATH_SGID: EINVAL "ah_attr.grh.sgid_index" "is {}, but the port has {} GIDs, which count from 0"
        AH_LIMIT: ENOMEM "pd" "cannot have another AH; a process has at most {}, max_ah of ibv_query_device(3)"
    }
    "ibv_create_ah_from_wc(3)" {
        WC_PORT: EINVAL "port_num" "is {}, but the device only has port 1"
        WC_GRH: EINVAL "grh" "has the destination GID {}, which the GID table of this port does not have"
        WC_HEADER: EPROTONOSUPPORT "grh" "is neither an IPv4 header nor an IPv6 header of a datagram on UD"
    }
    "ibv_attach_mcast(3)" {
        MCAST_QP: EINVAL "qp" "is of type {}, but only QPs of type UD can join a group"
        MCAST_GROUP: EINVAL "gid"
            "is {} with LID {}, but a group has a GID from ff00:: on, and on InfiniBand a LID from 0xc000 on"
        MCAST_LIMIT: ENOMEM "gid"
            "cannot be joined; a process has at most {} attachments, max_mcast_grp of ibv_query_device(3)"
        MCAST_ABSENT: EINVAL "gid" "is {} with LID {}, a group that the QP is not attached to"
        MCAST_BUSY: EBUSY "qp" "is still attached to a multicast group; detach it before it is destroyed"
    }
    "ibv_post_send(3)" {
        SEND_FULL: ENOMEM "qp"
            "has a full send queue with {} work requests (cap.max_send_wr); only a poll of the completion of a \
             signalled work request makes room"
        SEND_NONE: ENOMEM "qp" "has no send queue, because it was created with cap.max_send_wr 0"
        SEND_TARGET: EINVAL "qp" "is an XRC target, but only an XRC initiator can send"
        SEND_WINDOW_QP: EINVAL "qp" "is of type UD, but memory windows need RC or UC"
        SEND_WINDOW: EINVAL "wr.bind_mw.mw"
            "is null or of type 1, but IBV_WR_BIND_MW binds windows of type 2"
        SEND_ATOMIC_WRITE: EINVAL "wr.sg_list" "has {} bytes, but IBV_WR_ATOMIC_WRITE writes 8"
        SGE_COUNT: EINVAL "num_sge" "is {}, but must be the number of SGEs in sg_list"
        SGE_NULL: EINVAL "sg_list" "is null, but num_sge is {}"
    }
    "ibv_wr_post(3)" {
        SEND_LIST: ENOMEM "qp"
            "has room for {} work requests until a signalled one completes and is polled, but the list has {} \
             (cap.max_send_wr is {})"
        SEND_LIST_LONG: ENOMEM "qp" "never has room for a list of {} work requests, because cap.max_send_wr is {}"
        BUILD_ORDER: EINVAL "qp" "has no work request yet; call one such as ibv_wr_send(3) before its setters"
        BUILD_AH: EINVAL "ah" "is null or the QP is not of type UD, but only UD takes an address handle"
        BUILD_SRQN: EINVAL "remote_srqn" "is set, but only QPs of type IBV_QPT_XRC_SEND name an SRQ"
        BUILD_INLINE: ENOMEM "length" "is {} bytes of inline payload, but cap.max_inline_data of the QP is {}"
    }
    "ibv_post_recv(3)" {
        RECV_NUM_SGE: EINVAL "wr.num_sge" "is {}, but the queue was created with {} SGEs for each RECV"
        RECV_FULL: ENOMEM "qp or srq"
            "has a full receive queue with {} RECVs; only a poll of the completion of a RECV makes room"
        RECV_NONE: ENOMEM "qp" "has no receive queue, because it was created with cap.max_recv_wr 0"
        RECV_RECORD: EINVAL "qp or srq"
            "has no record in the shared memory of the process, which is a mistake of Doorbell"
    }
    "ibv_create_srq(3)" {
        SRQ_PD: EINVAL "pd" "is null, but an SRQ needs a PD"
        SRQ_WR: EINVAL "attr.max_wr" "is {}, but must be 1 to {}, max_srq_wr of ibv_query_device(3)"
        SRQ_SGE: EINVAL "attr.max_sge" "is {}, but must be at most {}, max_srq_sge of ibv_query_device(3)"
        SRQ_ROOM: ENOMEM "pd"
            "cannot have another SRQ; a process has at most {} (max_srq of ibv_query_device(3)), or too little memory"
        SRQ_BUSY: EBUSY "srq" "is still used by {} QPs; destroy them first"
    }
    "ibv_create_srq_ex(3)" {
        SRQ_EX_FLAGS: EOPNOTSUPP "srq_init_attr_ex"
            "has srq_type {} and comp_mask {}, but the device only has basic SRQs and XRC SRQs"
        SRQ_EX_MASK: EINVAL "comp_mask" "is {}, but an XRC SRQ needs 15: srq_type, pd, xrcd and cq, none null"
    }
    "ibv_modify_srq(3)" {
        SRQ_RESIZE: EOPNOTSUPP "srq_attr_mask" "has IBV_SRQ_MAX_WR, but the device lacks IBV_DEVICE_SRQ_RESIZE"
        SRQ_MASK: EINVAL "srq_attr_mask" "is {}, but must be IBV_SRQ_LIMIT"
        SRQ_LIMIT: EINVAL "srq_attr.srq_limit" "is {}, but must be at most {}, max_wr of the SRQ"
    }
    "ibv_open_xrcd(3)" {
        XRCD_FLAGS: EOPNOTSUPP "comp_mask" "is {}, but must be at most 3"
        XRCD_MASK: EINVAL "comp_mask"
            "is {}, but must be IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS"
        XRCD_FILE: EBADF "fd" "is {}, but must be -1 or an open file ({})"
        XRCD_NEW: EINVAL "oflags" "has O_EXCL, but the domain of this file is open already"
        XRCD_ABSENT: EAGAIN "oflags"
            "lacks O_CREAT, but the domain of this file is not open; or another process is opening it now"
        XRCD_BUSY: EBUSY "xrcd" "is still used by {} QPs or SRQs; destroy them first"
    }
    "ibv_open_qp(3)" {
        OPEN_FLAGS: EOPNOTSUPP "comp_mask" "is {}, but must be at most 15"
        OPEN_MASK: EINVAL "comp_mask"
            "is {} with qp_type {}, but must cover qp_num, xrcd (not null) and qp_type (IBV_QPT_XRC_RECV)"
        OPEN_NUM: EINVAL "qp_num" "is {}, which no XRC target of this domain has"
    }
    "ibv_query_port(3)" {
        PORT: EINVAL "port_num" "is {}, but the device only has port 1"
    }
    "ibv_query_gid(3)" {
        GID_INDEX: EINVAL "index" "is {} at port {}, but only port 1 has GIDs, {} of them"
        GID_FLAGS: EINVAL "flags" "is {}, but must be 0"
        GID_TABLE: EINVAL "max_entries" "is {}, but the port has {} GIDs"
    }
    "ibv_query_pkey(3)" {
        PKEY_INDEX: EINVAL "index" "is {} at port {}, but only index 0 of port 1 has a P_Key"
        PKEY: EINVAL "pkey" "is {} at port {}, but port 1 only has 0xffff"
    }
    "ibv_query_ece(3)" {
        ECE: EOPNOTSUPP "qp" "negotiates no options: the device has no enhanced connection establishment"
    }
    "rdma-core" {
        SYSFS_FILE: ENOENT "file" "cannot be read in the given folder of sysfs"
        NO_FUNCTION: ENOSYS "the function" "is private to drivers of other devices"
        NO_OBJECT: EOPNOTSUPP "the function" "creates objects that the device does not have, such as flows"
    }
}

macro_rules! fields {
    ($($name:ident: $($cause:ident)+;)*) => {
        $(pub(crate) static $name: &[&Cause] = &[$(&$cause),+];)*
        #[cfg(test)]
        static OF_FIELDS: &[&[&Cause]] = &[$($name),*];
    };
}

// All reasons that refuse a value of a field, for each field that programs may reduce until a call works
// (`refused`).
fields! {
    OF_MR_LENGTH: MR_LENGTH;
    OF_MR_ACCESS: MR_ACCESS_BITS MR_ACCESS_LOCAL;
    OF_MR_ADDR: MR_ADDR_END MR_MEMORY MR_MAPS;
    OF_DM_LENGTH: DM_LENGTH DM_SIZE DM_ROOM;
    OF_DM_ALIGN: DM_ALIGN;
    OF_CQE: CQ_CQE CQ_ROOM CQ_RESIZE CQ_RESIZE_ROOM;
    OF_CQ_VECTOR: CQ_VECTOR;
    OF_CQ_PERIOD: CQ_PERIOD;
    OF_SEND_WR: QP_SEND_WR;
    OF_RECV_WR: QP_RECV_WR;
    OF_SEND_SGE: QP_SEND_SGE;
    OF_RECV_SGE: QP_RECV_SGE;
    OF_INLINE: QP_INLINE;
    OF_RD_ATOMIC: QP_RD_ATOMIC;
    OF_DEST_RD_ATOMIC: QP_DEST_RD_ATOMIC;
    OF_PATH_MTU: QP_PATH_MTU;
    OF_SRQ_WR: SRQ_WR;
    OF_SRQ_SGE: SRQ_SGE;
    OF_SRQ_LIMIT: SRQ_LIMIT;
}

/// Shows a number in hexadecimal.
pub(crate) struct Hex<T>(pub(crate) T);

impl<T: fmt::LowerHex> Display for Hex<T> {
    fn fmt(&self, to: &mut Formatter<'_>) -> fmt::Result {
        write!(to, "{:#x}", self.0)
    }
}

/// The reason for an errno that is `ENOMEM` at a limit of the device, and otherwise comes from the operating
/// system.
#[cold]
pub(crate) fn at_limit<const N: usize>(
    limit: &'static Cause,
    errno: Errno,
    values: [&dyn Display; N],
) -> Refused {
    match errno {
        ENOMEM => limit.of(values),
        other => by_system(other),
    }
}

/// The reason for an errno that comes from the operating system.
#[cold]
pub(crate) fn by_system(errno: Errno) -> Refused {
    SYSTEM.of([&std::io::Error::from_raw_os_error(errno.0)]).with_errno(errno.0)
}

#[cfg(test)]
mod tests {
    use super::{OF_DEVICE, OF_FIELDS};
    use crate::cm::causes::{OF_BIND_ADDR, OF_CM};
    use doorbell_transport::{Cause, causes};
    use std::path::{Path, PathBuf};

    fn all() -> impl Iterator<Item = &'static Cause> {
        causes::ALL.iter().chain(OF_DEVICE).chain(OF_CM).copied()
    }

    /// A folder or file of the workspace.
    fn place(path: &str) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
    }

    /// The rows of a page's table. A row has the reasons of one man page and one errno.
    fn table(causes: &[&'static Cause]) -> String {
        let mut rows: Vec<((&str, &str), Vec<String>)> = Vec::new();
        for cause in causes {
            let sentence = cause.sentence.replace("{}", "...").replace('|', "\\|");
            let reason = format!("`{}` {sentence}", cause.field);
            let key = (cause.page, cause.errno_name);
            match rows.iter_mut().find(|(known, _)| *known == key) {
                Some((_, reasons)) => reasons.push(reason),
                None => rows.push((key, vec![reason])),
            }
        }
        rows.sort_by_key(|(key, _)| *key);
        let head = "| man page | errno | reasons |\n|---|---|---|\n".to_owned();
        rows.iter().fold(head, |table, ((page, errno), reasons)| {
            table + &format!("| {page} | `{errno}` | {} |\n", reasons.join("<br>"))
        })
    }

    #[test]
    fn the_pages_list_every_reason() {
        let verbs = causes::ALL.iter().chain(OF_DEVICE).copied().collect::<Vec<_>>();
        for (path, table) in [("docs/run-calls.md", table(&verbs)), ("docs/run-cm-calls.md", table(OF_CM))] {
            let page = std::fs::read_to_string(place(path)).expect("the page is there");
            let (before, rest) = page.split_once("<!-- reasons -->\n").expect("the table begins");
            let (shown, after) = rest.split_once("<!-- end of reasons -->\n").expect("the table ends");
            if std::env::var_os("DOORBELL_BLESS").is_some() {
                let new = format!("{before}<!-- reasons -->\n{table}<!-- end of reasons -->\n{after}");
                std::fs::write(place(path), new).expect("it can be written");
            } else {
                assert_eq!(shown, table, "cargo xtask bless");
            }
        }
    }

    /// A sentence states more than strerror(3): a value or a state, and what would be right.
    #[test]
    fn a_sentence_says_more_than_the_errno() {
        for cause in all() {
            let text = std::io::Error::from_raw_os_error(cause.errno).to_string();
            let strerror = text.split(" (os").next().unwrap_or_default().to_lowercase();
            let sentence = cause.sentence.to_lowercase();
            assert!(!sentence.contains(&strerror), "{}: {sentence}", cause.name);
            assert!(sentence.split(' ').count() >= 5, "{}: {sentence}", cause.name);
            assert!(!cause.field.is_empty() && !cause.page.is_empty(), "{}", cause.name);
        }
    }

    /// A new reason about a field that programs may reduce belongs to the list of the field.
    #[test]
    fn the_lists_of_fields_are_complete() {
        for list in OF_FIELDS.iter().chain([&OF_BIND_ADDR]) {
            let field = list[0].field;
            assert!(list.iter().all(|cause| cause.field == field), "{list:#?}");
            let is_of_page = |cause: &&Cause| list.iter().any(|known| known.page == cause.page);
            let named = all().filter(|cause| cause.field == field).filter(is_of_page);
            assert_eq!(named.collect::<Vec<_>>(), **list);
        }
    }

    /// The errno that this line of code returns without a reason: its name, or its number in `Errno`.
    fn bare_errno(line: &str) -> Option<&str> {
        let code = line.split("//").next().unwrap_or_default();
        // The pattern of a match arm reads the errno of a system call.
        let result = code.split_once("=>").map_or(code, |(_, result)| result);
        let is_errno = |word: &&str| {
            let is_upper = |b: u8| b.is_ascii_uppercase() || b.is_ascii_digit();
            word.len() > 2 && word.starts_with('E') && word.bytes().all(is_upper) && *word != "ECE"
        };
        let number = result.find("Errno(").map(|at| &result[at + "Errno(".len()..]);
        let number = number.filter(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
        result.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).find(is_errno).or(number)
    }

    /// The sources whose functions return errors of verbs.
    fn sources() -> Vec<PathBuf> {
        let mut all: Vec<PathBuf> =
            ["transport/src/transitions.rs", "transport/src/validate.rs", "soft/src/cm/commands.rs"]
                .map(|name| place("crates").join(name))
                .to_vec();
        for folder in ["capi", "queues/qp"] {
            let files = std::fs::read_dir(place("crates/soft/src").join(folder)).expect("it can be listed");
            all.extend(files.map(|file| file.expect("it can be read").path()));
        }
        // The errors of rdma_cm's commands have their reasons in `cm/commands.rs`.
        all.retain(|path| path.extension().is_some_and(|ext| ext == "rs") && !path.ends_with("capi/cm.rs"));
        assert!(all.len() > 30, "{all:?}");
        all
    }

    #[test]
    fn no_call_returns_an_errno_without_a_reason() {
        for (line, errno) in [
            ("        return Err(EINVAL);", Some("EINVAL")),
            ("        return EIO.returned();", Some("EIO")),
            ("        return Err(Errno(libc::E2BIG));", Some("E2BIG")),
            ("        return Err(Errno(22));", Some("22));")),
            ("        0 => Err(Errno(libc::ENOMEM)),", Some("ENOMEM")),
            ("        0 => match step { 1 => Err(EINVAL), _ => Ok(()) },", Some("EINVAL")),
            ("        Errno(libc::EINVAL) => XRCD_NEW.bare(), // EINVAL", None),
        ] {
            assert_eq!(bare_errno(line), errno, "{line}");
        }
        for path in sources() {
            let text = std::fs::read_to_string(&path).expect("it can be read");
            for (number, line) in text.lines().enumerate() {
                // `Qp::new` and its parts fail for one reason, which `capi` names.
                let is_record = path.ends_with("queues/qp/mod.rs") && line.contains(".ok_or(EINVAL)?");
                let is_import = line.starts_with("use ");
                // An event of rdma_cm has a status.
                let is_event = line.contains("state.tell(");
                let errno = bare_errno(line).filter(|_| !is_record && !is_import && !is_event);
                assert_eq!(errno, None, "{}:{}: {line}", path.display(), number + 1);
            }
        }
    }

    /// The functions that return an errno without a line: queries, events, and calls that fail in the normal
    /// course of a program.
    const SILENT: [&str; 15] = [
        "cq.rs ibv_get_cq_event",
        "cq.rs poll_cq",
        "cq_ex.rs next_poll",
        "device.rs ibv_open_device",
        "event.rs ibv_get_async_event",
        "mr.rs not_changed",
        "qp.rs ibv_destroy_qp",
        "query.rs _ibv_query_gid_ex",
        "query.rs _ibv_query_gid_table",
        "query.rs ibv_get_pkey_index",
        "query.rs ibv_query_gid",
        "query.rs ibv_query_gid_type",
        "query.rs ibv_query_pkey",
        "query.rs ibv_read_sysfs_file",
        "query.rs write_port",
    ];

    /// All other functions return errors by `status` and its siblings in `capi/mod.rs`, which print a line.
    #[test]
    fn only_known_functions_fail_silently() {
        let is_of_calls = |path: &PathBuf| {
            path.parent().is_some_and(|folder| folder.ends_with("capi")) && !path.ends_with("mod.rs")
        };
        let mut found = std::collections::BTreeSet::new();
        for path in sources().iter().filter(|path| is_of_calls(path)) {
            let text = std::fs::read_to_string(path).expect("it can be read");
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            let mut function = "";
            for line in text.lines().filter(|line| !line.starts_with("use ")) {
                if let Some((_, rest)) = line.split_once("fn ") {
                    function = rest.split(['(', '<']).next().unwrap_or_default();
                }
                if ["silent_", ".returned()", ".set()"].iter().any(|part| line.contains(part)) {
                    found.insert(format!("{name} {function}"));
                }
            }
        }
        assert_eq!(found.iter().map(String::as_str).collect::<Vec<_>>(), SILENT);
    }
}
