//! The overview that `doorbell` prints without arguments.

/// The text. It fits on one screen.
pub(crate) const TEXT: &str = "\
doorbell: a workbench for people who build systems on RDMA

It predicts the rate and latency of a workload of RDMA verbs on a given NIC, and
names the bottleneck and the changes that raise the rate. It needs no RDMA
hardware.

  doorbell simulate   run a workload in virtual time: rate, latency, resources
  doorbell sweep      run it at each value of an option: curves and their knee
  doorbell compare    compare workloads, or results with earlier results
  doorbell limits     print the upper bound of each resource, without simulation
  doorbell profiles   list the known NICs, with the source of each number
  doorbell import     make a file of measurements from the output of perftest
  doorbell reproduce  check tables and figures of papers against Doorbell
  doorbell check      check a NIC's profile against measurements
  doorbell run        run an unmodified RDMA program on a software NIC
  doorbell live       run a paper's system on this machine, also over TCP

Try:

  doorbell simulate --profile cib --verb read --size 64 --explain
      Eight machines with Connect-IB: seven of them READ from the eighth.
      Reruns with more of each resource confirm the bottleneck.

  doorbell simulate --verb send --batch 16 --size 60
      Datagrams from one machine to seven others, 16 per doorbell.

  doorbell simulate workload.toml --threads 4 --json
      A workload from a file, overridden by flags, and the result as JSON.

  doorbell simulate --verb read --trace read.pftrace --pcap read.pcapng
      The stages of each READ for ui.perfetto.dev, its packets for Wireshark.

  doorbell run --stats-json stats.json -- PROGRAM
  doorbell simulate stats.json --profile cx3 --explain
      Record a program's posts, and predict its rate on another NIC.

`doorbell COMMAND --help` explains the options that matter most, and
`doorbell COMMAND --help-all` explains all options.
";
