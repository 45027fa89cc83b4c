//! The table that perftest prints at the end.

/// Unit of a bandwidth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BandwidthUnit {
    /// 2^20 bytes per second: MB/sec, and MiB/sec in newer versions.
    Mib,
    /// 10^9 bits per second, with `--report_gbits`.
    Gbit,
}

/// A column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Column {
    Bytes,
    Iterations,
    Peak(BandwidthUnit),
    Bandwidth(BandwidthUnit),
    MessageRate,
    CpuUse,
    Least,
    Most,
    Typical,
    Average,
    Deviation,
    Percentile99,
    Percentile999,
    Rate,
}

/// The titles.
const TITLES: &[(&str, Column)] = &[
    ("#bytes", Column::Bytes),
    ("#iterations", Column::Iterations),
    ("BW peak[MB/sec]", Column::Peak(BandwidthUnit::Mib)),
    ("BW peak[MiB/sec]", Column::Peak(BandwidthUnit::Mib)),
    ("BW peak[Gb/sec]", Column::Peak(BandwidthUnit::Gbit)),
    ("BW average[MB/sec]", Column::Bandwidth(BandwidthUnit::Mib)),
    ("BW average[MiB/sec]", Column::Bandwidth(BandwidthUnit::Mib)),
    ("BW average[Gb/sec]", Column::Bandwidth(BandwidthUnit::Gbit)),
    ("MsgRate[Mpps]", Column::MessageRate),
    ("CPU_Util[%]", Column::CpuUse),
    ("t_min[usec]", Column::Least),
    ("t_max[usec]", Column::Most),
    ("t_typical[usec]", Column::Typical),
    ("t_avg[usec]", Column::Average),
    ("t_stdev[usec]", Column::Deviation),
    ("99% percentile[usec]", Column::Percentile99),
    ("99.9% percentile[usec]", Column::Percentile999),
    ("tps average", Column::Rate),
];

impl Column {
    /// The key of the column in a file of series. `None` if the import does not keep the column.
    pub(super) fn key(self) -> Option<&'static str> {
        match self {
            Column::Bytes => None,
            Column::Iterations => Some("iterations"),
            Column::Peak(_) => Some("peak"),
            Column::Bandwidth(BandwidthUnit::Mib) => Some("mibps"),
            Column::Bandwidth(BandwidthUnit::Gbit) => Some("gbps"),
            Column::MessageRate => Some("mpps"),
            Column::CpuUse => Some("cpu_percent"),
            Column::Least => Some("min"),
            Column::Most => Some("max"),
            Column::Typical => Some("typical"),
            Column::Average => Some("avg"),
            Column::Deviation => Some("stdev"),
            Column::Percentile99 => Some("p99"),
            Column::Percentile999 => Some("p999"),
            Column::Rate => Some("tps"),
        }
    }
}

/// The columns of a table's head, or the first title that is not known. `None` if the line is no head.
pub(super) fn head(line: &str) -> Option<Result<Vec<Column>, &str>> {
    let mut rest = line.trim();
    if !rest.starts_with("#bytes") {
        return None;
    }
    let mut columns = Vec::new();
    while !rest.is_empty() {
        // A title that begins another title must not end within a word.
        let known = TITLES.iter().find(|(title, _)| {
            rest.strip_prefix(title).is_some_and(|after| after.chars().next().is_none_or(char::is_whitespace))
        });
        let Some((title, column)) = known else { return Some(Err(rest)) };
        columns.push(*column);
        rest = rest.get(title.len()..).unwrap_or_default().trim_start();
    }
    Some(Ok(columns))
}

/// The numbers of a row. `None` if the line has other words, or less than two.
pub(super) fn row(line: &str) -> Option<Vec<f64>> {
    let numbers: Option<Vec<f64>> = line.split_whitespace().map(|word| word.parse().ok()).collect();
    numbers.filter(|numbers| numbers.len() > 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_of_all_versions_are_known() {
        let latency = " #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    \
                       t_stdev[usec]   99% percentile[usec]   99.9% percentile[usec] ";
        assert_eq!(head(latency).unwrap().unwrap().len(), 9);
        let old = " #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]";
        assert_eq!(head(old).unwrap().unwrap().last(), Some(&Column::Typical));
        let timed = " #bytes        #iterations       t_avg[usec]    tps average";
        let own = [Column::Bytes, Column::Iterations, Column::Average, Column::Rate];
        assert_eq!(head(timed).unwrap().unwrap(), own);
        let rate = "#bytes     #iterations    BW peak[MiB/sec]    BW average[MiB/sec]   MsgRate[Mpps]    CPU_Util[%]";
        assert_eq!(head(rate).unwrap().unwrap().last(), Some(&Column::CpuUse));
        let gbits = " #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]";
        assert!(head(gbits).unwrap().unwrap().contains(&Column::Bandwidth(BandwidthUnit::Gbit)));
        let ports = " #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]   BW Port1[MB/sec]";
        assert_eq!(head(ports), Some(Err("BW Port1[MB/sec]")));
        assert_eq!(head(" TX depth : 1"), None);
    }

    #[test]
    fn rows_are_numbers_alone() {
        assert_eq!(row(" 2       20          0.36  \t 0.49   \t\t-nan").unwrap().len(), 5);
        assert_eq!(row(" 2, 1.3"), None);
        assert_eq!(row("0.266130"), None);
        assert_eq!(row(""), None);
    }
}
