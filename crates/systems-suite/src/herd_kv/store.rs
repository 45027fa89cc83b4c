//! The store over HERD's RPCs as cases put it up.

use super::client::Client;
use super::server::{layout, serve};
use crate::kv::{Case, History, LENGTHS, Store};
use crate::stage::Stage;
use doorbell_systems::SystemError;
use doorbell_verbs::{Cluster, Program, Time};

/// All over HERD's RPCs.
#[derive(Clone, Copy, Debug)]
pub struct Herd;

impl Store for Herd {
    const FIRST: Option<u64> = None;
    const ONLY_PUT_AND_GET: bool = false;
    const LENGTHS: [usize; 2] = LENGTHS;

    fn serve<C: Cluster>(case: &Case<Herd>, stage: &mut Stage<'_, C, History>) -> Result<(), String> {
        serve(case, layout(), 0, stage)
    }

    fn client(
        case: Case<Herd>,
        number: u32,
        end: Time,
    ) -> impl Program<Output = Result<History, SystemError>> {
        Client { case, reads: false, number, end }
    }
}
