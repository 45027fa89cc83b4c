//! QPs with known posts, for tests.

use crate::counts::board::Board;
use crate::counts::qp::{QpCounter, QpCounts};
use doorbell_verbs::{QpType, RemoteAddr, SendOp, SendWr, Sge};
use std::sync::atomic::AtomicU64;

/// The posts of a QP: READs over RC, or SENDs. Each list ends with the only signalled request. The program
/// waits at `depth` outstanding requests until all have completed.
#[derive(Clone, Copy)]
pub(super) struct QpPosts {
    pub(super) qp_type: QpType,
    pub(super) bytes: u32,
    pub(super) lists: u32,
    pub(super) list: u32,
    pub(super) depth: u32,
    pub(super) path_mtu: Option<u32>,
    /// The thread that posts. It has a CQ of its own.
    pub(super) thread: u32,
}

pub(super) const POSTS: QpPosts =
    QpPosts { qp_type: QpType::Rc, bytes: 64, lists: 20, list: 1, depth: 1, path_mtu: None, thread: 1 };

/// The counts of QPs that have posted.
pub(super) fn counts_of(all: &[QpPosts]) -> Vec<QpCounts> {
    let (_, board) = Board::create().expect("a board");
    let list: &AtomicU64 = Box::leak(Box::default());
    for (number, posts) in (0..).zip(all) {
        let (mut qp, _) =
            QpCounter::new(board, list, (number, posts.qp_type), posts.thread).expect("there is room");
        qp.modified(posts.path_mtu);
        let op = match posts.qp_type {
            QpType::Rc => SendOp::Read(RemoteAddr::default()),
            QpType::Uc | QpType::Ud => SendOp::Send,
        };
        let sges = [Sge::default()];
        for n in 1..=posts.lists * posts.list {
            let ends = n.is_multiple_of(posts.list);
            let outstanding = 1 + (n - 1) % posts.depth;
            qp.posted(&SendWr::new(0, op, &sges), posts.bytes, false, ends, outstanding.into());
            if ends {
                qp.list_ends(0, || posts.thread);
            }
        }
    }
    board.listed(list).into_iter().filter_map(|record| QpCounts::of(board, record)).collect()
}
