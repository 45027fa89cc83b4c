//! Parameters of READs of other sockets' memory.

use crate::config::{Clients, Seats, Timing};
use crate::names::named;
use doorbell_schema::{Field, schema};

named! {
    /// How a thread reaches memory at a remote socket that does not match its own.
    Path {
        /// By a QP to the NIC of that socket.
        Direct = "direct",
        /// By the QP to the NIC of the remote socket that matches the thread's own.
        Home = "home",
        /// By a proxy: a thread of the same machine, at the socket that matches the remote one.
        Proxy = "proxy",
    }
}

schema! {
    /// READs of the memory of a machine's sockets.
    pub struct Proxy {
        groups {
            /// Clients. These threads take the sockets of their machine in turn.
            clients: Clients,
            /// When the run measures.
            timing: Timing,
        }
        /// How a thread reaches memory at a remote socket with another number than its own.
        path: Path = Field::name(Path::NAMES),
        /// Sockets of each machine; sockets of equal number match.
        sockets: u32 = Field::count(1, 8),
        /// Cores of a socket; cores are numbered socket by socket.
        cores_per_socket: u32 = Field::count(1, 256),
        /// Bytes of a READ.
        read_bytes: u32 = Field::bytes(1, 4096),
        /// READs in each thousand that go to sockets that do not match.
        unmatched_permille: u32 = Field::permille(),
    }
}

impl Proxy {
    fn seats(&self) -> Seats {
        Seats {
            per_machine: self.clients.clients_per_machine,
            sockets: self.sockets,
            cores_per_socket: self.cores_per_socket,
        }
    }

    pub(super) fn socket(&self, client: u32) -> u32 {
        self.seats().socket(client)
    }

    /// Machine and core of a client.
    pub(super) fn place(&self, client: u32) -> (u32, u32) {
        self.seats().place(client)
    }

    /// The number of the machine's first client, and how many clients the machine has.
    pub(super) fn clients_of(&self, machine: u32) -> (u32, u32) {
        let first = (machine - 1) * self.clients.clients_per_machine;
        self.seats().mates(self.clients.clients, first)
    }

    /// The proxy of `client` for a socket: a client of the same machine that runs at this socket, if there is
    /// one. The clients at a socket take turns as proxies.
    pub(super) fn proxy(&self, client: u32, socket: u32) -> Option<u32> {
        self.seats().proxy(self.clients.clients, client, socket)
    }

    /// The remote sockets to which a client has QPs.
    pub(super) fn ends(&self, client: u32) -> Vec<u32> {
        match self.path {
            Path::Direct => (0..self.sockets).collect(),
            Path::Home | Path::Proxy => vec![self.socket(client)],
        }
    }

    /// All pairs of a client and a remote socket to which this client has a QP.
    pub(super) fn links(&self) -> Vec<(u32, u32)> {
        let of = |client| self.ends(client).into_iter().map(move |end| (client, end));
        (0..self.clients.clients).flat_map(of).collect()
    }

    /// Returns one sentence if parameters do not go together.
    pub(super) fn refuse(&self) -> Result<(), String> {
        self.seats().refuse()?;
        if self.clients.windows {
            return Err("proxy has no windows: a client reads as soon as a READ has ended".into());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::System;

    #[test]
    fn a_proxy_is_at_the_socket_of_the_same_machine() {
        for (clients, clients_per_machine, sockets) in [(1, 1, 2), (7, 5, 2), (9, 3, 4), (12, 6, 3)] {
            let mut proxy = Proxy { sockets, ..Proxy::usual() };
            (proxy.clients.clients, proxy.clients.clients_per_machine) = (clients, clients_per_machine);
            for client in 0..clients {
                for socket in 0..sockets {
                    let machine = proxy.place(client).0;
                    let (first, count) = proxy.clients_of(machine);
                    let there = (first..first + count).any(|other| proxy.socket(other) == socket);
                    let found = proxy.proxy(client, socket);
                    assert_eq!(found.is_some(), there, "{client} of {clients}, socket {socket}");
                    let Some(found) = found else { continue };
                    assert_eq!((proxy.place(found).0, proxy.socket(found)), (machine, socket));
                }
            }
        }
    }
}
