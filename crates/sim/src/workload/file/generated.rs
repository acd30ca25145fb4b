//! Generated jobs: the `[generate]` table has the parameters.

use super::{MAX_POOLS, MAX_TASKS, MAX_TIME_S, app_by_name, job_count, megabytes, slowstart};
use crate::files::{Bounds, FileError, Table};
use crate::workload::apps::App;
use crate::workload::generate::{Arrivals, Generate, Sizes};
use serde::Deserialize;

#[derive(Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum SizesName {
    #[default]
    Pareto,
    LogNormal,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum ArrivalsName {
    #[default]
    Poisson,
    Bursty,
}

/// Parameters of the generated jobs, of which at most `allowed` are valid. Keys of a distribution that is not selected are refused: ignoring them
/// silently would be misleading.
pub(super) fn parameters(entry: &Table<'_>, allowed: u32) -> Result<Generate, FileError> {
    let default = Generate::default();
    let max = entry.count("maps_max", 5_000, 1..=MAX_TASKS)?;
    let sizes = match entry.get("sizes")?.unwrap_or_default() {
        SizesName::Pareto => {
            for key in ["median", "sigma"] {
                entry.refuse(key, "sizes = \"log-normal\"")?;
            }
            let min = entry.count("maps_min", max.min(5), 1..=max)?;
            Sizes::Pareto { shape: entry.number("shape", 0.9, Bounds::Closed(0.1, 100.0))?, min, max }
        }
        SizesName::LogNormal => {
            for key in ["shape", "maps_min"] {
                entry.refuse(key, "sizes = \"pareto\"")?;
            }
            let median = entry.number("median", 10.0, Bounds::Closed(1.0, f64::from(max)))?;
            Sizes::LogNormal { median, sigma: entry.number("sigma", 1.5, Bounds::Closed(0.0, 10.0))?, max }
        }
    };
    let arrivals = match entry.get("arrivals")?.unwrap_or_default() {
        ArrivalsName::Poisson => {
            for key in ["burst_factor", "burst_share", "burst_length"] {
                entry.refuse(key, "arrivals = \"bursty\"")?;
            }
            Arrivals::Poisson
        }
        ArrivalsName::Bursty => Arrivals::Bursty {
            factor: entry.number("burst_factor", 10.0, Bounds::Closed(1.0, 1e6))?,
            share: entry.number("burst_share", 0.1, Bounds::Closed(0.001, 0.999))?,
            length_s: entry.seconds("burst_length", 300.0, 1.0..=MAX_TIME_S)?,
        },
    };
    let apps = entry.table("apps", weighted_apps)?;
    if apps.as_ref().is_some_and(Vec::is_empty) {
        let remedy = "name at least one application, as in apps = { wordcount = 3, sort = 1 }, or remove apps";
        return Err(entry.error_at("apps", "generate.apps is empty".into(), remedy));
    }
    Ok(Generate {
        jobs: job_count(entry, "jobs", default.jobs.min(allowed), allowed)?,
        users: entry.count("users", default.users, 1..=MAX_POOLS as u32)?,
        load: entry.number("load", default.load, Bounds::Closed(0.001, 100.0))?,
        sizes,
        arrivals,
        apps: apps.unwrap_or(default.apps),
        map_bytes: megabytes(entry, "map_mb")?,
        maps_per_reduce: entry.number("maps_per_reduce", 8.0, Bounds::Closed(1.0, 1e7))?,
        slowstart_ppm: slowstart(entry)?,
    })
}

/// The weight of each application.
fn weighted_apps(apps: &Table<'_>) -> Result<Vec<(&'static App, f64)>, FileError> {
    let weighted = |name: String| {
        let app = app_by_name(apps, &name, &name)?;
        Ok((app, apps.number(&name, 1.0, Bounds::OpenLow(0.0, 1e6))?))
    };
    apps.names().into_iter().map(weighted).collect()
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
