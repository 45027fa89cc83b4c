//! The fixed properties of a NIC generation: layouts of WQEs, Doorbells, packets and completions.
//!
//! A profile names its generation. Numbers that differ between NICs of one generation are parameters of the
//! profile. The tables are from ATC'16: Table 1, appendix A and section 2.2.

mod cxgb4;
mod layout;
mod mlx4;
mod mlx5;

pub use layout::{CompletionLayout, DOORBELL_BYTES, GenerationLayout, Headers, Method, Posting, WqeLayout};

use doorbell_verbs::{LinkLayer, Opcode, QpType};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A generation of NICs, by the name of its driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Generation {
    /// ConnectX, ConnectX-2 and ConnectX-3.
    Mlx4,
    /// Connect-IB, and ConnectX-4 and later.
    Mlx5,
    /// Chelsio's T4 and later, which speak iWARP.
    Cxgb4,
}

impl Generation {
    /// All generations.
    pub const ALL: [Generation; 3] = [Generation::Mlx4, Generation::Mlx5, Generation::Cxgb4];

    /// The generation's name in profiles.
    pub const fn name(self) -> &'static str {
        match self {
            Generation::Mlx4 => "mlx4",
            Generation::Mlx5 => "mlx5",
            Generation::Cxgb4 => "cxgb4",
        }
    }

    /// The layout tables of this generation.
    pub const fn layout(self) -> &'static GenerationLayout {
        // In the order of the enum. Each verb reads the table, so the look-up is an index.
        const LAYOUTS: [&GenerationLayout; 3] = [&mlx4::LAYOUT, &mlx5::LAYOUT, &cxgb4::LAYOUT];
        LAYOUTS[self as usize]
    }

    /// Whether the generation speaks iWARP: only RC, without atomics and immediates, in segments of a TCP
    /// stream.
    pub const fn is_iwarp(self) -> bool {
        matches!(self, Generation::Cxgb4)
    }

    /// Whether a QP of this type offers this verb.
    pub fn offers(self, opcode: Opcode, qp_type: QpType) -> bool {
        let of_iwarp = opcode.is_of_iwarp() && qp_type == QpType::Rc;
        opcode.is_offered_by(qp_type) && (of_iwarp || !self.is_iwarp())
    }

    /// The sizes of the generation's WQEs.
    pub const fn wqe(self) -> &'static WqeLayout {
        &self.layout().wqe
    }

    /// How the generation's driver announces WQEs to the NIC.
    pub const fn posting(self) -> &'static Posting {
        &self.layout().posting
    }

    /// The sizes of the generation's packet headers on this link layer. iWARP has one link layer.
    pub const fn headers(self, layer: LinkLayer) -> &'static Headers {
        match layer {
            LinkLayer::Ethernet if !self.is_iwarp() => &layout::ROCE_V2,
            LinkLayer::Infiniband | LinkLayer::Ethernet => &self.layout().headers,
        }
    }
}

impl fmt::Display for Generation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
