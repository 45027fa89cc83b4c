//! What assumed parameters do to the data, and how far the data leave them their ranges.
//!
//! What lies at an end of a range may be a cliff, of which nothing is seen from the value that was assumed: a store that holds
//! fewer entries than are used. A slope taken across it would say that others make up for it. So a range is narrowed until data
//! move in proportion within it, where they move at all.

use crate::fit::{Ends, Look, moved, scaled};
use crate::space::Space;
use doorbell_lab::calibration::Datum;
use doorbell_nic::{NINETY_PERCENT, Spread};
use nalgebra::DMatrix;

/// Sum of squares of moves, in standard errors, up to which they are none to look into.
const LITTLE: f64 = 4.0;

/// How far half of a way may move a datum beside half of what the whole way does: standard errors, and a share of the move.
const ROUGHLY: (f64, f64) = (1.0, 0.25);

/// Halvings after which a way is as good as none.
const HALVINGS: u32 = 5;

pub(crate) struct Assumed {
    /// How what is found moves with each, in standard errors of the data.
    pub(crate) moves: DMatrix<f64>,
    /// Between which of its values, where these are not all of its range.
    pub(crate) ranges: Vec<Option<[f64; 2]>>,
}

/// A way from a parameter's value towards an end of its range.
struct Way {
    parameter: usize,
    far: f64,
    /// What is found at its end.
    there: Vec<f64>,
    is_straight: bool,
}

/// Looks at assumed parameters, from this place at which this is found.
///
/// # Errors
/// As who looks.
pub(crate) fn look(
    space: &Space,
    data: &[Datum],
    z: &[f64],
    found: &[f64],
    look: &Look<'_>,
) -> Result<Assumed, String> {
    let at = |parameter: usize, far: f64| moved(z, space.free.len() + parameter, far);
    let ends: Vec<(usize, f64)> =
        (0..space.assumed.len()).flat_map(|i| [(i, -NINETY_PERCENT), (i, NINETY_PERCENT)]).collect();
    let there = look(&ends.iter().map(|&(i, far)| at(i, far)).collect::<Vec<_>>())?;
    let mut ways: Vec<Way> = ends
        .iter()
        .zip(there)
        .map(|(&(parameter, far), there)| Way { parameter, far, there, is_straight: false })
        .collect();
    let here = moves(data, found);
    for _ in 0..HALVINGS {
        let bent: Vec<&mut Way> = ways.iter_mut().filter(|way| !way.settled(data, &here)).collect();
        let halves = look(&bent.iter().map(|way| at(way.parameter, way.far / 2.0)).collect::<Vec<_>>())?;
        bent.into_iter().zip(halves).for_each(|(way, half)| way.halve(data, &here, half));
    }
    Ok(of(space, data, &ways))
}

fn moves(data: &[Datum], found: &[f64]) -> Vec<f64> {
    data.iter().zip(found).map(|(datum, &found)| scaled(datum, found)).collect()
}

impl Way {
    /// How far it moves each datum.
    fn moved(&self, data: &[Datum], here: &[f64]) -> Vec<f64> {
        moves(data, &self.there).iter().zip(here).map(|(there, here)| there - here).collect()
    }

    fn settled(&self, data: &[Datum], here: &[f64]) -> bool {
        self.is_straight || self.moved(data, here).iter().map(|m| m * m).sum::<f64>() <= LITTLE
    }

    /// Stays where it is straight; else goes on with its first half.
    fn halve(&mut self, data: &[Datum], here: &[f64], half: Vec<f64>) {
        let whole = self.moved(data, here);
        let first = moves(data, &half);
        let (beside, share) = ROUGHLY;
        self.is_straight = (whole.iter().zip(&first).zip(here)).all(|((whole, first), here)| {
            (whole - 2.0 * (first - here)).abs() <= beside + share * whole.abs()
        });
        if !self.is_straight {
            self.far /= 2.0;
            self.there = half;
        }
    }
}

/// With the ranges that are left, and on their scales.
fn of(space: &Space, data: &[Datum], ways: &[Way]) -> Assumed {
    let (mut ranges, mut far, mut there) = (Vec::new(), Vec::new(), Vec::new());
    for (free, both) in space.assumed.iter().zip(ways.chunks(2)) {
        let whole = both.iter().all(|way| way.far.abs() == NINETY_PERCENT);
        let values = [free.value(both[0].far), free.value(both[1].far)];
        let narrowed = (!whole).then(|| space.within(&free.name, values));
        let spread: Option<&Spread> = narrowed.as_ref().map_or(Some(&free.spread), Option::as_ref);
        far.push(values.map(|value| spread.map_or(0.0, |spread| spread.at(value))));
        ranges.push((!whole).then_some(values));
        there.extend(both.iter().map(|way| way.there.clone()));
    }
    Assumed { moves: Ends { far, there }.slopes(data, scaled), ranges }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::space::Free;
    use doorbell_lab::calibration::Target;

    /// A line, a cliff below, and what does nothing.
    #[test]
    fn ranges_end_before_cliffs() {
        let names = ["host.dram_ns", "caches.wqe_entries", "host.copy_line_ns"];
        let space = Space::of(&doorbell_nic::Profile::named("cib").unwrap()).unwrap();
        let place = |name: &str| space.assumed.iter().position(|free: &Free| free.name == name).unwrap();
        let [line, cliff, nothing] = names.map(place);
        let data = [Datum::new("rate", Target::Number(10.0), 0.03)];
        let look_at = |places: &[Vec<f64>]| {
            let found = |z: &Vec<f64>| {
                let of = |i: usize| z.get(space.free.len() + i).copied().unwrap_or(0.0);
                vec![10.0 * (0.05 * of(line) + 3.0 * (of(cliff) + 0.5).min(0.0)).exp()]
            };
            Ok(places.iter().map(found).collect())
        };
        let here = vec![0.0; space.free.len()];
        let found = look(&space, &data, &here, &[10.0], &look_at).unwrap();
        assert_eq!((found.ranges[line], found.ranges[nothing]), (None, None));
        let [least, most] = found.ranges[cliff].expect("a cliff");
        let value = |far: f64| space.assumed[cliff].value(far);
        assert!(
            least >= value(-0.55) && least <= value(-0.2) && most == value(NINETY_PERCENT),
            "{least} to {most}"
        );
        assert!((found.moves[(0, line)] - 0.05 / 0.03).abs() < 0.05, "{}", found.moves[(0, line)]);
        assert!(found.moves[(0, cliff)].abs() < 0.3, "{}", found.moves[(0, cliff)]);
        assert_eq!(found.moves[(0, nothing)], 0.0);
    }
}
