//! Explicit jobs: one `[[jobs]]` table is one job, or several equal ones.

use super::{MAX_JOBS, MAX_TASKS, MAX_TIME_S, app_by_name, job_count, megabytes, require_reduce_slots, slowstart};
use crate::cluster::Cluster;
use crate::files::{Bounds, FileError, MB, Table};
use crate::workload::JobPlan;
use crate::workload::apps::App;
use crate::workload::generate::{GROUPS, group_of};
use giveway_core::{Span, Time};

/// Adds the jobs of an entry, each with the name of its group.
pub(super) fn add(entry: &Table<'_>, cluster: &Cluster, jobs: &mut Vec<(String, JobPlan)>) -> Result<(), FileError> {
    let count = job_count(entry, "count", 1, MAX_JOBS - jobs.len() as u32)?;
    let job = job(entry, cluster)?;
    let submit_s = entry.seconds("submit", 0.0, 0.0..=MAX_TIME_S)?;
    let every_s = entry.seconds("every", 0.0, 0.0..=MAX_TIME_S)?;
    let last_s = submit_s + every_s * f64::from(count - 1);
    if last_s > MAX_TIME_S {
        let problem = format!("the last of {count} jobs would be submitted after {last_s} s");
        return Err(entry.table_error(problem, "write a smaller count, or a shorter every"));
    }
    let group: Option<String> = entry.get("group")?;
    let group = group.unwrap_or_else(|| GROUPS[usize::from(group_of(job.maps))].into());
    jobs.extend((0..count).map(|i| {
        let name = if count > 1 { format!("{}-{}", job.name, i + 1) } else { job.name.clone() };
        let submit = Time::from_secs_f64(submit_s + every_s * f64::from(i));
        (group.clone(), JobPlan { name, submit, ..job.clone() })
    }));
    Ok(())
}

/// One job of an entry: the costs of its application, with explicit keys taking precedence.
fn job(entry: &Table<'_>, cluster: &Cluster) -> Result<JobPlan, FileError> {
    let app = entry.get::<String>("app")?.map(|name| app_by_name(entry, "app", &name)).transpose()?;
    if app.is_none() && !entry.has("map_seconds") {
        let remedy = format!("add app = one of {}; or map_seconds = the compute time of one map", App::names());
        return Err(entry.table_error("the job has neither app nor map_seconds".into(), &remedy));
    }
    let maps = entry.count("maps", 1, 1..=MAX_TASKS)?;
    let reduces = entry.count("reduces", 1, 0..=MAX_TASKS)?;
    require_reduce_slots(entry, reduces, cluster)?;
    if let Some(key) = ["reduce_seconds", "reduce_output_mb"].into_iter().find(|key| reduces == 0 && entry.has(key)) {
        return Err(entry.error_at(key, format!("{key} is given, but reduces is 0"), "remove one of them"));
    }
    let map_bytes = megabytes(entry, "map_mb")?.unwrap_or(cluster.block_bytes);
    // Without an application all its costs are zero, and the explicit keys define the job.
    let no_costs = App { name: "job", map_s_per_mb: 0.0, shuffle_ratio: 0.0, reduce_s_per_mb: 0.0, output_ratio: 0.0 };
    let app = app.copied().unwrap_or(no_costs);
    let name = entry.get("name")?.unwrap_or_else(|| app.name.into());
    let mut job = app.job(name, maps, map_bytes, reduces);
    if let Some(output_bytes) = megabytes(entry, "map_output_mb")? {
        // The map output determines the input of a reduce, so the application's reduce costs are computed again.
        job.map_output_bytes = if reduces == 0 { 0 } else { output_bytes };
        let partition = job.partition_bytes() as f64;
        job.reduce_compute = Span::from_secs_f64(partition / MB as f64 * app.reduce_s_per_mb);
        job.reduce_output_bytes = (partition * app.output_ratio) as u64;
    }
    let time = |key: &str, default: Span| {
        let seconds = entry.number_if_any(key, Bounds::Closed(0.0, MAX_TIME_S))?;
        Ok(seconds.map_or(default, Span::from_secs_f64))
    };
    job.map_compute = time("map_seconds", job.map_compute)?;
    job.reduce_compute = time("reduce_seconds", job.reduce_compute)?;
    job.reduce_output_bytes = megabytes(entry, "reduce_output_mb")?.unwrap_or(job.reduce_output_bytes);
    job.user = entry.get("user")?.unwrap_or_else(|| "default".into());
    job.pool = entry.get("pool")?.unwrap_or_else(|| job.user.clone());
    job.priority = entry.get("priority")?.unwrap_or_default();
    job.slowstart_ppm = slowstart(entry)?;
    Ok(job)
}

#[cfg(test)]
mod tests {
    use crate::cluster::{self, Cluster};
    use crate::files::MB;
    use crate::workload::Workload;
    use giveway_core::{Priority, Span, Time};

    fn read_on(cluster: &Cluster, text: &str) -> Result<Workload, String> {
        Workload::from_toml(text, "w.toml", cluster, 1).map_err(|error| error.to_string())
    }

