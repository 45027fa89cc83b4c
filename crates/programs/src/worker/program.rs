//! A thread's program: one poll loop, written on verbs alone.

use super::requester::Requester;
use super::responder::Responder;
use super::result::{ProgramError, ThreadResult};
use super::session::Session;
use super::thread::Worker;
use doorbell_verbs::{Program, Provider, Time};
use doorbell_workload::topology;

impl Program for Worker {
    type Output = Result<ThreadResult, ProgramError>;

    fn run<P: Provider>(self, provider: P) -> Self::Output {
        let w = &*self.workload;
        let measurement = &self.measurement;
        let mut result = ThreadResult::default();
        let session = Session::open(&self, &provider)?;
        let recv_sges = session.recv_sges();
        let receives = topology::responds(w, self.machine) && w.consumes_recvs() && self.owns_qps();
        let mut responder = match receives {
            true => Some(Responder::start(&session, &recv_sges)?),
            false => None,
        };
        let paths = session.connect()?;
        let send_sges = session.send_sges();
        let mut requester = topology::requests(w, self.machine)
            .then(|| Requester::new(&self, &provider, &session, &paths, &send_sges));
        if let Some(requester) = &mut requester {
            requester.begin();
        }
        while provider.now() < measurement.end() {
            let mut found = false;
            if let Some(responder) = &mut responder {
                found |= responder.pass(&provider, measurement, &mut result)?;
            }
            if let Some(requester) = &mut requester {
                found |= requester.pass(measurement, &mut result)?;
            }
            if !found {
                let wakes = requester.as_ref().map_or(Time::NEVER, Requester::wakes);
                provider.pause(measurement.look().min(wakes));
            }
        }
        if let Some(requester) = &requester {
            requester.account(measurement, &mut result.accounts);
        }
        session.leave();
        Ok(result)
    }
}
