//! Multicast groups. A process shows to senders which of its QPs are attached to which groups.

use super::records::{GROUPS, GroupRecord};
use super::segment::Segment;
use crate::errno::{EINVAL, ENOMEM, Errno};
use crate::point::{Point, reach};
use crate::sync::lock;
use doorbell_verbs::Gid;
use std::sync::Mutex;
use std::sync::atomic::{Ordering::*, fence};

/// Whether a LID is a multicast LID (IB specification vol. 1, 4.1.3). The permissive LID, 0xffff, is not a
/// multicast LID.
pub(crate) fn is_multicast_lid(lid: u16) -> bool {
    (0xc000..0xffff).contains(&lid)
}

/// Whether a GID is a multicast GID: an IPv6 multicast address (IB specification vol. 1, 4.1.1), or an IPv4
/// multicast address mapped to IPv6.
pub(crate) fn is_multicast_gid(gid: &Gid) -> bool {
    let address = std::net::Ipv6Addr::from(gid.0);
    address.is_multicast() || address.to_ipv4_mapped().is_some_and(|address| address.is_multicast())
}

/// A group as ibv_attach_mcast(3) names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Group {
    pub(crate) gid: Gid,
    /// 0 on Ethernet, where LIDs mean nothing.
    pub(crate) lid: u16,
}

/// The group address in a datagram. On InfiniBand, a datagram has the group's LID, and with a global route
/// header also the group's GID.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GroupAddress {
    pub(crate) gid: Option<Gid>,
    pub(crate) lid: Option<u16>,
}

impl GroupAddress {
    fn names(&self, group: &Group) -> bool {
        self.gid.is_none_or(|gid| gid == group.gid) && self.lid.is_none_or(|lid| lid == group.lid)
    }
}

/// The index of a QP of this process, and a group that the QP is attached to.
type Attachment = (u32, Group);

/// The attachments of this process's QPs. The index of an attachment is the index of the record that shows
/// it.
#[derive(Debug, Default)]
pub(crate) struct Groups(Mutex<Vec<Option<Attachment>>>);

impl Groups {
    /// Attaches a QP to a group. A second attachment to the same group changes nothing, as in the kernel.
    /// ENOMEM if all records are in use.
    pub(crate) fn attach(&self, segment: &Segment, index: u32, group: Group) -> Result<(), Errno> {
        let mut all = lock(&self.0);
        if all.contains(&Some((index, group))) {
            return Ok(());
        }
        let place = all.iter().position(Option::is_none).unwrap_or(all.len());
        let record = segment.group(place).ok_or(ENOMEM)?;
        if place == all.len() {
            all.push(None);
        }
        all[place] = Some((index, group));
        record.show(index, &group);
        Ok(())
    }

    /// Detaches a QP from a group. EINVAL if the QP is not attached to the group.
    pub(crate) fn detach(&self, segment: &Segment, index: u32, group: Group) -> Result<(), Errno> {
        let mut all = lock(&self.0);
        let place = all.iter().position(|known| *known == Some((index, group))).ok_or(EINVAL)?;
        all[place] = None;
        segment.group(place).ok_or(EINVAL)?.clear();
        Ok(())
    }

    /// Whether a QP is attached to any group.
    pub(crate) fn has(&self, index: u32) -> bool {
        lock(&self.0).iter().flatten().any(|(known, _)| *known == index)
    }
}

/// The indices of the QPs that a segment shows as attached to the addressed groups. Each index comes once.
pub(crate) fn members(segment: &Segment, address: &GroupAddress) -> Vec<u32> {
    let mut members = Vec::new();
    for record in (0..GROUPS).map_while(|place| segment.group(place)) {
        match record.read() {
            Shown::Never => break,
            Shown::Member(index, group) if address.names(&group) => members.push(index),
            _ => {}
        }
    }
    members.sort_unstable();
    members.dedup();
    members
}

/// The content of a record.
enum Shown {
    /// No attachment at present.
    Nothing,
    /// No attachment so far, neither in this record nor in any later record.
    Never,
    Member(u32, Group),
}

/// One change, in the count of changes in `GroupRecord::member`. The bits below this bit are the QP's index
/// plus 1.
const CHANGE: u64 = 1 << 32;

