//! Checks that the numbers of the counter over SENDs are unique, dense and monotone.

use super::config::Ping;
use super::protocol::{Client, Server};
use doorbell_systems_suite::drawing::{DrawingCase, DrawingShape, Draws, Keeping, Sequencer};
use doorbell_systems_suite::stage::{Stage, place};
use doorbell_systems_suite::{Check, deployed};
use doorbell_verbs::{Cluster, Span};

/// A sequencer over RC SENDs to one server thread. It ignores a case's options of the server.
#[derive(Clone, Copy, Debug)]
struct OverSends;

impl Sequencer for OverSends {
    fn put_up<C: Cluster>(
        case: &DrawingCase<OverSends>,
        stage: &mut Stage<'_, C, Draws>,
    ) -> Result<(), String> {
        let DrawingCase { clients, outstanding, first, .. } = *case;
        let interval = stage.server_interval();
        stage.add_server(Server { clients, outstanding, first, service: Span::ZERO, interval });
        let (drawing, interval) = (case.drawing(), stage.client_interval());
        let machines = stage.cluster().machines();
        for number in 0..clients {
            stage.add_client(
                place(machines, number),
                Keeping(Client { number, drawing, interval: interval.clone() }),
            );
        }
        Ok(())
    }
}

/// All checks of the counter over SENDs.
pub fn checks<C: Cluster>() -> Vec<Check<C>> {
    vec![
        DrawingShape::new(OverSends, 1).check("systems/ping/one_outstanding"),
        DrawingShape::new(OverSends, 8).check("systems/ping/several_outstanding"),
        deployed::check::<Ping, C>(),
    ]
}
