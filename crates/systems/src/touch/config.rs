//! Parameters of the server that scans.

use super::walk::LineWalk;
use crate::config::Timing;
use crate::names::named;
use doorbell_schema::{Duration, Field, schema};

named! {
    /// The buffer that is scanned.
    Mode {
        /// The buffer that is sent.
        Touch = "touch",
        /// Another buffer of equal size.
        NoTouch = "notouch",
    }
    /// The accesses of a scan.
    Scanned {
        /// Loads.
        Read = "read",
        /// Stores.
        Write = "write",
    }
    /// The transport of requests and responses.
    Stack {
        /// RC verbs.
        Rdma = "rdma",
        /// Kernel TCP.
        Tcp = "tcp",
    }
    /// The verb that moves the response over RDMA. The request is a SEND.
    Response {
        /// The server's SEND.
        Send = "send",
        /// The server's WRITE, followed by a SEND without payload.
        Write = "write",
        /// The client's READ, after a SEND without payload says that the response is ready.
        Read = "read",
    }
    /// The order in which lines are scanned.
    Order {
        /// By address.
        Sequential = "sequential",
        /// In an order that is drawn once.
        Random = "random",
    }
    /// The buffer that the client scans after it has received the response.
    Reading {
        /// No buffer.
        None = "none",
        /// The buffer with the response.
        Touch = "touch",
        /// Another buffer of equal size.
        NoTouch = "notouch",
    }
    /// The memory that a second thread on the server's machine loads again and again.
    Tenancy {
        /// There is no such thread.
        None = "none",
        /// Memory of the thread's own.
        Own = "own",
        /// The buffer that is sent.
        Shared = "shared",
    }
}

impl Scanned {
    /// Instructions for each word. The paper does not state them. They are set by those rows of its Table 3
    /// in which all accesses hit the cache (docs/conext13.md).
    pub const fn instructions(self) -> u32 {
        match self {
            Scanned::Read => 9,
            Scanned::Write => 14,
        }
    }
}

/// The largest response. A run of it takes seconds.
const LARGEST: u32 = 64 << 20;

schema! {
    /// A server that scans a buffer before it answers.
    pub struct Touch {
        groups {
            /// When the run measures.
            timing: Timing,
        }
        /// Payload in bytes.
        size: u32 = Field::bytes(0, u32::MAX as u64),
        /// Buffer that the server scans: the one that it sends, or another of equal size.
        mode: Mode = Field::name(Mode::NAMES),
        /// Accesses of a scan: loads or stores.
        scan: Scanned = Field::name(Scanned::NAMES),
        /// Transport of requests and responses.
        stack: Stack = Field::name(Stack::NAMES),
        /// Verb that moves the response over RDMA.
        response: Response = Field::name(Response::NAMES),
        /// Bytes from one access of a scan to the next, a power of two.
        step: u32 = Field::bytes(1, 64),
        /// Instructions of a scan for each access, including the access. The default is 9 for loads and 14
        /// for stores.
        instructions: u32 = Field::count(1, 10_000),
        /// Order in which a scan takes lines.
        order: Order = Field::name(Order::NAMES),
        /// Lines ahead that a scan prefetches by instructions; 0 for none.
        prefetch_lines: u32 = Field::count(0, 256),
        /// Responses for each scan. The buffer is filled for the first of them.
        sends_per_fill: u32 = Field::count(1, 1_000_000),
        /// Computation for each request that touches no memory, such as 1ms.
        compute: Duration = Field::time(),
        /// Buffer that the client scans, by loads, once it has the response.
        client_scan: Reading = Field::name(Reading::NAMES),
        /// Memory that a second thread of the server's machine loads again and again.
        tenant: Tenancy = Field::name(Tenancy::NAMES),
        /// Bytes of the tenant's own memory.
        tenant_bytes: u32 = Field::bytes(64, 1 << 30),
    }
}

impl Touch {
    /// Returns one sentence if parameters do not go together.
    pub(super) fn check(&self) -> Result<(), String> {
        let Touch { size, step, .. } = *self;
        if !(1..=LARGEST).contains(&size) {
            return Err(format!("size is {size}, but a response of touch has 1 to {LARGEST} bytes"));
        }
        if !step.is_power_of_two() {
            return Err(format!("step is {step}, but must be a power of two, at most 64"));
        }
        if self.stack == Stack::Tcp && self.response != Response::Send {
            return Err("response applies to the stack rdma only: over TCP, responses are sent".into());
        }
        Ok(())
    }

    /// The walk through a buffer that has the size of a response.
    pub(super) fn walk(&self) -> LineWalk {
        self.walk_of(self.size.into())
    }

    /// The walk through `len` bytes.
    pub(super) fn walk_of(&self, len: u64) -> LineWalk {
        let walk = LineWalk::new(len, self.step, self.instructions).ahead(self.prefetch_lines.into());
        match self.order {
            Order::Sequential => walk,
            Order::Random => walk.shuffled(self.timing.seed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::System;
    use doorbell_schema::{Given, Schema, Value};

    fn of(values: &[(&str, Value)]) -> Result<Touch, String> {
        let mut given = Given::default();
        for (key, value) in values {
            let field = Touch::fields().into_iter().find(|field| field.key == *key).unwrap();
            given.set(field, value.clone())?;
        }
        Touch::of(&given)
    }

    #[test]
    fn every_name_of_a_field_is_read() {
        for field in Touch::fields() {
            let doorbell_schema::FieldKind::Name(names) = field.kind else { continue };
            for name in names {
                let touch = of(&[(field.key, Value::Text((*name).to_owned()))]).unwrap();
                assert_eq!(touch.given().get(field.key), Some(&Value::Text((*name).to_owned())));
            }
        }
    }

    #[test]
    fn what_cannot_be_is_refused_in_one_sentence() {
        let text = |text: &str| Value::Text(text.into());
        for (values, said) in [
            (vec![("size", Value::Number(0))], "size is 0, but a response of touch has 1 to 67108864 bytes"),
            (vec![("step", Value::Number(24))], "step is 24, but must be a power of two, at most 64"),
            (vec![("step", Value::Number(0))], "step is 0, but must be at least 1"),
            (
                vec![("stack", text("tcp")), ("response", text("read"))],
                "response applies to the stack rdma only: over TCP, responses are sent",
            ),
        ] {
            assert_eq!(of(&values).unwrap_err(), said);
        }
    }
}
