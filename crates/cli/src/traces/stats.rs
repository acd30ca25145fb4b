//! Statistics of a trace as text.

use crate::text_table::TextTable;
use giveway_core::{Kind, plural};
use giveway_sim::cluster::Cluster;
use giveway_traces::{Distribution, QUANTILES, Stats};
use serde_json::json;
use std::fmt::Write;

/// All statistics of a trace; the load is that on `cluster`.
pub fn describe(stats: &Stats, cluster: &Cluster) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = write(&mut text, stats, cluster);
    text
}

/// The same as JSON. Names do not change; scripts rely on them.
pub fn json(stats: &Stats, cluster: &Cluster) -> serde_json::Result<String> {
    let load = |work: &Distribution, kind| stats.load(work, cluster.slots(kind));
    let document = json!({
        "stats": stats,
        "quantiles": QUANTILES,
        "cluster": {
            "name": cluster.name,
            "nodes": cluster.nodes.len(),
            "map_slots": cluster.slots(Kind::Map),
            "reduce_slots": cluster.slots(Kind::Reduce),
            "map_load": load(&stats.map_work_s, Kind::Map),
            "reduce_load": load(&stats.reduce_work_s, Kind::Reduce),
        },
    });
    Ok(serde_json::to_string_pretty(&document)? + "\n")
}

fn write(out: &mut String, stats: &Stats, cluster: &Cluster) -> std::fmt::Result {
    let Stats { jobs, users, pools, span_s, .. } = stats;
    writeln!(
        out,
        "{} of {} in {}, submitted within {span_s:.0} s",
        plural(*jobs as u64, "job"),
        plural(*users as u64, "user"),
        plural(*pools as u64, "pool")
    )?;
    writeln!(out, "{}", table(&[("", stats)]))?;
    writeln!(
        out,
        "arrivals: one in {:.2} s, coefficient of variation {:.2}; jobs per minute: variance / mean {:.1} (1 for a Poisson process)",
        stats.gaps_s.mean, stats.gaps_s.cv, stats.minute_dispersion
    )?;
    let load = |work: &Distribution, kind| stats.load(work, cluster.slots(kind)) * 100.0;
    writeln!(
        out,
        "load on {} ({} nodes): {:.1} % of {} map slots, {:.1} % of {} reduce slots",
        cluster.name,
        cluster.nodes.len(),
        load(&stats.map_work_s, Kind::Map),
        cluster.slots(Kind::Map),
        load(&stats.reduce_work_s, Kind::Reduce),
        cluster.slots(Kind::Reduce)
    )?;
    writeln!(out, "jobs per hour: {}", sparkline(&stats.jobs_per_hour))?;
    writeln!(out, "jobs by work:")?;
    let most = stats.jobs_by_work.values().copied().max().unwrap_or(1).max(1);
    for (power, count) in &stats.jobs_by_work {
        let bar = "█".repeat((u64::from(*count) * 50 / u64::from(most)) as usize);
        writeln!(out, "  1e{power} slot s  {count:>8} {bar}")?;
    }
    Ok(())
}

type DistributionOf = fn(&Stats) -> &Distribution;

/// The quantiles of one or several traces, one below the other for each number.
pub fn table(all: &[(&str, &Stats)]) -> TextTable {
    let mut header = vec![String::new(), "mean".into(), "total".into()];
    header.extend(
        QUANTILES.iter().map(
            |&fraction| {
                if fraction < 1.0 { format!("p{:.0}", fraction * 100.0) } else { "max".into() }
            },
        ),
    );
    let mut table = TextTable::new(header).numbers_from(1);
    let rows: [(&str, DistributionOf); 7] = [
        ("gap between jobs (s)", |stats| &stats.gaps_s),
        ("maps", |stats| &stats.maps),
        ("reduces", |stats| &stats.reduces),
        ("input (bytes)", |stats| &stats.input_bytes),
        ("shuffle (bytes)", |stats| &stats.shuffle_bytes),
        ("map work (slot s)", |stats| &stats.map_work_s),
        ("reduce work (slot s)", |stats| &stats.reduce_work_s),
    ];
    for (name, of) in rows {
        for (label, stats) in all {
            let distribution = of(stats);
            let name = if label.is_empty() { name.to_owned() } else { format!("{name}, {label}") };
            let numbers = [distribution.mean, distribution.total].into_iter().chain(distribution.quantiles);
            table.add_row(std::iter::once(name).chain(numbers.map(short)));
        }
    }
    table
}

/// A number with three digits and a power of a thousand.
fn short(number: f64) -> String {
    let units = ["", "k", "M", "G", "T", "P", "E"];
    let mut scaled = number;
    let mut unit = 0;
    while scaled.abs() >= 999.5 && unit + 1 < units.len() {
        scaled /= 1_000.0;
        unit += 1;
    }
    let decimals = match scaled.abs() {
        value if value >= 99.95 || value.fract() == 0.0 => 0,
        value if value >= 9.995 => 1,
        _ => 2,
    };
    format!("{scaled:.decimals$}{}", units.get(unit).copied().unwrap_or_default())
}

/// One character per hour, or per several hours if there are more than a hundred.
fn sparkline(counts: &[u32]) -> String {
    const LEVELS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let hours = counts.len().div_ceil(100).max(1);
    let sums: Vec<u64> = counts.chunks(hours).map(|chunk| chunk.iter().map(|&count| u64::from(count)).sum()).collect();
    let most = sums.iter().copied().max().unwrap_or(0).max(1);
    let line: String =
        sums.iter().map(|&sum| if sum == 0 { ' ' } else { LEVELS[(sum * 7 / most) as usize % LEVELS.len()] }).collect();
    let unit = if hours == 1 { String::new() } else { format!(" (one column for {hours} hours)") };
    format!("[{line}] at most {most}{unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        for (number, text) in
            [(0.0, "0"), (7.0, "7"), (1.5, "1.50"), (999.6, "1.00k"), (26.9e12, "26.9T"), (123_456.0, "123k")]
        {
            assert_eq!(short(number), text);
        }
    }

    #[test]
    fn sparklines_have_at_most_a_hundred_columns() {
        assert_eq!(sparkline(&[0, 4, 8]), "[ ▄█] at most 8");
        assert!(sparkline(&[1; 1_000]).contains("one column for 10 hours"));
        assert_eq!(sparkline(&[]), "[] at most 1");
    }
}
