//! The reasons for which commands of rdma_cm are refused. `docs/run-cm-calls.md` has the table.

use crate::causes::by_system;
use crate::errno::Errno;
use doorbell_transport::{Cause, Refused};

doorbell_transport::causes! {
    #[cfg(test)]
    pub(crate) OF_CM:
    "rdma_accept(3)" {
        CM_PARAM: EINVAL "conn_param" "is null, but the call needs connection parameters"
        CM_PRIVATE: EINVAL "private_data_len" "is {}, but the message has room for {} bytes"
    }
    "rdma_bind_addr(3)" {
        CM_FAMILY: EINVAL "addr" "is null or of an unknown family, but must be of AF_INET or AF_INET6"
        CM_LINK: EINVAL "addr" "is {}, a link-local address, but sin6_scope_id names no interface"
        CM_INTERFACE: ENODEV "addr" "is {}, but no interface has its sin6_scope_id"
        CM_ADDR: EADDRNOTAVAIL "addr" "is {}, but this host does not have this address"
        CM_PORT_USED: EADDRINUSE "addr" "is {}, but another id has claimed the port"
        CM_PORT_NONE: EADDRNOTAVAIL "addr" "has port 0, but no port from 32768 to 60999 is free"
    }
    "rdma_cm(7)" {
        CM_STEP: EINVAL "id" "is {}, but the call needs an id that is {}"
        CM_ID: ENOENT "id" "does not exist any more"
        CM_ID_CHANNEL: EINVAL "id" "belongs to another event channel than its file descriptor"
        CM_FD: ENODEV "channel" "was inherited by fork(2), but a child needs an event channel of its own"
        CM_COMMAND: EINVAL "command" "is shorter than its struct, or has a number that no kernel knows"
        CM_ROOM: ENOSPC "command" "has room for {} bytes of the answer, but the answer has {}"
        CM_MEMORY: EFAULT "command" "has a pointer that leads to no memory of the process"
        CM_UNKNOWN: ENOSYS "command" "or its option is known to the kernel, but not to the software NIC"
    }
    "rdma_create_id(3)" {
        CM_PS: EINVAL "ps" "is {}, but must be RDMA_PS_TCP, RDMA_PS_UDP, RDMA_PS_IB or RDMA_PS_IPOIB"
    }
    "rdma_init_qp_attr(3)" {
        CM_NO_DEVICE: EINVAL "id" "is not bound to an address of the device; resolve or bind an address first"
        CM_ATTR_STATE: EINVAL "qp_attr.qp_state"
            "is {}, but an id that is {} has no attributes for this state (enum ibv_qp_state)"
    }
    "rdma_join_multicast(3)" {
        CM_JOIN_UD: EINVAL "id" "has QPs of another type, but only ids for UD (RDMA_PS_UDP) can join a group"
        CM_JOIN_ADDR: EINVAL "addr" "is {}, but must be a multicast address"
    }
    "rdma_leave_multicast(3)" {
        CM_LEAVE: ENOENT "addr" "is of a group that the id has not joined"
    }
    "rdma_listen(3)" {
        CM_LISTEN_PORT: EADDRINUSE "id" "shares its port (RDMA_OPTION_ID_REUSEADDR), but a listener must be alone"
    }
    "rdma_migrate_id(3)" {
        CM_MIGRATE_FD: ENOENT "id" "is on an event channel that this process has not opened"
    }
    "rdma_notify(3)" {
        CM_NOTIFY: EINVAL "event"
            "is {} for an id that is {}, but must be IBV_EVENT_COMM_EST for an id that is accepted"
    }
    "rdma_reject(3)" {
        CM_REASON: EINVAL "reason" "is {}, but must be 0, 28 or 35"
    }
    "rdma_set_option(3)" {
        CM_OPTLEN: EINVAL "optlen" "is {}, but the value of the option has {} bytes"
        CM_ACK_TIMEOUT: EINVAL "optval" "is {}, but an ACK timeout must be 0 to 31"
    }
}

/// All reasons for which rdma_bind_addr(3) refuses an address.
pub(crate) static OF_BIND_ADDR: &[&Cause] =
    &[&CM_FAMILY, &CM_LINK, &CM_INTERFACE, &CM_ADDR, &CM_PORT_USED, &CM_PORT_NONE];

/// Errors of malformed commands, and errors of system calls.
impl From<Errno> for Refused {
    fn from(errno: Errno) -> Refused {
        match errno.0 {
            libc::EINVAL => CM_COMMAND.bare(),
            libc::EFAULT => CM_MEMORY.bare(),
            _ => by_system(errno),
        }
    }
}
