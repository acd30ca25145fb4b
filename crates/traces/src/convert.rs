//! Workloads as workload files (`docs/files.md`).

use giveway_core::Priority;
use giveway_sim::workload::{JobPlan, Workload};
use std::fmt::Write;

/// A megabyte in workload files.
const MB: f64 = (1u64 << 20) as f64;

/// The text of a workload file with one `[[jobs]]` table per job. `Workload::from_toml` reads the same jobs back.
pub fn workload_toml(workload: &Workload) -> String {
    let mut text = format!("name = {}\n", quoted(&workload.name));
    for job in &workload.jobs {
        // Writing to a string cannot fail.
        let _ = write_job(&mut text, job);
    }
    text
}

fn write_job(out: &mut String, job: &JobPlan) -> std::fmt::Result {
    let mb = |bytes: u64| bytes as f64 / MB;
    writeln!(
        out,
        "\n[[jobs]]\nname = {}\nuser = {}\npool = {}",
        quoted(&job.name),
        quoted(&job.user),
        quoted(&job.pool)
    )?;
    writeln!(out, "submit = {}\nmaps = {}\nmap_mb = {:?}", job.submit.as_secs_f64(), job.maps, mb(job.map_bytes))?;
    writeln!(out, "map_seconds = {:?}\nreduces = {}", job.map_compute.as_secs_f64(), job.reduces)?;
    if job.reduces > 0 {
        writeln!(out, "map_output_mb = {:?}", mb(job.map_output_bytes))?;
        writeln!(out, "reduce_seconds = {:?}", job.reduce_compute.as_secs_f64())?;
        writeln!(out, "reduce_output_mb = {:?}", mb(job.reduce_output_bytes))?;
    }
    if job.priority != Priority::Normal {
        writeln!(out, "priority = \"{}\"", job.priority)?;
    }
    writeln!(out, "slowstart = {:?}", f64::from(job.slowstart_ppm) / 1e6)
}

fn quoted(text: &str) -> String {
    toml::Value::String(text.into()).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::read_text;
    use crate::{cluster_for, workload_of};

    #[test]
    fn a_written_workload_is_read_back_the_same() {
        let (mut jobs, _) = read_text("a\"b\t3\t0\t268435457\t1048577\t9999\nb\t50.25\t0\t1000\t0\t9\n");
        jobs[0].priority = Priority::VeryLow;
        let cluster = cluster_for(&jobs);
        let workload = workload_of("x", jobs, &cluster, &mut |_| {});
        let text = workload_toml(&workload);
        let again = Workload::from_toml(&text, "w.toml", &cluster, 1).unwrap();
        assert_eq!(again.jobs.len(), 2);
        for (again, job) in again.jobs.iter().zip(&workload.jobs) {
            // The groups that no job is in are missing in a file.
            assert_eq!(JobPlan { group: 0, ..again.clone() }, JobPlan { group: 0, ..job.clone() });
        }
    }
}
