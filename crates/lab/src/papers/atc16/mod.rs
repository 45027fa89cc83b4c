//! *Design Guidelines for High Performance RDMA Systems* (ATC'16).

mod app_a;
mod caches;
mod clients;
mod designs;
mod fig10;
mod fig11a;
mod fig11b;
mod fig12;
mod fig13;
mod fig14;
mod fig2;
mod fig5;
mod fig6;
mod fig7;
mod fig8;
mod fig9;
#[cfg(test)]
mod flips;
mod inline_recv;
mod locks;
mod micro;
mod outbound;
mod speculation;
mod tab1;
mod tab2;
mod tab3;
mod tab4;
mod tab5;

use super::Experiment;
pub(super) use fig7::rpc as sequencer;
pub(super) use micro::atomics;

/// Its experiments, in its order.
pub(super) const ALL: &[&Experiment] = &[
    &fig2::EXPERIMENT,
    &tab1::EXPERIMENT,
    &fig5::EXPERIMENT,
    &fig6::EXPERIMENT,
    &tab2::EXPERIMENT,
    &fig7::EXPERIMENT,
    &tab3::EXPERIMENT,
    &fig8::EXPERIMENT,
    &fig9::EXPERIMENT,
    &fig10::EXPERIMENT,
    &clients::EXPERIMENT,
    &designs::EXPERIMENT,
    &speculation::EXPERIMENT,
    &tab4::EXPERIMENT,
    &fig11a::EXPERIMENT,
    &fig11b::EXPERIMENT,
    &tab5::EXPERIMENT,
    &inline_recv::EXPERIMENT,
    &fig12::EXPERIMENT,
    &outbound::EXPERIMENT,
    &fig13::EXPERIMENT,
    &caches::EXPERIMENT,
    &fig14::EXPERIMENT,
    &locks::EXPERIMENT,
    &app_a::EXPERIMENT,
];
