//! Conversions between a resolved workload and the [`Workload`] that describes it completely. Files hold the
//! latter.

use crate::resolved::{
    AtomicCounters, BufferOffset, LoadLoop, NamedWork, Operation, Posts, ThreadWork, UniformWork,
};
use crate::workload::{ThreadClass, Workload};
use crate::{Item, Resolved, Verb, Window};
use doorbell_schema::{Arrivals, Given, Schema, json_schema};
use schemars::{JsonSchema, SchemaGenerator};
use serde::{Serialize, Serializer};
use std::borrow::Cow;

impl Resolved {
    /// The [`Workload`] that gives all values of this resolved workload.
    pub(crate) fn written(&self) -> Workload {
        let (only, open) = (self.only_operation(), self.open_loop());
        let window = self.uniform().map(|work| work.window);
        Workload {
            profile: Some(self.profile.clone()),
            host: self.host.clone(),
            pcie: self.pcie,
            link: self.link,
            set: self.set.clone(),
            machine: self.machine.clone(),
            class: self.tables(),
            verb: only.map(|operation| operation.verb),
            mix: self.mix(),
            transport: Some(self.transport),
            size: only.map(|operation| operation.size),
            machines: Some(self.machines),
            threads: Some(self.threads),
            qps: Some(self.qps),
            window: window.and_then(Window::per_thread),
            window_per_qp: window.and_then(Window::per_qp),
            max_rd_atomic: self.max_rd_atomic,
            ports: self.ports,
            socket: self.socket,
            memory_socket: self.memory_socket,
            peer_socket: self.peer_socket,
            peer_memory_socket: self.peer_memory_socket,
            batch: Some(self.batch),
            signal_every: Some(self.signal_every),
            cq_per_qp: self.cq_per_qp.then_some(true),
            inline: Some(self.inlines()),
            inline_up_to: self.inline_up_to(),
            sges: self.sges,
            pieces: self.pieces,
            offset: self.offset.and_then(BufferOffset::byte),
            random_offset: (self.offset == Some(BufferOffset::Drawn)).then_some(true),
            local_region: self.local_region,
            remote_region: self.remote_region,
            addresses: self.addresses,
            remote_addresses: self.remote_addresses,
            remote_memory: self.remote_memory,
            header_only: Some(self.header_only),
            inline_recv: Some(self.inline_recv),
            drain: Some(self.drain),
            arrivals: open.map(|(arrivals, _)| arrivals),
            rate: open.map(|(_, rate)| rate),
            think: self.think(),
            counters: self.counters.map(|counters| counters.count),
            counter_stride: self.counters.map(|counters| counters.stride),
            huge_pages: Some(self.huge_pages),
            pattern: Some(self.pattern),
            warmup: self.warmup,
            duration: self.duration,
            precision: Some(self.precision),
            until: self.until,
            max_time: Some(self.max_time),
            seed: Some(self.seed),
        }
    }

    /// The classes as tables, if the threads are in classes.
    fn tables(&self) -> Option<Vec<ThreadClass>> {
        let ThreadWork::Classes(work) = &self.work else { return None };
        let table = |class: &NamedWork| ThreadClass {
            name: class.name.clone(),
            threads: class.workload.threads,
            says: said(class.workload.written(), ThreadClass::says_field),
        };
        Some(work.all().iter().map(table).collect())
    }
}

/// A workload with only the fields whose keys satisfy `of`.
fn said(workload: Workload, of: impl Fn(&str) -> bool) -> Workload {
    let mut given: Given = workload.given();
    let others = Workload::FIELDS.iter().filter(|field| !of(field.key));
    others.for_each(|field| drop(given.remove(field.key)));
    let mut said = Workload::default();
    said.apply(&given).expect("a workload can be read as it is written");
    said
}

/// The value of a field that must be filled in.
fn filled<T>(field: Option<T>, key: &str) -> Result<T, String> {
    field.ok_or_else(|| format!("a workload that is filled in says its {key}"))
}

/// The operations of threads that all work alike.
fn posts(written: &Workload) -> Result<Posts, String> {
    let header_only = filled(written.header_only, "header_only")?;
    let (inline, sges) = (filled(written.inline, "inline")?, written.sges.unwrap_or(1));
    let operation = |verb: Verb, size: u32, weight: u32, inline: bool| Operation {
        verb,
        size,
        weight,
        opcode: verb.opcode(header_only),
        inline,
        sges: if verb.is_atomic() { 1 } else { sges },
    };
    let Some(mix) = &written.mix else {
        let (verb, size) = (filled(written.verb, "verb")?, filled(written.size, "size")?);
        return Ok(Posts::One(operation(verb, size, 1, inline)));
    };
    let inline_up_to = written.inline_up_to.filter(|_| inline);
    let of_item = |item: &Item| {
        let size = filled(item.size, "sizes")?;
        let inline = item.verb.has_payload(size) && Some(size) <= inline_up_to;
        Ok(operation(item.verb, size, item.weight, inline))
    };
    let operations = mix.items().iter().map(of_item).collect::<Result<_, String>>()?;
    Ok(Posts::Mix { operations, inline_up_to })
}

