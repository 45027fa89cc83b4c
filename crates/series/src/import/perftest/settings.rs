//! The lines that perftest prints before its table: ` TX depth        : 128`.

/// A setting that the import uses, or one that it knows and leaves out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Setting {
    DualPort,
    Device,
    Qps,
    Connection,
    SharedReceive,
    TxDepth,
    PostList,
    CqModeration,
    Mtu,
    LinkType,
    Inline,
    OutstandingReads,
    RelaxedOrdering,
    LockFree,
    WrApi,
    RocmMemory,
    Unused,
}

/// The names, in small letters. A name that ends in another name comes first.
const NAMES: &[(&str, Setting)] = &[
    ("dual-port", Setting::DualPort),
    ("device", Setting::Device),
    ("number of qps", Setting::Qps),
    ("transport type", Setting::Unused),
    ("connection type", Setting::Connection),
    ("using srq", Setting::SharedReceive),
    ("pcie relax order", Setting::RelaxedOrdering),
    ("lock-free", Setting::LockFree),
    ("ibv_wr* api", Setting::WrApi),
    ("using ddp", Setting::Unused),
    ("using enhanced reorder", Setting::Unused),
    ("tx depth", Setting::TxDepth),
    ("recv post list", Setting::Unused),
    ("post list", Setting::PostList),
    ("rx depth", Setting::Unused),
    ("cq moderation", Setting::CqModeration),
    ("cqe poll batch", Setting::Unused),
    ("mtu", Setting::Mtu),
    ("link type", Setting::LinkType),
    ("gid index2", Setting::Unused),
    ("gid index", Setting::Unused),
    ("max inline data", Setting::Inline),
    ("outstand reads", Setting::OutstandingReads),
    ("rdma_cm qps", Setting::Unused),
    ("use rocm memory", Setting::RocmMemory),
    ("data ex. method", Setting::Unused),
    ("tos", Setting::Unused),
    ("buffer size", Setting::Unused),
];

/// The settings in a line. `None` if the line does not begin with one.
pub(super) fn settings(line: &str) -> Option<Vec<(Setting, &str)>> {
    let lower = line.to_ascii_lowercase();
    let mut rest = 0;
    // Where each setting begins, where its value begins, and which setting it is.
    let mut found: Vec<(usize, usize, Setting)> = Vec::new();
    while let Some((begin, value, setting)) = first(&lower, rest) {
        found.push((begin, value, setting));
        rest = value;
    }
    let begins = line.find(|c: char| !c.is_whitespace())?;
    if found.first().is_none_or(|(begin, ..)| *begin != begins) {
        return None;
    }
    let ends = found.iter().skip(1).map(|(begin, ..)| *begin).chain([line.len()]);
    let values = found
        .iter()
        .zip(ends)
        .map(|((_, value, setting), end)| (*setting, line.get(*value..end).unwrap_or_default().trim()));
    Some(values.collect())
}

/// The first setting from byte `from` on: its begin, the begin of its value, and the setting.
fn first(lower: &str, from: usize) -> Option<(usize, usize, Setting)> {
    let at = |name: &str, setting| {
        let rest = lower.get(from..)?;
        rest.match_indices(name).find_map(|(begin, _)| {
            let before = rest.get(..begin)?;
            let after = rest.get(begin + name.len()..)?;
            let gap = after.len() - after.trim_start().len();
            let is_word = before.chars().next_back().is_none_or(char::is_whitespace);
            let is_key = is_word && after.trim_start().starts_with(':');
            is_key.then_some((from + begin, from + begin + name.len() + gap + 1, setting))
        })
    };
    let all = NAMES.iter().filter_map(|(name, setting)| at(name, *setting));
    // Of two names that end at one colon, the longer one begins first.
    all.min_by_key(|(begin, ..)| *begin)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_one_or_two_settings() {
        for (line, expected) in [
            (" TX depth        : 128", vec![(Setting::TxDepth, "128")]),
            (
                " Dual-port       : OFF\t\tDevice         : mlx5_0",
                vec![(Setting::DualPort, "OFF"), (Setting::Device, "mlx5_0")],
            ),
            (
                " Number of qps   : 4            Transport type : IB",
                vec![(Setting::Qps, "4"), (Setting::Unused, "IB")],
            ),
            (" rdma_cm QPs\t : OFF", vec![(Setting::Unused, "OFF")]),
            (" Recv Post List  : 8", vec![(Setting::Unused, "8")]),
            (" Gid index       : 3", vec![(Setting::Unused, "3")]),
            (
                " Data ex. method : rdma_cm \tTOS    : 106",
                vec![(Setting::Unused, "rdma_cm"), (Setting::Unused, "106")],
            ),
            (" Mtu             : 4096[B]", vec![(Setting::Mtu, "4096[B]")]),
        ] {
            assert_eq!(settings(line), Some(expected), "{line}");
        }
        for line in
            ["", " TX depth", "My device : x", " GID: 00:00", " local address: LID 0x01 QPN 0x0107 PSN 0x1"]
        {
            assert_eq!(settings(line), None, "{line}");
        }
    }
}
