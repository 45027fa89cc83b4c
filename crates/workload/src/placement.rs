//! The sockets of threads and of their memory.

use crate::error::invalid;
use crate::taking::{Taking, least};
use crate::{Pattern, Resolved, WorkloadError, topology};
use doorbell_nic::Profile;

impl Resolved {
    /// The core of a thread on a machine of this profile.
    pub fn core(&self, profile: &Profile, machine: u32, thread: u32) -> u32 {
        let socket = if topology::requests(self, machine) { self.socket } else { self.peer_socket };
        socket.unwrap_or(0) * profile.host.cores + thread
    }

    /// A core at the socket that holds the memory of a machine's threads. `None` if each thread's memory is
    /// at the thread's own socket.
    pub fn memory_near(&self, profile: &Profile, machine: u32) -> Option<u32> {
        let requests = topology::requests(self, machine);
        let socket = if requests { self.memory_socket } else { self.peer_memory_socket };
        socket.map(|socket| socket * profile.host.cores)
    }

    /// Whether the sockets of threads are given.
    pub(crate) fn is_placed(&self) -> bool {
        self.socket.is_some() || self.peer_socket.is_some()
    }

    /// Checks that the named sockets exist, and that the placed threads take part in the workload.
    pub(crate) fn check_placement(&self, taking: &Taking<'_>) -> Result<(), WorkloadError> {
        let of_peers = [("peer_socket", self.peer_socket), ("peer_memory_socket", self.peer_memory_socket)];
        let of_posters = [("socket", self.socket), ("memory_socket", self.memory_socket)];
        if let Some((name, _)) = of_peers.iter().find(|(_, socket)| socket.is_some())
            && self.pattern == Pattern::AllToAll
        {
            return invalid(format!(
                "{name} applies to threads that do not post, but with all-to-all all threads post: leave it \
                 out"
            ));
        }
        for ((name, socket), profiles) in of_posters
            .iter()
            .map(|said| (said, &taking.posters))
            .chain(of_peers.iter().map(|said| (said, &taking.responders)))
        {
            let (profile, there) = least(profiles, Profile::socket_count);
            if let Some(socket) = socket.filter(|socket| *socket >= there) {
                let name_of = &profile.name;
                return invalid(match there {
                    1 => format!("{name} is {socket}, but a machine of profile {name_of} has only socket 0"),
                    _ => format!(
                        "{name} is {socket}, but a machine of profile {name_of} has sockets 0 to {}",
                        there - 1
                    ),
                });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::Workload;

    fn error(toml: &str) -> String {
        let workload = Workload::from_toml("w.toml", toml).unwrap();
        workload.resolve(&workload.load_profiles().unwrap()).expect_err(toml).to_string()
    }

    #[test]
    fn threads_and_memory_are_where_it_is_said() {
        let text = "profile = \"cx3-dual\"\nverb = \"read\"\npattern = \"outbound\"\nthreads = 2\nsocket = 1\npeer_memory_socket = 1";
        let workload = Workload::from_toml("w.toml", text).unwrap();
        let profiles = workload.load_profiles().unwrap();
        let w = workload.resolve(&profiles).unwrap();
        let profile = profiles.first();
        assert_eq!([w.core(profile, 0, 1), w.core(profile, 1, 1)], [9, 1]);
        assert_eq!([w.memory_near(profile, 0), w.memory_near(profile, 1)], [None, Some(8)]);
    }

    #[test]
    fn what_is_not_there_is_refused() {
        for (toml, message) in [
            ("socket = 1", "socket is 1, but a machine of profile cib has only socket 0"),
            (
                "profile = \"cx3-dual\"\nmemory_socket = 2",
                "memory_socket is 2, but a machine of profile cx3-dual has sockets 0 to 1",
            ),
            (
                "profile = \"cx3-dual\"\nverb = \"write\"\npattern = \"all-to-all\"\npeer_socket = 1",
                "peer_socket applies to threads that do not post, but with all-to-all all threads post: \
                 leave it out",
            ),
            (
                "profile = \"cx3-dual\"\nthreads = 9\nsocket = 1",
                "threads is 9, but a socket of profile cx3-dual has 8 cores",
            ),
            (
                "profile = \"cx3-dual\"\nthreads = 17",
                "threads is 17, but a machine of profile cx3-dual has 16 cores",
            ),
        ] {
            assert_eq!(error(toml), message);
        }
    }
}
