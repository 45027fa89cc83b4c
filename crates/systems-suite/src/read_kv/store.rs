//! The store that clients READ as cases put it up.

use crate::herd_kv::{self, Client};
use crate::kv::{Case, History, LENGTHS, Store};
use crate::stage::Stage;
use doorbell_systems::SystemError;
use doorbell_verbs::{Cluster, Program, Time};

/// GETs by READ, all else over HERD's RPCs.
#[derive(Clone, Copy, Debug)]
pub struct Reads;

impl Store for Reads {
    const FIRST: Option<u64> = None;
    const ONLY_PUT_AND_GET: bool = false;
    const LENGTHS: [usize; 2] = LENGTHS;

    fn serve<C: Cluster>(case: &Case<Reads>, stage: &mut Stage<'_, C, History>) -> Result<(), String> {
        herd_kv::serve(case, herd_kv::layout(), case.clients, stage)
    }

    fn client(
        case: Case<Reads>,
        number: u32,
        end: Time,
    ) -> impl Program<Output = Result<History, SystemError>> {
        Client { case, reads: true, number, end }
    }
}