    fn read(text: &str) -> Result<Workload, String> {
        read_on(&cluster::by_name("fcs").unwrap(), text)
    }

    #[test]
    fn the_application_gives_the_defaults() {
        let workload = read("[[jobs]]\napp = 'wordcount'\nmaps = 10\nreduces = 2").unwrap();
        let job = &workload.jobs[0];
        assert_eq!((job.name.as_str(), job.user.as_str(), job.pool.as_str()), ("wordcount", "default", "default"));
        assert_eq!((job.map_bytes, job.slowstart_ppm, job.submit), (128 * MB, 50_000, Time::ZERO));
        assert!(job.map_compute > Span::from_secs(30) && !job.reduce_compute.is_zero());
    }

    #[test]
    fn explicit_keys_override_the_application() {
        let text = "[[jobs]]\napp='sort'\nmaps=4\nmap_mb=10\nmap_seconds=7\nmap_output_mb=50\nreduces=2\nreduce_seconds=3.5\n\
                    reduce_output_mb=1\nuser='ann'\npool='lab'\npriority='very-high'\nslowstart=0.5";
        let workload = read(text).unwrap();
        let job = &workload.jobs[0];
        assert_eq!((job.map_bytes, job.map_output_bytes, job.partition_bytes()), (10 * MB, 50 * MB, 100 * MB));
        assert_eq!((job.map_compute, job.reduce_compute), (Span::from_secs(7), Span::from_millis(3_500)));
        assert_eq!((job.user.as_str(), job.pool.as_str(), job.priority), ("ann", "lab", Priority::VeryHigh));
        assert_eq!((job.reduce_output_bytes, job.slowstart_ppm), (MB, 500_000));
    }

    #[test]
    fn repeated_jobs_are_submitted_at_intervals() {
        let text = "[[jobs]]\nname='late'\napp='grep'\nsubmit=60\n[[jobs]]\nname='b'\napp='grep'\ncount=3\nevery='40s'\nsubmit='10s'";
        let workload = read(text).unwrap();
        let submitted: Vec<(&str, f64)> =
            workload.jobs.iter().map(|job| (job.name.as_str(), job.submit.as_secs_f64())).collect();
        assert_eq!(submitted, [("b-1", 10.0), ("b-2", 50.0), ("late", 60.0), ("b-3", 90.0)]);
    }

    #[test]
    fn errors_name_line_and_remedy() {
        for (text, line, part) in [
            ("[[jobs]]\napp = 'wordcuont'", 2, "unknown application `wordcuont`; write one of combiner, grep"),
            ("[[jobs]]\nmaps = 4", 1, "neither app nor map_seconds"),
            ("[[jobs]]\napp = 'sort'\nmaps = 0", 3, "maps is 0; write a whole number from 1 to 10000000"),
            ("[[jobs]]\napp = 'sort'\nmaps = 20000000", 3, "maps is 20000000"),
            ("[[jobs]]\napp = 'sort'\nmaps = 1.5", 3, "invalid type"),
            ("[[jobs]]\napp = 'sort'\nreduces = -1", 3, "reduces is -1"),
            ("[[jobs]]\napp = 'sort'\nmap_mb = -128", 3, "map_mb is -128; write a number from 0"),
            ("[[jobs]]\napp = 'sort'\nmap_mb = nan", 3, "map_mb is NaN"),
            ("[[jobs]]\nmap_seconds = inf", 2, "map_seconds is inf"),
            ("[[jobs]]\nmap_seconds = 1\nreduces = 0\nreduce_seconds = 1", 4, "but reduces is 0"),
            ("[[jobs]]\napp = 'sort'\nsubmit = -5", 3, "submit is -5 s; write a time from 0 s"),
            ("[[jobs]]\napp = 'sort'\nsubmit = '-5s'", 3, "invalid span of time"),
            ("[[jobs]]\napp = 'sort'\ncount = 0", 3, "write 1 or more"),
            ("[[jobs]]\napp = 'sort'\ncount = 10000000", 3, "at most 1000000 in total; write a smaller number"),
            ("[[jobs]]\napp = 'sort'\ncount = 1000\nevery = '1y'", 1, "shorter every"),
            ("[[jobs]]\napp = 'sort'\npriority = 'urgent'", 3, "unknown variant `urgent`"),
            ("[[jobs]]\napp = 'sort'\nslowstart = 1.2", 3, "slowstart is 1.2; write a number from 0 to 1"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.starts_with(&format!("w.toml:{line}: ")) && error.contains(part), "{text:?} gave {error}");
        }
    }

    #[test]
    fn reduces_need_reduce_slots() {
        let cluster = Cluster::from_toml("[[nodes]]\nreduce_slots = 0", "c.toml").unwrap();
        let error = read_on(&cluster, "[[jobs]]\napp = 'sort'").unwrap_err();
        assert!(error.contains("cluster `c.toml` has no reduce slots; write reduces = 0"), "{error}");
        read_on(&cluster, "[[jobs]]\napp = 'sort'\nreduces = 0").unwrap();
    }
}
