//! `doorbell simulate`.

mod control;
mod system;
mod verbs;

use crate::args::SimulateArgs;
use crate::exit::Exit;
use doorbell_lab::Asked;

pub(crate) fn run(args: SimulateArgs) -> Result<(), Exit> {
    match args.workload.asked().map_err(Exit::bad_input)? {
        Asked::Verbs(workload) => verbs::run(&workload, &args),
        Asked::System(system) => system::run(&system, &args),
    }
}
