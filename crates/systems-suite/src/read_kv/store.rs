//! The store that clients READ, as cases set it up.

use crate::herd_kv::{self, HerdKvCaseClient};
use crate::kv::{CaseStore, History, KvCase, LENGTHS};
use crate::stage::Stage;
use doorbell_systems::SystemError;
use doorbell_verbs::{Cluster, Program, Time};

/// GETs by READ, all other requests over HERD's RPCs.
#[derive(Clone, Copy, Debug)]
pub struct Reads;

impl CaseStore for Reads {
    const FIRST: Option<u64> = None;
    const ONLY_PUT_AND_GET: bool = false;
    const LENGTHS: [usize; 2] = LENGTHS;

    fn serve<C: Cluster>(case: &KvCase<Reads>, stage: &mut Stage<'_, C, History>) -> Result<(), String> {
        herd_kv::serve(case, herd_kv::layout(), case.clients, stage)
    }

    fn client(
        case: KvCase<Reads>,
        number: u32,
        end: Time,
    ) -> impl Program<Output = Result<History, SystemError>> {
        HerdKvCaseClient { case, reads: true, number, end }
    }
}