impl GroupRecord {
    fn show(&self, index: u32, group: &Group) {
        self.clear();
        let [first, second] = gid_words(&group.gid);
        for (to, word) in self.gid.iter().zip([first, second]) {
            to.store(word, Relaxed);
        }
        self.lid.store(group.lid.into(), Relaxed);
        reach(Point::GroupHalfShown);
        // Relaxed, here and in `clear`: only the owner stores to the record, under the lock of `Groups`.
        // Release: a reader that loads the index by Acquire sees the group.
        let cleared = self.member.load(Relaxed);
        self.member.store(cleared | u64::from(index + 1), Release);
    }

    fn clear(&self) {
        let changed = (self.member.load(Relaxed) & !(CHANGE - 1)).wrapping_add(CHANGE);
        self.member.store(changed, Relaxed);
        // Release: a reader that sees a later store to the record also sees the new count.
        fence(Release);
    }

    fn read(&self) -> Shown {
        let word = self.member.load(Acquire);
        let Some(index) = (word as u32).checked_sub(1) else {
            return if word == 0 { Shown::Never } else { Shown::Nothing };
        };
        let words = self.gid.each_ref().map(|word| word.load(Relaxed));
        let lid = self.lid.load(Relaxed) as u16;
        // Acquire, for the fence in `clear`: if a word of the group was changed, the count has changed.
        fence(Acquire);
        match self.member.load(Relaxed) == word {
            true => Shown::Member(index, Group { gid: gid_of(words), lid }),
            // The record changed meanwhile, because a QP is being attached or detached.
            false => Shown::Nothing,
        }
    }
}

fn gid_words(gid: &Gid) -> [u64; 2] {
    let number = u128::from_ne_bytes(gid.0);
    [number as u64, (number >> 64) as u64]
}

fn gid_of([low, high]: [u64; 2]) -> Gid {
    Gid((u128::from(low) | u128::from(high) << 64).to_ne_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(last: u8, lid: u16) -> Group {
        let mut gid = [0xff; 16];
        gid[15] = last;
        Group { gid: Gid(gid), lid }
    }

    fn to(group: &Group) -> GroupAddress {
        GroupAddress { gid: Some(group.gid), lid: Some(group.lid) }
    }

    #[test]
    fn addresses_of_groups_are_told_apart() {
        let ipv4 = |first: u8| {
            let mut gid = [0; 16];
            (gid[10], gid[11], gid[12]) = (0xff, 0xff, first);
            is_multicast_gid(&Gid(gid))
        };
        assert_eq!([223, 224, 239, 240].map(ipv4), [false, true, true, false]);
        assert!(is_multicast_gid(&group(1, 0).gid) && !is_multicast_gid(&Gid([0xfe; 16])));
        assert_eq!(
            [0, 0xbfff, 0xc000, 0xfffe, 0xffff].map(is_multicast_lid),
            [false, false, true, true, false]
        );
    }

    #[test]
    fn members_are_those_that_are_attached() {
        let (_, segment) = Segment::create().expect("memory");
        let (groups, one, other) = (Groups::default(), group(1, 0xc001), group(2, 0xc002));
        for (index, to) in [(7, one), (5, one), (5, other), (7, one)] {
            groups.attach(&segment, index, to).expect("there is room");
        }
        assert_eq!(members(&segment, &to(&one)), [5, 7]);
        assert_eq!(members(&segment, &to(&other)), [5]);
        let by_gid = GroupAddress { lid: None, ..to(&one) };
        let by_lid = GroupAddress { gid: None, ..to(&other) };
        assert_eq!([by_gid, by_lid].map(|address| members(&segment, &address)), [vec![5, 7], vec![5]]);
        assert!(members(&segment, &GroupAddress { lid: Some(0xc002), ..to(&one) }).is_empty());
        groups.detach(&segment, 7, one).expect("it is attached");
        assert_eq!(groups.detach(&segment, 7, one), Err(EINVAL));
        assert_eq!(members(&segment, &to(&one)), [5]);
        assert_eq!([5, 7].map(|index| groups.has(index)), [true, false]);
        // A free record in the middle is reused.
        groups.attach(&segment, 9, other).expect("there is room");
        assert_eq!(members(&segment, &to(&other)), [5, 9]);
    }

    #[test]
    fn there_are_as_many_attachments_as_announced() {
        let (_, segment) = Segment::create().expect("memory");
        let groups = Groups::default();
        let attach = |n: usize| groups.attach(&segment, n as u32, group(1, 0xc001));
        (0..GROUPS).for_each(|n| attach(n).expect("there is room"));
        assert_eq!(attach(GROUPS), Err(ENOMEM));
        assert_eq!(members(&segment, &to(&group(1, 0xc001))).len(), GROUPS);
    }
}
