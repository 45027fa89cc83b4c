//! The classes of caches, and a table with a value for each class.

use doorbell_nic::{NicCache, Resource};

/// A class of caches that a bottleneck can name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CacheClass {
    Wqe,
    QpContext,
    Translation,
}

impl CacheClass {
    pub(super) fn of(cache: NicCache) -> CacheClass {
        match cache {
            NicCache::Wqe | NicCache::WqeInFlight => CacheClass::Wqe,
            NicCache::QpRequester | NicCache::QpResponder => CacheClass::QpContext,
            NicCache::Translation => CacheClass::Translation,
        }
    }

    /// The caches of the class: the inverse of [`CacheClass::of`].
    pub(super) fn caches(self) -> &'static [NicCache] {
        match self {
            CacheClass::Wqe => &[NicCache::Wqe, NicCache::WqeInFlight],
            CacheClass::QpContext => &[NicCache::QpRequester, NicCache::QpResponder],
            CacheClass::Translation => &[NicCache::Translation],
        }
    }

    pub(super) fn resource(self) -> Resource {
        match self {
            CacheClass::Wqe => Resource::WqeCache,
            CacheClass::QpContext => Resource::QpContextCache,
            CacheClass::Translation => Resource::TranslationCache,
        }
    }

    pub(super) fn in_words(self) -> &'static str {
        match self {
            CacheClass::Wqe => "WQE cache",
            CacheClass::QpContext => "QP-context caches",
            CacheClass::Translation => "translation cache",
        }
    }
}

/// A value for each class of caches.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct PerCache {
    pub(super) wqe: f64,
    pub(super) qp_context: f64,
    pub(super) translation: f64,
}

impl PerCache {
    /// The table of the values of a function.
    pub(super) fn from_fn(value: impl Fn(CacheClass) -> f64) -> PerCache {
        PerCache {
            wqe: value(CacheClass::Wqe),
            qp_context: value(CacheClass::QpContext),
            translation: value(CacheClass::Translation),
        }
    }

    pub(super) fn get(&self, class: CacheClass) -> f64 {
        match class {
            CacheClass::Wqe => self.wqe,
            CacheClass::QpContext => self.qp_context,
            CacheClass::Translation => self.translation,
        }
    }

    /// All classes with their values.
    pub(super) fn entries(self) -> [(CacheClass, f64); 3] {
        let PerCache { wqe, qp_context, translation } = self;
        [(CacheClass::Wqe, wqe), (CacheClass::QpContext, qp_context), (CacheClass::Translation, translation)]
    }

    pub(super) fn map(self, value: impl Fn(f64) -> f64) -> PerCache {
        PerCache::from_fn(|class| value(self.get(class)))
    }

    pub(super) fn sum(self) -> f64 {
        self.entries().iter().map(|(_, value)| value).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_has_the_caches_of_its_resource() {
        for (class, _) in PerCache::default().entries() {
            for cache in class.caches() {
                assert_eq!((CacheClass::of(*cache), cache.resource()), (class, class.resource()));
            }
        }
    }
}
