//! Parameters whose values are names.

/// Declares enums for parameters: each type, and the name of each value.
macro_rules! named {
    ($($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $text:literal,)* })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
        pub enum $name {
            $( $(#[$variant_doc])* #[serde(rename = $text)] $variant, )*
        }

        impl $name {
            pub(crate) const NAMES: &'static [&'static str] = &[$($text),*];

            /// The value's name, as in files and on command lines.
            pub const fn name(self) -> &'static str {
                Self::NAMES[self as usize]
            }
        }
    )*};
}
pub(crate) use named;