/// The pace at which threads post.
fn pace(written: &Workload) -> LoadLoop {
    match written.arrivals {
        Some(arrivals @ (Arrivals::Fixed | Arrivals::Poisson)) => {
            // The check of the workload refuses a missing rate, with a better sentence than `filled`.
            LoadLoop::Open { arrivals, rate: written.rate.unwrap_or(0) }
        }
        Some(Arrivals::Closed) | None => LoadLoop::Closed { think: written.think },
    }
}

fn offset(written: &Workload) -> Option<BufferOffset> {
    match written.random_offset {
        Some(true) => Some(BufferOffset::Drawn),
        Some(false) | None => written.offset.map(BufferOffset::At),
    }
}

/// A workload without classes.
fn uniform(written: Workload) -> Result<Resolved, String> {
    let window = written.given_window().map_err(|error| error.to_string())?;
    let work =
        UniformWork { posts: posts(&written)?, window: filled(window, "window")?, pace: pace(&written) };
    let counters = written.counters.zip(written.counter_stride);
    Ok(Resolved {
        work: ThreadWork::Uniform(work),
        offset: offset(&written),
        counters: counters.map(|(count, stride)| AtomicCounters { count, stride }),
        profile: filled(written.profile, "profile")?,
        host: written.host,
        pcie: written.pcie,
        link: written.link,
        set: written.set,
        machine: written.machine,
        transport: filled(written.transport, "transport")?,
        machines: filled(written.machines, "machines")?,
        threads: filled(written.threads, "threads")?,
        qps: filled(written.qps, "qps")?,
        max_rd_atomic: written.max_rd_atomic,
        ports: written.ports,
        socket: written.socket,
        memory_socket: written.memory_socket,
        peer_socket: written.peer_socket,
        peer_memory_socket: written.peer_memory_socket,
        batch: filled(written.batch, "batch")?,
        signal_every: filled(written.signal_every, "signal_every")?,
        cq_per_qp: written.cq_per_qp.unwrap_or(false),
        sges: written.sges,
        pieces: written.pieces,
        local_region: written.local_region,
        remote_region: written.remote_region,
        addresses: written.addresses,
        remote_addresses: written.remote_addresses,
        remote_memory: written.remote_memory,
        header_only: filled(written.header_only, "header_only")?,
        inline_recv: filled(written.inline_recv, "inline_recv")?,
        drain: filled(written.drain, "drain")?,
        huge_pages: filled(written.huge_pages, "huge_pages")?,
        pattern: filled(written.pattern, "pattern")?,
        warmup: written.warmup,
        duration: written.duration,
        precision: filled(written.precision, "precision")?,
        until: written.until,
        max_time: filled(written.max_time, "max_time")?,
        seed: filled(written.seed, "seed")?,
    })
}

/// A workload in classes. Each class inherits the fields that it does not give.
fn in_classes(whole: Workload, tables: Vec<ThreadClass>) -> Result<Resolved, String> {
    if tables.is_empty() {
        return Err("a workload in classes has one at least".to_owned());
    }
    let whole = said(whole, |key| !ThreadClass::says_field(key));
    let class = |table: ThreadClass| {
        let own = table.says.over(whole.clone());
        let own = uniform(Workload { threads: Some(table.threads), ..own })?;
        let counts = own.operations().iter().any(|operation| operation.verb.is_atomic());
        let one_sided = own.operations().iter().any(|operation| !operation.verb.consumes_recv());
        let workload = Resolved {
            counters: own.counters.filter(|_| counts),
            remote_memory: own.remote_memory.filter(|_| one_sided),
            ..own
        };
        Ok(NamedWork { name: table.name, workload })
    };
    let classes = tables.into_iter().map(class).collect::<Result<_, String>>()?;
    Ok(Resolved::of_classes(classes))
}

impl TryFrom<Workload> for Resolved {
    type Error = String;

    /// Converts a workload that gives all values. The only check is that none is missing.
    fn try_from(written: Workload) -> Result<Resolved, String> {
        let mut written = written;
        match written.class.take() {
            None => uniform(written),
            Some(tables) => in_classes(written, tables),
        }
    }
}

impl Serialize for Resolved {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.written().serialize_filled_in(serializer)
    }
}

impl JsonSchema for Resolved {
    fn schema_name() -> Cow<'static, str> {
        "Resolved".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> schemars::Schema {
        json_schema::of_object(Workload::FIELDS.iter().zip(Workload::FILLED_IN.iter().copied()))
    }
}
