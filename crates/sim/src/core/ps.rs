//! Simulated time in picoseconds.

use doorbell_verbs::{Span, Time};
use std::iter::Sum;
use std::ops::{Add, AddAssign, Div, Mul, Sub, SubAssign};

/// Picoseconds: a moment, counted from the beginning of the run, or a duration.
///
/// Arithmetic works as on `u64`: it is checked for overflow in builds that check `u64`. [`Time`] and
/// [`Span`], which programs see, saturate. No time in a run comes near the maximum except [`Ps::NEVER`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Ps(pub(crate) u64);

impl Ps {
    /// The beginning of the run, or an empty duration.
    pub(crate) const ZERO: Ps = Ps(0);
    /// A moment that never comes.
    pub(crate) const NEVER: Ps = Ps(u64::MAX);

    /// This moment plus `span`, at most [`Ps::NEVER`].
    #[inline]
    pub(crate) const fn saturating_add(self, span: Ps) -> Ps {
        Ps(self.0.saturating_add(span.0))
    }

    /// Time from `earlier` to this moment, or [`Ps::ZERO`] if `earlier` is later.
    #[inline]
    pub(crate) const fn saturating_sub(self, earlier: Ps) -> Ps {
        Ps(self.0.saturating_sub(earlier.0))
    }

    /// This duration times `times / of`, rounded down.
    #[inline]
    pub(crate) fn share(self, times: u64, of: u64) -> Ps {
        Ps((u128::from(self.0) * u128::from(times) / u128::from(of)) as u64)
    }

    /// This moment as a [`Time`], the type that programs see.
    pub(crate) const fn time(self) -> Time {
        Time::from_ps(self.0)
    }

    /// This duration as a [`Span`], the type that programs see.
    pub(crate) const fn span(self) -> Span {
        Span::from_ps(self.0)
    }
}

impl From<Time> for Ps {
    #[inline]
    fn from(time: Time) -> Ps {
        Ps(time.as_ps())
    }
}

impl From<Span> for Ps {
    #[inline]
    fn from(span: Span) -> Ps {
        Ps(span.as_ps())
    }
}

impl Add for Ps {
    type Output = Ps;
    #[inline]
    fn add(self, span: Ps) -> Ps {
        Ps(self.0 + span.0)
    }
}

impl AddAssign for Ps {
    #[inline]
    fn add_assign(&mut self, span: Ps) {
        self.0 += span.0;
    }
}

impl Sub for Ps {
    type Output = Ps;
    #[inline]
    fn sub(self, earlier: Ps) -> Ps {
        Ps(self.0 - earlier.0)
    }
}

impl SubAssign for Ps {
    #[inline]
    fn sub_assign(&mut self, span: Ps) {
        self.0 -= span.0;
    }
}

impl Mul<u64> for Ps {
    type Output = Ps;
    #[inline]
    fn mul(self, times: u64) -> Ps {
        Ps(self.0 * times)
    }
}

/// A fraction of the duration, rounded down.
impl Div<u64> for Ps {
    type Output = Ps;
    #[inline]
    fn div(self, parts: u64) -> Ps {
        Ps(self.0 / parts)
    }
}

/// How many times `span` fits into this duration.
impl Div for Ps {
    type Output = u64;
    #[inline]
    fn div(self, span: Ps) -> u64 {
        self.0 / span.0
    }
}

impl Sum for Ps {
    fn sum<I: Iterator<Item = Ps>>(all: I) -> Ps {
        all.fold(Ps::ZERO, Ps::add)
    }
}
