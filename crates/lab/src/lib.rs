//! Workloads, experiments, claims and reports.
