//! Reasons for which calls are refused. Each reason has its errno, and a sentence for the user.

use doorbell_verbs::VerbsError;
use std::fmt::{self, Display, Formatter};

/// Error numbers of Linux.
pub mod errno {
    macro_rules! numbers {
        ($($name:ident = $number:literal)*) => {$(
            #[doc = concat!("`", stringify!($name), "`.")]
            pub const $name: i32 = $number;
        )*
        /// The name of an error number; `None` if no cause and no system call of a device has it.
        pub(super) const fn name(number: i32) -> Option<&'static str> {
            match number {
                $($number => Some(stringify!($name)),)*
                _ => None,
            }
        }};
    }
    numbers! {
        EPERM = 1 ENOENT = 2 ESRCH = 3 EINTR = 4 EIO = 5 E2BIG = 7 EBADF = 9 EAGAIN = 11 ENOMEM = 12 EACCES = 13
        EFAULT = 14 EBUSY = 16 EEXIST = 17 ENODEV = 19 ENOTDIR = 20 EINVAL = 22 ENFILE = 23 EMFILE = 24
        EFBIG = 27 ENOSPC = 28 EROFS = 30 EPIPE = 32 ENAMETOOLONG = 36 ENOLCK = 37 ENOSYS = 38 ELOOP = 40
        EPROTONOSUPPORT = 93 EOPNOTSUPP = 95 EADDRINUSE = 98 EADDRNOTAVAIL = 99 ENOBUFS = 105 ETIMEDOUT = 110
        ECONNREFUSED = 111 EDQUOT = 122
    }
}

/// A reason for which calls are refused. [`causes!`](crate::causes!) declares each reason, in a table.
#[derive(Debug, PartialEq, Eq)]
pub struct Cause {
    /// Name of the constant, which is unique in its table.
    pub name: &'static str,
    /// The errno of a refused call. The operating system may determine another errno.
    pub errno: i32,
    /// Name of this errno.
    pub errno_name: &'static str,
    /// The argument, the field or the object that is wrong.
    pub field: &'static str,
    /// States the value of the field, and the right values. Each `{}` stands for a value.
    pub sentence: &'static str,
    /// The man page of the call that is usually refused for this reason.
    pub page: &'static str,
}

impl Cause {
    /// A call that this reason refuses. The sentence must be without values.
    #[cold]
    #[inline(never)]
    pub fn bare(&'static self) -> Refused {
        Refused(Box::new(Refusal { cause: self, errno: self.errno, values: Vec::new() }))
    }

    /// A call that this reason refuses, with the values of the sentence in order.
    #[cold]
    #[inline(never)]
    pub fn of<const N: usize>(&'static self, values: [&dyn Display; N]) -> Refused {
        let values = values.iter().map(|value| value.to_string()).collect();
        Refused(Box::new(Refusal { cause: self, errno: self.errno, values }))
    }
}

/// A refused call: its errno and its reason. A pointer, so that a successful call returns no memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused(Box<Refusal>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Refusal {
    cause: &'static Cause,
    errno: i32,
    values: Vec<String>,
}

impl Refused {
    /// Replaces the errno by one that the operating system has determined.
    #[must_use]
    pub fn with_errno(mut self, errno: i32) -> Refused {
        self.0.errno = errno;
        self
    }

    /// The reason.
    pub fn cause(&self) -> &'static Cause {
        self.0.cause
    }

    /// The errno that the call returns.
    pub fn errno(&self) -> i32 {
        self.0.errno
    }

    /// The error for programs that call devices in Rust.
    #[cold]
    pub fn into_error(self) -> VerbsError {
        match self.errno() {
            errno::ENOMEM => VerbsError::NoRoom(self.to_string()),
            errno::EOPNOTSUPP => VerbsError::Unsupported(self.to_string()),
            _ => VerbsError::Invalid(self.to_string()),
        }
    }

    /// The name of the errno, or its number if it has no name here.
    pub fn errno_name(&self) -> String {
        errno::name(self.0.errno).map_or_else(|| format!("errno {}", self.0.errno), str::to_owned)
    }
}

/// Writes the field and the sentence with its values.
impl Display for Refused {
    fn fmt(&self, to: &mut Formatter<'_>) -> fmt::Result {
        let Refusal { cause, values, .. } = &*self.0;
        to.write_str(cause.field)?;
        to.write_str(" ")?;
        let mut values = values.iter();
        for (at, part) in cause.sentence.split("{}").enumerate() {
            if at > 0 {
                to.write_str(values.next().map_or("?", String::as_str))?;
            }
            to.write_str(part)?;
        }
        Ok(())
    }
}

/// Declares a table of reasons by man pages: for each reason its constant, errno, field and sentence. The
/// first name is the list of all reasons in the table.
#[macro_export]
macro_rules! causes {
    ($(#[$meta:meta])* $vis:vis $all:ident: $($page:literal {
        $($name:ident: $errno:ident $field:literal $sentence:literal)*
    })*) => {
        $($(
            #[doc = concat!("`", stringify!($errno), "`: `", $field, "` ", $sentence)]
            $vis static $name: $crate::Cause = $crate::Cause {
                name: stringify!($name),
                errno: $crate::errno::$errno,
                errno_name: stringify!($errno),
                field: $field,
                sentence: $sentence,
                page: $page,
            };
        )*)*
        /// All reasons of this table, in order.
        $(#[$meta])*
        $vis static $all: &[&$crate::Cause] = &[$($(&$name,)*)*];
    };
}

#[cfg(test)]
mod tests {
    causes! {
        ALL:
        "ibv_create_cq(3)" {
            CQE: EINVAL "cqe" "is {}, but must be 1 to {}"
            BUSY: EBUSY "cq" "is in use"
        }
    }

    #[test]
    fn a_sentence_shows_its_values() {
        let refused = CQE.of([&0, &16]);
        assert_eq!(refused.to_string(), "cqe is 0, but must be 1 to 16");
        assert_eq!((refused.errno(), refused.errno_name().as_str()), (22, "EINVAL"));
        assert_eq!(BUSY.bare().with_errno(93).errno_name(), "EPROTONOSUPPORT");
        assert_eq!(BUSY.bare().with_errno(999).errno_name(), "errno 999");
        assert_eq!(ALL.iter().map(|cause| cause.name).collect::<Vec<_>>(), ["CQE", "BUSY"]);
    }

    /// A pointer without a bit for success, so that a successful post returns in one register.
    #[test]
    fn success_needs_no_memory() {
        assert_eq!(size_of::<Result<(), super::Refused>>(), size_of::<usize>());
    }
}
