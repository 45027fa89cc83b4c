//! IP addresses of ranks. With `--ip`, each rank is a host of its own.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The address `behind` steps after `first`. `None` if there is no such address.
pub(crate) fn nth(first: IpAddr, behind: u32) -> Option<IpAddr> {
    match first {
        IpAddr::V4(first) => first.to_bits().checked_add(behind).map(|bits| Ipv4Addr::from_bits(bits).into()),
        IpAddr::V6(first) => {
            first.to_bits().checked_add(behind.into()).map(|bits| Ipv6Addr::from_bits(bits).into())
        }
    }
}

/// Checks that the address `behind` steps after `first` can belong to one host. The error is the reason why
/// it cannot.
pub(crate) fn check(first: IpAddr, behind: u32) -> Result<(), &'static str> {
    let Some(address) = nth(first, behind) else {
        return Err("too few addresses follow it for all ranks");
    };
    let is_ordinary = is_of_one_host(address) && address != IpAddr::V4(Ipv4Addr::BROADCAST);
    match behind {
        _ if is_ordinary => Ok(()),
        0 => {
            Err("wildcard, broadcast, multicast, loopback and link-local addresses do not belong to one host")
        }
        _ => Err("the address of a later rank would be a multicast, broadcast or loopback address"),
    }
}

/// Whether an address can belong to one host on any link. Unspecified, loopback and multicast addresses
/// cannot, and neither can link-local addresses of IPv6.
pub fn is_of_one_host(ip: IpAddr) -> bool {
    let is_of_link = matches!(ip, IpAddr::V6(ip) if ip.is_unicast_link_local());
    !(ip.is_unspecified() || ip.is_loopback() || ip.is_multicast() || is_of_link)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn ranks_have_one_address_after_the_other() {
        assert_eq!(nth(address("10.0.0.255"), 2), Some(address("10.0.1.1")));
        assert_eq!(nth(address("fd00::ffff"), 1), Some(address("fd00::1:0")));
        assert_eq!(nth(address("255.255.255.254"), 2), None);
    }

    #[test]
    fn what_no_host_has_alone_is_refused() {
        for (text, behind) in [("10.0.0.1", 2000), ("fd00::1", 0), ("fd80::1", 3)] {
            assert_eq!(check(address(text), behind), Ok(()), "{text}");
        }
        for (text, behind) in [
            ("0.0.0.0", 0),
            ("::", 0),
            ("127.0.0.2", 0),
            ("::1", 0),
            ("fe80::1", 0),
            ("224.0.0.1", 0),
            ("ff02::1", 0),
            ("255.255.255.255", 0),
            ("223.255.255.255", 1),
            ("126.255.255.255", 1),
            ("255.255.255.255", 1),
        ] {
            assert!(check(address(text), behind).is_err(), "{text} and {behind}");
        }
    }
}
