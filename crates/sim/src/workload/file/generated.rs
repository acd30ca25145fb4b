//! Generated jobs: the `[generate]` table has the parameters.

use super::{MAX_POOLS, MAX_TASK_MB, MAX_TASKS, MAX_TIME_S, app_by_name, job_count, slowstart};
use crate::files::{Bounds, FileError, Key, MB, Seconds, SourceFile};
use crate::workload::apps::App;
use crate::workload::generate::{Arrivals, Generate, Sizes};
use serde::Deserialize;
use std::collections::BTreeMap;
use toml::Spanned;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum SizesName {
    #[default]
    Pareto,
    LogNormal,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum ArrivalsName {
    #[default]
    Poisson,
    Bursty,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct GenerateEntry {
    jobs: Key<i64>,
    users: Key<i64>,
    load: Key<f64>,
    #[serde(default)]
    sizes: SizesName,
    shape: Key<f64>,
    maps_min: Key<i64>,
    maps_max: Key<i64>,
    median: Key<f64>,
    sigma: Key<f64>,
    #[serde(default)]
    arrivals: ArrivalsName,
    burst_factor: Key<f64>,
    burst_share: Key<f64>,
    burst_length: Key<Seconds>,
    apps: Key<BTreeMap<String, Spanned<f64>>>,
    map_mb: Key<f64>,
    maps_per_reduce: Key<f64>,
    slowstart: Key<f64>,
}

/// Parameters of the generated jobs, of which at most `allowed` are valid.
pub(super) fn parameters(source: &SourceFile<'_>, entry: &GenerateEntry, allowed: u32) -> Result<Generate, FileError> {
    let default = Generate::default();
    let jobs = match &entry.jobs {
        Some(key) => job_count(source, key, &entry.jobs, 1, allowed)?,
        None => default.jobs.min(allowed),
    };
    let max = source.count("maps_max", &entry.maps_max, 5_000, 1, MAX_TASKS)?;
    let min = source.count("maps_min", &entry.maps_min, max.min(5), 1, max)?;
    let sizes = match entry.sizes {
        SizesName::Pareto => {
            Sizes::Pareto { shape: source.number("shape", &entry.shape, 0.9, Bounds::Closed(0.1, 100.0))?, min, max }
        }
        SizesName::LogNormal => Sizes::LogNormal {
            median: source.number("median", &entry.median, 10.0, Bounds::Closed(1.0, f64::from(max)))?,
            sigma: source.number("sigma", &entry.sigma, 1.5, Bounds::Closed(0.0, 10.0))?,
            max,
        },
    };
    let arrivals = match entry.arrivals {
        ArrivalsName::Poisson => Arrivals::Poisson,
        ArrivalsName::Bursty => Arrivals::Bursty {
            factor: source.number("burst_factor", &entry.burst_factor, 10.0, Bounds::Closed(1.0, 1e6))?,
            share: source.number("burst_share", &entry.burst_share, 0.1, Bounds::Closed(0.001, 0.999))?,
            length_s: source.seconds("burst_length", &entry.burst_length, 300.0, 1.0, MAX_TIME_S)?,
        },
    };
    reject_unused(source, entry)?;
    let apps = match &entry.apps {
        Some(apps) => weighted_apps(source, apps)?,
        None => default.apps,
    };
    let map_bytes = match &entry.map_mb {
        Some(_) => {
            let mb = source.number("map_mb", &entry.map_mb, 0.0, Bounds::Closed(0.0, MAX_TASK_MB))?;
            Some((mb * MB as f64).round() as u64)
        }
        None => None,
    };
    Ok(Generate {
        jobs,
        users: source.count("users", &entry.users, default.users, 1, MAX_POOLS as u32)?,
        load: source.number("load", &entry.load, default.load, Bounds::Closed(0.001, 100.0))?,
        sizes,
        arrivals,
        apps,
        map_bytes,
        maps_per_reduce: source.number("maps_per_reduce", &entry.maps_per_reduce, 8.0, Bounds::Closed(1.0, 1e7))?,
        slowstart_ppm: slowstart(source, &entry.slowstart)?,
    })
}

/// Rejects keys of a distribution that is not selected: ignoring them silently would be misleading.
fn reject_unused(source: &SourceFile<'_>, entry: &GenerateEntry) -> Result<(), FileError> {
    let span = |key: &Key<f64>| key.as_ref().map(Spanned::span);
    let (sizes, arrivals) = (entry.sizes, entry.arrivals);
    for (name, span, used, owner) in [
        ("shape", span(&entry.shape), sizes == SizesName::Pareto, "sizes = \"pareto\""),
        ("maps_min", entry.maps_min.as_ref().map(Spanned::span), sizes == SizesName::Pareto, "sizes = \"pareto\""),
        ("median", span(&entry.median), sizes == SizesName::LogNormal, "sizes = \"log-normal\""),
        ("sigma", span(&entry.sigma), sizes == SizesName::LogNormal, "sizes = \"log-normal\""),
        ("burst_factor", span(&entry.burst_factor), arrivals == ArrivalsName::Bursty, "arrivals = \"bursty\""),
        ("burst_share", span(&entry.burst_share), arrivals == ArrivalsName::Bursty, "arrivals = \"bursty\""),
        (
            "burst_length",
            entry.burst_length.as_ref().map(Spanned::span),
            arrivals == ArrivalsName::Bursty,
            "arrivals = \"bursty\"",
        ),
    ] {
        if let (Some(span), false) = (span, used) {
            let problem = format!("{name} has no effect here");
            return Err(source.value_error(span, problem, &format!("remove it, or write {owner}")));
        }
    }
    Ok(())
}

fn weighted_apps(
    source: &SourceFile<'_>,
    apps: &Spanned<BTreeMap<String, Spanned<f64>>>,
) -> Result<Vec<(&'static App, f64)>, FileError> {
    let mut weighted = Vec::new();
    for (name, weight) in apps.get_ref() {
        let app = app_by_name(source, name, weight.span())?;
        let key = Some(weight.clone());
        weighted.push((app, source.number(&format!("apps.{name}"), &key, 1.0, Bounds::OpenLow(0.0, 1e6))?));
    }
    if weighted.is_empty() {
        let remedy = "name at least one application, as in apps = { wordcount = 3, sort = 1 }, or remove apps";
        return Err(source.value_error(apps.span(), "generate.apps is empty".into(), remedy));
    }
    Ok(weighted)
}

#[cfg(test)]
mod tests {
    use crate::cluster;
    use crate::workload::Workload;
    use crate::workload::generate::Generate;

    fn read(text: &str) -> Result<Workload, String> {
        Workload::from_toml(text, "w.toml", &cluster::by_name("fcs").unwrap(), 1).map_err(|error| error.to_string())
    }

    #[test]
    fn an_empty_table_has_the_default_parameters() {
        let drawn = read("name = 'synthetic'\n[generate]").unwrap();
        let mut default = Generate::default().workload("synthetic", &cluster::by_name("fcs").unwrap(), 1);
        // The workload of a file does not list groups without jobs; here all three have jobs.
        assert_eq!(drawn.groups, default.groups);
        default.jobs.iter_mut().zip(&drawn.jobs).for_each(|(job, other)| job.group = other.group);
        assert_eq!(drawn, default);
    }

    #[test]
    fn all_keys_are_read() {
        let text = "[generate]\njobs = 50\nusers = 2\nload = 0.5\nsizes = 'log-normal'\nmedian = 20\nsigma = 1\nmaps_max = 100\n\
                    arrivals = 'bursty'\nburst_factor = 5\nburst_share = 0.2\nburst_length = '1m'\n\
                    apps = { sort = 1 }\nmap_mb = 64\nmaps_per_reduce = 4\nslowstart = 1";
        let workload = read(text).unwrap();
        assert_eq!(workload.jobs.len(), 50);
        for job in &workload.jobs {
            assert!(job.name.starts_with("sort-") && job.maps <= 100 && job.map_bytes == 64 << 20);
            assert_eq!((job.reduces, job.slowstart_ppm), (job.maps.div_ceil(4), 1_000_000));
        }
    }

    #[test]
    fn errors_name_line_and_remedy() {
        for (text, line, part) in [
            ("[generate]\njobs = 0", 2, "the number of jobs is 0; write 1 or more"),
            ("[generate]\njobs = 100000000", 2, "at most 1000000 in total"),
            ("[generate]\nload = 0", 2, "load is 0; write a number from 0.001"),
            ("[generate]\nload = nan", 2, "load is NaN"),
            ("[generate]\nusers = 0", 2, "users is 0"),
            ("[generate]\nmaps_min = 10\nmaps_max = 5", 2, "maps_min is 10; write a whole number from 1 to 5"),
            ("[generate]\nmedian = 5", 2, "median has no effect here; remove it, or write sizes = \"log-normal\""),
            ("[generate]\nburst_length = '5m'", 2, "write arrivals = \"bursty\""),
            ("[generate]\nsizes = 'normal'", 2, "unknown variant `normal`"),
            ("[generate]\napps = { srot = 1 }", 2, "unknown application `srot`"),
            ("[generate]\napps = { sort = 0 }", 2, "apps.sort is 0"),
            ("\n[generate]\napps = {}", 3, "generate.apps is empty"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.starts_with(&format!("w.toml:{line}: ")) && error.contains(part), "{text:?} gave {error}");
        }
    }
}
