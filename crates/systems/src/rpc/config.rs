//! Parameters of an RPC.

use super::sizes::Sizes;
use crate::config::{Clients, Timing, Workers};
use crate::herd::{Replies, Requests};
use crate::names::named;
use doorbell_schema::{Arrivals, Duration, Field, schema};

named! {
    /// The distribution of spans.
    Times {
        /// All spans are equal.
        Fixed = "fixed",
        /// Spans are exponential.
        Exponential = "exponential",
    }
}

schema! {
    /// Any RPC.
    pub struct Rpc {
        groups {
            /// Clients.
            clients: Clients,
            /// The server's threads.
            workers: Workers,
            /// When the run measures.
            timing: Timing,
        }
        /// Verb and transport of requests.
        request: Requests = Field::name(Requests::NAMES),
        /// Verb and transport of replies; a READ is the client's.
        reply: Replies = Field::name(Replies::NAMES),
        /// Bytes of requests: a number, a range such as 64-512, or several with weights such as
        /// 64:90,4096:10.
        request_size: Sizes = Field::text().synonyms(&["payload", "message_size", "msg_size"]).shown("SIZES"),
        /// Bytes of replies, in the form of request_size.
        reply_size: Sizes =
            Field::text().synonyms(&["payload", "message_size", "msg_size", "response_size"]).shown("SIZES"),
        /// Time that a worker computes for each request, such as 500ns.
        handler: Duration = Field::time(),
        /// Distribution of the handler's time: fixed, or exponential with that mean.
        handler_times: Times = Field::name(Times::NAMES),
        /// When operations are due: as earlier ones end, or at a rate regardless of earlier ones.
        arrivals: Arrivals = Field::name(Arrivals::NAMES),
        /// Operations due per second, of all clients or posting threads together, if arrivals have a rate.
        rate: u64 = Field::per_second(0, 10_000_000_000),
        /// Time from the end of an operation, or a window, until the next begins in its place, such as 2us.
        think: Duration = Field::time(),
    }
}

impl Rpc {
    /// Returns one sentence if parameters do not go together.
    pub(super) fn refuse(&self) -> Result<(), String> {
        self.workers.refuse(self.request, self.reply)?;
        self.refuse_sizes()?;
        self.refuse_times()
    }

    fn refuse_sizes(&self) -> Result<(), String> {
        let Rpc { request, reply, .. } = self;
        let both = [
            ("request_size", &self.request_size, request.name(), request.longest()),
            ("reply_size", &self.reply_size, reply.name(), reply.longest()),
        ];
        for (key, sizes, name, longest) in both {
            if sizes.longest() > longest {
                let most = sizes.longest();
                return Err(format!(
                    "{key} is up to {most} bytes, but messages of {name} have at most {longest}"
                ));
            }
        }
        Ok(())
    }

    fn refuse_times(&self) -> Result<(), String> {
        let windows = self.clients.windows.then_some("windows are asked for");
        self.arrivals.refuse(self.rate, self.think, "clients", windows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::System;
    use doorbell_schema::{Given, Schema, Value};

    fn of(text: &str) -> Result<Rpc, String> {
        let mut given = Given::default();
        for (key, value) in text.split_whitespace().filter_map(|part| part.split_once('=')) {
            let field = Rpc::fields().into_iter().find(|field| field.key == key).unwrap();
            let number = value.parse().map(Value::Number).unwrap_or(Value::Text(value.into()));
            let number = if key.ends_with("_size") { Value::Text(value.into()) } else { number };
            given.set(field, if value == "true" { Value::Switch(true) } else { number })?;
        }
        Rpc::of(&given)
    }

    #[test]
    fn what_cannot_be_is_refused_in_one_sentence() {
        for (asked, said) in [
            (
                "request=write-uc reply=write-rc",
                "reply is write-rc, request write-uc: replies over RC use the connection of the requests, \
                 but the requests are over UC",
            ),
            (
                "request=send-ud reply=read-rc",
                "reply is read-rc, request send-ud: replies over RC use the connection of the requests, but \
                 the requests are over UD",
            ),
            (
                "request_size=64-5000 request=send-ud",
                "request_size is up to 5000 bytes, but messages of send-ud have at most 4000",
            ),
            ("reply_size=4001", "reply_size is up to 4001 bytes, but messages of send-ud have at most 4000"),
            ("arrivals=poisson", "arrivals are poisson, but no rate is given"),
            ("rate=1000", "rate is 1000, but arrivals are closed: a rate applies to fixed and poisson only"),
            (
                "arrivals=fixed rate=1000 think=2us",
                "think is 2us, but arrivals are fixed: clients think only with closed arrivals",
            ),
            (
                "arrivals=fixed rate=1000 windows=true",
                "windows are asked for, but arrivals are fixed: windows apply to closed arrivals only",
            ),
            (
                "request=write-rc reply=write-rc queues=2",
                "queues is 2, but replies by write-rc use the client's connection: only send-ud has several \
                 queues",
            ),
        ] {
            assert_eq!(of(asked).unwrap_err(), said, "{asked}");
        }
        assert!(of("request=write-rc reply=write-rc arrivals=poisson rate=1000000").is_ok());
    }
}
