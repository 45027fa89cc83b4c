//! The overview that `doorbell` prints without arguments.

/// The text. It fits on one screen.
pub(crate) const TEXT: &str = "\
doorbell: a workbench for people who build systems on RDMA

It predicts the rate and latency of a workload of RDMA verbs on a given NIC, and names the
bottleneck and the changes that raise the rate. It checks itself against published measurements.
It needs no RDMA hardware.

  doorbell simulate     run a workload in virtual time: rate, latency, use of each resource
  doorbell sweep        run it at each value of one or two options: curves and their knee
  doorbell compare      compare workloads side by side, or results with earlier results
  doorbell limits       print the upper bound that each resource sets, without simulation
  doorbell profiles     list the known machines and NICs, with the source of each number
  doorbell reproduce    check tables and figures of papers against Doorbell's results
  doorbell run          run an unmodified RDMA program on a software NIC
  doorbell live         run a paper's system on this machine: on the software NIC or a real one,
                        and over TCP

Try:

  doorbell simulate --profile cib --verb read --size 64 --explain
      Eight machines with Connect-IB: seven of them READ 64 bytes at a time from the eighth.
      Reruns with more of each resource confirm the bottleneck.

  doorbell simulate --verb send --batch 16 --size 60
      Datagrams from one machine to seven others, 16 per doorbell.

  doorbell simulate workload.toml --threads 4 --json
      A workload from a file, overridden by flags, and the result as JSON.

  doorbell simulate --verb read --trace read.pftrace --pcap read.pcapng
      The stages of each READ for ui.perfetto.dev, and its packets for Wireshark.

  doorbell run --stats-json stats.json -- PROGRAM
  doorbell simulate stats.json --profile cx3 --explain
      Record the posts of an unmodified program, and predict its rate on another NIC.

  doorbell limits --verb write --size 28
  doorbell profiles cib
  doorbell reproduce atc16/tab4

`doorbell COMMAND --help` explains every option.
";
