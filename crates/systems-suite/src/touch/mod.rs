//! The server that scans. Each response is the buffer as the request filled it.

use crate::check::{Check, Scale, Trouble};
use crate::deployed;
use crate::stage::{self, place, text};
use doorbell_systems::Measured;
use doorbell_systems::touch::{
    LineWalk, Mode, Reading, Response, Scanned, Stack, Touch, TouchClient, TouchServer, Verdict,
};
use doorbell_verbs::{Cluster, Span};

/// The server's work in a case.
#[derive(Clone, Copy)]
struct TouchCase {
    stack: Stack,
    response: Response,
    size: u32,
    /// Bytes from one store to the next.
    step: u32,
    /// Responses for each fill.
    sends_per_fill: u32,
    requests: u64,
}

/// Runs a case, in which the server stores each request's number all over the buffer. The error says which
/// response is wrong or missing.
fn run<C: Cluster>(cluster: &mut C, case: TouchCase, trouble: Trouble, scale: &Scale) -> Result<(), String> {
    let TouchCase { stack, response, size, step, sends_per_fill, requests } = case;
    let mut stage = stage::stage::<C, Measured>(cluster, trouble.faults(scale), scale.patience)?;
    let buffer = stage.alloc(size.into()).map_err(text)?;
    let walk = LineWalk::new(size.into(), step, 1);
    let interval = stage.server_interval();
    stage.add_server(TouchServer {
        stack,
        response,
        mode: Mode::Touch,
        scan: Scanned::Write,
        walk: walk.clone(),
        sends_per_fill: sends_per_fill.into(),
        compute: Span::ZERO,
        buffer,
        interval,
    });
    let machines = stage.cluster().machines();
    let interval = stage.client_interval();
    let verdict = Verdict::Checked { sends_per_fill: sends_per_fill.into(), step };
    let client = TouchClient {
        stack,
        response,
        size,
        reading: Reading::None,
        walk,
        limit: requests,
        verdict,
        interval,
    };
    stage.add_client(place(machines, 0), client);
    stage::run(stage).map(drop)
}

/// A check of responses by a verb, with several fills: memory has the bytes of the first fill anyway.
/// Responses are so long that one which is sent too early is detected. They are no whole number of lines.
fn responses<C: Cluster>(name: &str, stack: Stack, response: Response) -> Check<C> {
    Check::new(format!("systems/touch/{name}"), move |cluster: &mut C, scale| {
        let case = TouchCase {
            stack,
            response,
            size: 200_003,
            step: 8,
            sends_per_fill: 3,
            requests: scale.draws / 5,
        };
        run(cluster, case, Trouble::Hesitation, scale)
    })
}

/// The check of responses over kernel TCP, for machines that have it.
pub fn by_tcp<C: Cluster>() -> Check<C> {
    responses("responses_by_tcp", Stack::Tcp, Response::Send)
}

/// The checks that run on any machine.
pub fn checks<C: Cluster>() -> Vec<Check<C>> {
    vec![
        responses("responses_by_send", Stack::Rdma, Response::Send),
        responses("responses_by_write", Stack::Rdma, Response::Write),
        responses("responses_by_read", Stack::Rdma, Response::Read),
        deployed::check::<Touch, C>(),
    ]
}
