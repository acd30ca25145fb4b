//! Built-in workloads: the papers' experiments, and a synthetic one.

use super::chronos;
use super::coshh::{self, Trace, Users};
use super::generate::Generate;
use super::{Workload, fcs, gridmix, hsrtf};
use crate::cluster;
use thiserror::Error;

/// There is no built-in workload with this name.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("unknown workload `{name}`; use the path of a workload file, or one of: {}", listed())]
pub struct UnknownWorkload {
    /// The unknown name.
    pub name: String,
}

/// A parsed workload name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Builtin {
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

/// Every name with a description.
pub fn names() -> &'static [(&'static str, &'static str)] {
    &[
        ("hsrtf-table2", "31 sorts and word counts, one every 10 s (hSRTF, Table 2)"),
        ("fcs-map-heavy", "171 map-heavy jobs in ten groups (FCS, Table 1)"),
        ("fcs-reduce-heavy", "171 reduce-heavy jobs in ten groups (FCS, Table 3)"),
        ("fcs-figure3", "8 jobs; the reduces of the third occupy all slots (FCS, section 2.2)"),
        ("gridmix-N", "N jobs of GridMix2, 1 to 10000; 60 to 300 in the paper (FCS, section 5.5)"),
        ("chronos-map", "word counts over 17 and 56 GB, a node fails (Chronos, section V-A)"),
        ("chronos-reduce", "sorts over 17 and 56 GB, a node fails (Chronos, section V-B)"),
        ("coshh-facebook", "100 jobs of Facebook's classes, ten users; coshh-facebook-N for N jobs (COSHH, section 5)"),
        ("coshh-yahoo", "100 jobs of Yahoo!'s classes, eight users; coshh-yahoo-N for N jobs (COSHH, section 5)"),
        ("coshh-facebook-even", "coshh-facebook with equal users, no min shares; also with -N (COSHH, section 6.1)"),
        ("coshh-yahoo-even", "coshh-yahoo with equal users, no min shares; also with -N (COSHH, section 6.1)"),
        ("synthetic", "200 heavy-tailed jobs of four users at 70 % load"),
    ]
}

fn listed() -> String {
    names().iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
}

/// Returns the workload with this name. Its random parts depend on the seed alone.
pub fn by_name(name: &str, seed: u64) -> Result<Workload, UnknownWorkload> {
    let builtin = parse(name).ok_or_else(|| UnknownWorkload { name: name.into() })?;
    Ok(match builtin {
        Builtin::HsrtfTable2 => hsrtf::table2(),
        Builtin::FcsMapHeavy => fcs::map_heavy(seed),
        Builtin::FcsReduceHeavy => fcs::reduce_heavy(seed),
        Builtin::FcsFigure3 => fcs::figure_3(),
        Builtin::Gridmix(count) => gridmix::gridmix(count, seed),
        Builtin::ChronosMap => chronos::map(),
        Builtin::ChronosReduce => chronos::reduce(),
        Builtin::Coshh(trace, users, count) => coshh::coshh(name, trace, users, count, seed),
        Builtin::Synthetic => {
            let cluster = cluster::by_name(cluster_of(builtin)).expect("the cluster is in the catalogue");
            Generate::default().workload(name, &cluster, seed)
        }
    })
}

/// Name of the cluster on which the papers ran a built-in workload; none for other names.
pub fn default_cluster_for(workload_name: &str) -> Option<&'static str> {
    parse(workload_name).map(cluster_of)
}

fn cluster_of(builtin: Builtin) -> &'static str {
    match builtin {
        Builtin::HsrtfTable2 => "hsrtf",
        Builtin::FcsMapHeavy | Builtin::FcsReduceHeavy | Builtin::Gridmix(_) | Builtin::Synthetic => "fcs",
        Builtin::FcsFigure3 => "fcs-figure3",
        Builtin::ChronosMap => "chronos-map",
        Builtin::ChronosReduce => "chronos-reduce",
        Builtin::Coshh(..) => "coshh",
    }
}

fn parse(name: &str) -> Option<Builtin> {
    Some(match name {
        "hsrtf-table2" => Builtin::HsrtfTable2,
        "fcs-map-heavy" => Builtin::FcsMapHeavy,
        "fcs-reduce-heavy" => Builtin::FcsReduceHeavy,
        "fcs-figure3" => Builtin::FcsFigure3,
        "chronos-map" => Builtin::ChronosMap,
        "chronos-reduce" => Builtin::ChronosReduce,
        "synthetic" => Builtin::Synthetic,
        _ => {
            if let Some(count) = name.strip_prefix("gridmix-") {
                return Some(Builtin::Gridmix(parse_count(count, gridmix::MAX_JOBS)?));
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
            let count = if rest.is_empty() { 100 } else { parse_count(rest.strip_prefix('-')?, coshh::MAX_JOBS)? };
            Builtin::Coshh(trace, users, count)
        }
    })
}

/// A number from 1 to `max`, in digits without a sign.
fn parse_count(text: &str, max: u32) -> Option<u32> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|count| digits && (1..=max).contains(count))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: [&str; 14] = [
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
    fn every_workload_is_valid_and_has_a_cluster() {
        for name in NAMES {
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
    fn the_seed_determines_the_workload() {
        for name in NAMES {
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
