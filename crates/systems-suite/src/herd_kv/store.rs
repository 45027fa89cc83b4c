//! The store over HERD's RPCs, as cases set it up.

use super::client::HerdKvCaseClient;
use super::server::{layout, serve};
use crate::kv::{CaseStore, History, KvCase, LENGTHS};
use crate::stage::Stage;
use doorbell_systems::SystemError;
use doorbell_verbs::{Cluster, Program, Time};

/// All requests over HERD's RPCs.
#[derive(Clone, Copy, Debug)]
pub struct Herd;

impl CaseStore for Herd {
    const FIRST: Option<u64> = None;
    const ONLY_PUT_AND_GET: bool = false;
    const LENGTHS: [usize; 2] = LENGTHS;

    fn serve<C: Cluster>(case: &KvCase<Herd>, stage: &mut Stage<'_, C, History>) -> Result<(), String> {
        serve(case, layout(), 0, stage)
    }

    fn client(
        case: KvCase<Herd>,
        number: u32,
        end: Time,
    ) -> impl Program<Output = Result<History, SystemError>> {
        HerdKvCaseClient { case, reads: false, number, end }
    }
}
