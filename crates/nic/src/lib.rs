//! What a NIC is, without time: profiles, WQE layout, PCIe accounting, analytic limits.
