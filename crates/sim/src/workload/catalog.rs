//! Workloads by name: the papers' experiments, and one synthetic day.

use super::chronos;
use super::coshh::{self, Trace, Users};
use super::generate::Generate;
use super::{Workload, fcs, gridmix, hsrtf};
use crate::cluster;
use thiserror::Error;

/// Nobody knows a workload of this name.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("no workload is called `{name}`; write the path of a workload file, or one of: {}", listed())]
pub struct UnknownWorkload {
    /// The name.
    pub name: String,
}

/// A name, understood: what is typed is parsed once, and everything after is a match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    HsrtfTable2,
    FcsMapHeavy,
    FcsReduceHeavy,
    FcsFigure3,
    Gridmix(u32),
    ChronosMap,
    ChronosReduce,
    Coshh(Trace, Users, u32),
    Synthetic,
}

/// Every name with what stands behind it.
pub fn names() -> &'static [(&'static str, &'static str)] {
    &[
        ("hsrtf-table2", "31 sorts and word counts, one every 10 s (hSRTF, Table 2)"),
        ("fcs-map-heavy", "171 map-heavy jobs in ten groups (FCS, Table 1)"),
        ("fcs-reduce-heavy", "171 reduce-heavy jobs in ten groups (FCS, Table 3)"),
        ("fcs-figure3", "8 jobs, the third large: its reduces hold all slots (FCS, section 2.2)"),
        ("gridmix-N", "N jobs of GridMix2, 1 to 10000; the paper takes 60 to 300 (FCS, section 5.5)"),
        ("chronos-map", "word counts over 17 and 56 GB, a node fails (Chronos, section V-A)"),
        ("chronos-reduce", "sorts over 17 and 56 GB, a node fails (Chronos, section V-B)"),
        (
            "coshh-facebook",
            "100 jobs of Facebook's classes and ten users; coshh-facebook-N for N jobs (COSHH, section 5)",
        ),
        ("coshh-yahoo", "100 jobs of Yahoo!'s classes and eight users; coshh-yahoo-N for N jobs (COSHH, section 5)"),
        ("coshh-facebook-even", "the same with equal users and no minimum shares; takes -N too (COSHH, section 6.1)"),
        ("coshh-yahoo-even", "the same with equal users and no minimum shares; takes -N too (COSHH, section 6.1)"),
        ("synthetic", "200 heavy-tailed jobs of four users at 70 % load"),
    ]
}

fn listed() -> String {
    names().iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
}

/// The workload of this name. What is random in it comes from the seed alone.
pub fn by_name(name: &str, seed: u64) -> Result<Workload, UnknownWorkload> {
    let known = parse(name).ok_or_else(|| UnknownWorkload { name: name.into() })?;
    Ok(match known {
        Known::HsrtfTable2 => hsrtf::table2(),
        Known::FcsMapHeavy => fcs::map_heavy(seed),
        Known::FcsReduceHeavy => fcs::reduce_heavy(seed),
        Known::FcsFigure3 => fcs::figure_3(),
        Known::Gridmix(count) => gridmix::gridmix(count, seed),
        Known::ChronosMap => chronos::map(),
        Known::ChronosReduce => chronos::reduce(),
        Known::Coshh(trace, users, count) => coshh::coshh(name, trace, users, count, seed),
        Known::Synthetic => {
            let cluster = cluster::by_name(cluster_of(known)).expect("a cluster of the catalogue");
            Generate::default().workload(name, &cluster, seed)
        }
    })
}

/// The name of the cluster on which the papers ran this workload, if it is one of theirs.
pub fn default_cluster_for(workload_name: &str) -> Option<&'static str> {
    parse(workload_name).map(cluster_of)
}

fn cluster_of(known: Known) -> &'static str {
    match known {
        Known::HsrtfTable2 => "hsrtf",
        Known::FcsMapHeavy | Known::FcsReduceHeavy | Known::Gridmix(_) | Known::Synthetic => "fcs",
        Known::FcsFigure3 => "fcs-figure3",
        Known::ChronosMap => "chronos-map",
        Known::ChronosReduce => "chronos-reduce",
        Known::Coshh(..) => "coshh",
    }
}

fn parse(name: &str) -> Option<Known> {
    Some(match name {
        "hsrtf-table2" => Known::HsrtfTable2,
        "fcs-map-heavy" => Known::FcsMapHeavy,
        "fcs-reduce-heavy" => Known::FcsReduceHeavy,
        "fcs-figure3" => Known::FcsFigure3,
        "chronos-map" => Known::ChronosMap,
        "chronos-reduce" => Known::ChronosReduce,
        "synthetic" => Known::Synthetic,
        _ => {
            if let Some(count) = name.strip_prefix("gridmix-") {
                return Some(Known::Gridmix(parse_count(count, gridmix::JOBS_MAX)?));
            }
            let rest = name.strip_prefix("coshh-")?;
            let (trace, rest) = match rest.strip_prefix("facebook") {
                Some(rest) => (Trace::Facebook, rest),
                None => (Trace::Yahoo, rest.strip_prefix("yahoo")?),
            };
            let (users, rest) = match rest.strip_prefix("-even") {
                Some(rest) => (Users::Even, rest),
                None => (Users::Table5, rest),
            };
            let count = if rest.is_empty() { 100 } else { parse_count(rest.strip_prefix('-')?, coshh::JOBS_MAX)? };
            Known::Coshh(trace, users, count)
        }
    })
}

/// A count as people write one: digits, not too many, not zero, no sign.
fn parse_count(text: &str, max: u32) -> Option<u32> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|count| digits && (1..=max).contains(count))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOME: [&str; 14] = [
        "hsrtf-table2",
        "fcs-map-heavy",
        "fcs-reduce-heavy",
        "fcs-figure3",
        "gridmix-1",
        "gridmix-60",
        "gridmix-300",
        "chronos-map",
        "chronos-reduce",
        "coshh-facebook",
        "coshh-yahoo-5",
        "coshh-facebook-even",
        "coshh-yahoo-even-30",
        "synthetic",
    ];

    #[test]
    fn every_workload_is_sound_and_has_a_cluster_it_fits() {
        for name in SOME {
            let workload = by_name(name, 1).unwrap();
            assert_eq!(workload.name, name);
            assert!(!workload.jobs.is_empty());
            workload.tenants.check().unwrap();
            assert!(workload.jobs.windows(2).all(|pair| pair[0].submit <= pair[1].submit));
            for (i, job) in workload.jobs.iter().enumerate() {
                assert_eq!(job.id.0 as usize, i);
                assert!(job.maps > 0 && usize::from(job.group) < workload.groups.len(), "{name}: {}", job.name);
            }
            cluster::by_name(default_cluster_for(name).unwrap()).unwrap();
        }
    }

    #[test]
    fn the_seed_decides_everything() {
        for name in SOME {
            assert_eq!(by_name(name, 42), by_name(name, 42), "{name}");
        }
    }

    #[test]
    fn an_unknown_name_lists_the_known_ones() {
        let bad = ["", "gridmix", "gridmix-0", "gridmix-10001", "gridmix-+5", "gridmix-99999999999", "coshh-google"];
        for name in bad.into_iter().chain(["coshh-facebook-", "coshh-facebook-0", "coshh-facebook100", "fcs"]) {
            let error = by_name(name, 1).unwrap_err().to_string();
            assert!(error.contains("hsrtf-table2"), "{error}");
            assert_eq!(default_cluster_for(name), None);
        }
    }
}
