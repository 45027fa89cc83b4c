//! The store that clients READ: linearizable for each key, and it forgets only as the server does.

mod forgetting;

pub use forgetting::forgets;

use crate::check::{Check, Trouble};
use crate::deployed;
use crate::herd_kv::{self, Client};
use crate::kv::{Case, History, LENGTHS, Shape, Store};
use crate::stage::Stage;
use doorbell_systems::SystemError;
use doorbell_systems::read_kv::ReadKv;
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

/// Its checks.
pub fn checks<C: Cluster>() -> Vec<Check<C>> {
    let with = |trouble| Shape::new(Reads, 4).batched().under(trouble);
    vec![
        with(Trouble::None).check("systems/kv/reads"),
        with(Trouble::Loss).check("systems/kv/reads_lost_messages"),
        with(Trouble::Hesitation).check("systems/kv/reads_of_what_is_being_written"),
        Check::new("systems/kv/reads_forget_as_the_server_does", |cluster, scale| {
            forgets(cluster, scale.steps, 1, scale.patience).map(drop)
        }),
        deployed::check::<ReadKv, C>(),
    ]
}
