//! The overview that `doorbell` prints without arguments.

/// The text, which fits on one screen.
pub(crate) const TEXT: &str = "\
doorbell: a workbench for people who build systems on RDMA

It predicts what a workload of RDMA verbs reaches on a given NIC, says what limits it and what
would lift it, and checks itself against published measurements. No RDMA hardware is needed.

  doorbell simulate     a workload in virtual time: rate, latency, use of each resource
  doorbell sweep        the same at each value of one or two options: curves, and their knee
  doorbell compare      workloads side by side, or results against those of before
  doorbell limits       what the workload can reach at most, without simulation
  doorbell profiles     the machines and NICs it knows, each number with where it comes from
  doorbell reproduce    tables and figures of papers, beside what Doorbell finds
  doorbell run          an unmodified RDMA program, on a software NIC
  doorbell live         a paper's system on this machine: software NIC or real one, and TCP

Try:

  doorbell simulate --profile cib --verb read --size 64 --explain
      Eight machines with Connect-IB; seven READ 64 bytes at a time from the eighth. Afterwards,
      what limits the rate, confirmed by reruns with more of each resource.

  doorbell simulate --verb send --batch 16 --size 60
      Datagrams from one machine to seven others, 16 for each doorbell.

  doorbell simulate workload.toml --threads 4 --json
      A workload from a file, which flags override, and the result as JSON.

  doorbell simulate --verb read --trace read.pftrace --pcap read.pcapng
      The way of each READ, stage by stage, for ui.perfetto.dev, and its packets for Wireshark.

  doorbell run --stats-json stats.json -- PROGRAM
  doorbell simulate stats.json --profile cx3 --explain
      What an unmodified program posts, and what that would reach on another NIC.

  doorbell limits --verb write --size 28
  doorbell profiles cib
  doorbell reproduce atc16/tab4

`doorbell COMMAND --help` explains every option.
";
