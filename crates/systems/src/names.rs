//! Parameters that are names.

/// Declares names of a parameter: the type, and the names that its field takes.
macro_rules! named {
    ($($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $text:literal,)* })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
        pub enum $name {
            $( $(#[$variant_doc])* #[serde(rename = $text)] $variant, )*
        }

        impl $name {
            pub(crate) const NAMES: &'static [&'static str] = &[$($text),*];

            /// Its name.
            pub const fn name(self) -> &'static str {
                Self::NAMES[self as usize]
            }
        }
    )*};
}
pub(crate) use named;
