//! Faults of packets between ports: loss, duplication, delay.

use super::flight::Flight;
use crate::core::index::{IdVec, PortId};
use crate::core::ps::Ps;
use doorbell_verbs::{QpType, Span};

/// Faults that the fabric injects into packets. Each link draws its faults independently, so that traffic on
/// one link changes nothing on another. A link is all traffic that leaves by one port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Layers {
    /// Packets lost, out of a million.
    pub loss_ppm: u32,
    /// Packets that arrive twice, out of a million.
    pub duplicate_ppm: u32,
    /// Packets delayed, out of a million.
    pub delay_ppm: u32,
    /// Longest delay. Packets behind a delayed packet overtake it.
    pub delay: Span,
    /// Whether packets of RC meet faults, too. InfiniBand's links lose nothing, but Ethernet's do.
    pub reliable: bool,
}

impl Layers {
    /// No faults.
    pub const NONE: Layers =
        Layers { loss_ppm: 0, duplicate_ppm: 0, delay_ppm: 0, delay: Span::ZERO, reliable: false };
}

/// The faults of one packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Fate {
    pub(super) lost: bool,
    pub(super) twice: bool,
    /// Delay of the packet.
    pub(super) late: Ps,
}

/// The random generator of one link: SplitMix64 (Steele, Lea and Flood, 2014).
struct LinkDraws(u64);

impl LinkDraws {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// True `per_million` times out of a million. A rate of 0 consumes no random number.
    fn one_of(&mut self, per_million: u32) -> bool {
        per_million > 0 && self.next() % 1_000_000 < u64::from(per_million)
    }
}

/// The faults of all links.
pub(super) struct LinkLayers {
    layers: Layers,
    /// Whether no fault is configured.
    none: bool,
    seed: u64,
    links: IdVec<PortId, LinkDraws>,
    /// Packets lost.
    pub(super) lost: u64,
}

impl LinkLayers {
    pub(super) fn new(layers: Layers, seed: u64) -> LinkLayers {
        LinkLayers { layers, none: layers == Layers::NONE, seed, links: IdVec::new(), lost: 0 }
    }

    /// Adds another link.
    pub(super) fn add_link(&mut self) {
        let number = self.links.len() as u64 + 1;
        self.links.push(LinkDraws(self.seed ^ number.wrapping_mul(0xd134_2543_de82_ef95)));
    }

    /// Draws the faults of the next packet on its link. Frames of kernel TCP get none, because the simulated
    /// TCP never sends a frame again.
    #[inline]
    pub(super) fn draw(&mut self, flight: &Flight) -> Fate {
        let spared = || flight.packet.transport == QpType::Rc && !self.layers.reliable;
        if self.none || spared() || !flight.segment.is_none() {
            return Fate::default();
        }
        let Layers { loss_ppm, duplicate_ppm, delay_ppm, delay, .. } = self.layers;
        let draws = &mut self.links[flight.out_port];
        let lost = draws.one_of(loss_ppm);
        let twice = draws.one_of(duplicate_ppm);
        let late = if draws.one_of(delay_ppm) { Ps(draws.next() % (delay.as_ps() + 1)) } else { Ps::ZERO };
        self.lost += u64::from(lost);
        Fate { lost, twice, late }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(out: u32, transport: QpType) -> Flight {
        let packet = doorbell_transport::Packet { transport, ..Flight::BLANK.packet };
        Flight { packet, out_port: PortId(out), ..Flight::BLANK }
    }

    fn layers(layers: Layers) -> LinkLayers {
        let mut all = LinkLayers::new(layers, 7);
        all.add_link();
        all.add_link();
        all
    }

    #[test]
    fn as_many_are_treated_as_asked_for() {
        let asked = Layers { loss_ppm: 30_000, duplicate_ppm: 10_000, ..Layers::NONE };
        let mut all = layers(Layers { delay_ppm: 20_000, delay: Span::from_ns(5), ..asked });
        let fates: Vec<Fate> = (0..100_000).map(|_| all.draw(&packet(0, QpType::Ud))).collect();
        let count = |of: fn(&Fate) -> bool| fates.iter().filter(|f| of(f)).count();
        let (lost, twice, late) = (count(|f| f.lost), count(|f| f.twice), count(|f| f.late > Ps::ZERO));
        assert!((2_800..3_200).contains(&lost), "{lost} lost of 100000");
        assert!((900..1_100).contains(&twice), "{twice} doubled of 100000");
        assert!((1_850..2_150).contains(&late), "{late} delayed of 100000");
        assert!(fates.iter().all(|f| f.late <= Ps(5_000)));
        assert_eq!(all.lost, lost as u64);
        assert_eq!(all.draw(&packet(0, QpType::Rc)), Fate::default(), "RC loses nothing");
    }

    #[test]
    fn a_link_does_not_see_what_passes_another() {
        let asked = Layers { loss_ppm: 300_000, ..Layers::NONE };
        let mut alone = layers(asked);
        let mut both = layers(asked);
        let alone: Vec<Fate> = (0..100).map(|_| alone.draw(&packet(1, QpType::Uc))).collect();
        let beside: Vec<Fate> = (0..100)
            .map(|_| {
                both.draw(&packet(0, QpType::Uc));
                both.draw(&packet(1, QpType::Uc))
            })
            .collect();
        assert_eq!(alone, beside);
        let other: Vec<Fate> = (0..100).map(|_| both.draw(&packet(0, QpType::Uc))).collect();
        assert_ne!(alone, other);
    }
}
