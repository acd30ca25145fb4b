//! What can be typed about clusters and their jobs.

use clap::Args;
use giveway_core::Priority;
use std::path::PathBuf;
use std::time::Duration;

/// Which cluster is meant.
#[derive(Clone, Debug, Args)]
pub struct Which {
    /// The cluster's folder.
    #[arg(long, value_name = "DIR", env = "GIVEWAY_DIR", default_value_os_t = home())]
    pub dir: PathBuf,
}

/// Where a cluster lives if nobody says otherwise.
fn home() -> PathBuf {
    std::env::var_os("HOME").map_or_else(|| PathBuf::from(".giveway"), |home| PathBuf::from(home).join(".giveway"))
}

/// How large a cluster is and how it decides.
#[derive(Clone, Debug, Args)]
pub struct Shape {
    /// Worker processes.
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=256))]
    pub nodes: u32,
    /// Maps each worker runs at once.
    #[arg(long, value_name = "M", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub map_slots: u16,
    /// Reduces each worker runs at once.
    #[arg(long, value_name = "R", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub reduce_slots: u16,
    /// A policy by name (see `giveway policies`), or a policy file.
    #[arg(long, value_name = "NAME|FILE", default_value = "hsrtf-prp-pause")]
    pub policy: String,
    /// Users and pools with their rights: a TOML file as in docs/files.md.
    #[arg(long, value_name = "FILE")]
    pub tenants: Option<PathBuf>,
    /// How often workers say that they are alive.
    #[arg(long, value_name = "SPAN", default_value = "200ms", value_parser = span)]
    pub heartbeat: Duration,
    /// A worker that is silent for so long is lost, and what it had is done again.
    #[arg(long, value_name = "SPAN", default_value = "5s", value_parser = span)]
    pub timeout: Duration,
}

/// `giveway up`
#[derive(Debug, Args)]
#[command(after_long_help = "\
EXAMPLES
  Four workers with two map slots each, in the default folder:
      giveway up --nodes 4 --map-slots 2
  In another terminal:
      giveway submit wordcount --input 'books/*.txt' --output counts
      giveway jobs
  A worker by hand, in a folder of its own:
      giveway worker --join ~/.giveway --name late --folder /data/late

The folder holds the journal. Kill anything at any time and start it again: submitted jobs go on.")]
pub struct Up {
    /// The cluster.
    #[command(flatten)]
    pub which: Which,
    /// Its shape.
    #[command(flatten)]
    pub shape: Shape,
    /// Where the coordinator listens; a port of 0 takes any that is free.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:0")]
    pub listen: String,
}

/// `giveway worker`
#[derive(Debug, Args)]
pub struct Worker {
    /// The folder of the cluster to join.
    #[arg(long, value_name = "DIR")]
    pub join: PathBuf,
    /// Its name; one name is one node, through restarts.
    #[arg(long)]
    pub name: String,
    /// Its own folder; the cluster's folder and its name if left out.
    #[arg(long, value_name = "DIR")]
    pub folder: Option<PathBuf>,
    /// Maps it runs at once.
    #[arg(long, value_name = "M", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub map_slots: u16,
    /// Reduces it runs at once.
    #[arg(long, value_name = "R", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub reduce_slots: u16,
    /// The rack it stands in.
    #[arg(long, default_value_t = 0)]
    pub rack: u32,
    /// The machine it counts as standing on, by the name that HDFS has for it: it is near the blocks there.
    #[arg(long, value_name = "NAME", default_value = giveway_engine::hdfs::LOCALHOST)]
    pub host: String,
}

/// A job.
#[derive(Debug, Args)]
pub struct Job {
    /// The application; `giveway apps` lists them.
    pub app: String,
    /// Input files, folders or globs: local, in the cluster's blocks (dfs:/PATH) or in HDFS (hdfs://HOST:PORT/PATH); the option may be given again.
    #[arg(long, value_name = "PATH", required = true, num_args = 1..)]
    pub input: Vec<String>,
    /// A local folder for the output; it must not exist.
    #[arg(long, value_name = "DIR")]
    pub output: PathBuf,
    /// An option of the application, as NAME=VALUE; may be given again.
    #[arg(short = 'O', long = "option", value_name = "NAME=VALUE", value_parser = option)]
    pub options: Vec<(String, String)>,
    /// For `streaming`: the command that maps, run by `sh -c`.
    #[arg(long, value_name = "CMD")]
    pub mapper: Option<String>,
    /// For `streaming`: the command that reduces, run by `sh -c`.
    #[arg(long, value_name = "CMD")]
    pub reducer: Option<String>,
    /// How many reduces; by the size of the input if left out.
    #[arg(long, value_name = "R")]
    pub reduces: Option<u32>,
    /// Input for one map; the last piece of a file may be a tenth larger.
    #[arg(long, value_name = "SIZE", default_value = "64MiB", value_parser = size)]
    pub split: u64,
    /// Memory for the buffers of one task.
    #[arg(long, value_name = "SIZE", default_value = "256MiB", value_parser = size)]
    pub memory: u64,
    /// What to call the job; the application's name if left out.
    #[arg(long)]
    pub name: Option<String>,
    /// On whose behalf; who you are if left out.
    #[arg(long)]
    pub user: Option<String>,
    /// The pool or queue.
    #[arg(long, default_value = "default")]
    pub pool: String,
    /// How urgent within its pool: very-high, high, normal, low or very-low.
    #[arg(long, default_value = "normal", value_parser = priority)]
    pub priority: Priority,
    /// A task that does nothing for so long is given up.
    #[arg(long, value_name = "SPAN", default_value = "10m", value_parser = span)]
    pub task_timeout: Duration,
    /// Let each task take at most so many records a second: to be gentle to the machine, or to watch it work.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub records_per_second: Option<u64>,
    /// Compress what travels from maps to reduces where that saves room. On one machine it rarely saves time.
    #[arg(long)]
    pub compress: bool,
}

/// `giveway run`
#[derive(Debug, Args)]
#[command(after_long_help = "\
EXAMPLES
  giveway run wordcount --input 'books/*.txt' --output counts
  giveway run grep -O pattern='err(or|eur)' --input logs --output found
  giveway run streaming --mapper ./map.py --reducer ./reduce.py --input data --output result")]
pub struct Run {
    /// The job.
    #[command(flatten)]
    pub job: Job,
    /// The short-lived cluster it runs on.
    #[command(flatten)]
    pub shape: Shape,
}

/// `giveway submit`
#[derive(Debug, Args)]
pub struct Submit {
    /// The cluster.
    #[command(flatten)]
    pub which: Which,
    /// The job.
    #[command(flatten)]
    pub job: Job,
    /// Wait until the job is over.
    #[arg(long)]
    pub wait: bool,
}

/// A question about one job.
#[derive(Debug, Args)]
pub struct OneJob {
    /// The cluster.
    #[command(flatten)]
    pub which: Which,
    /// The job's number.
    pub id: u32,
}

/// A time span such as `5s`, `200ms` or `10m`.
fn span(text: &str) -> Result<Duration, String> {
    let span = humantime::parse_duration(text).map_err(|error| format!("{error}; write for example 5s or 200ms"))?;
    if span < Duration::from_millis(1) { Err("shorter than a millisecond".into()) } else { Ok(span) }
}

/// A size such as `64MiB`, `100MB` or `4096`.
pub fn size(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let digits = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let problem = || format!("`{text}` is no size; write for example 64MiB, 100MB or 4096");
    let number: u64 = text[..digits].parse().map_err(|_| problem())?;
    let unit = match text[digits..].trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kib" => 1 << 10,
        "m" | "mib" => 1 << 20,
        "g" | "gib" => 1 << 30,
        "kb" => 1_000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        _ => return Err(problem()),
    };
    let bytes = number.checked_mul(unit).ok_or_else(problem)?;
    if bytes == 0 { Err("a size of nothing".into()) } else { Ok(bytes) }
}

fn option(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or_else(|| format!("`{text}` has no `=`; write NAME=VALUE"))?;
    Ok((name.to_owned(), value.to_owned()))
}

fn priority(text: &str) -> Result<Priority, String> {
    let names = "very-high, high, normal, low or very-low";
    Ok(match text {
        "very-high" => Priority::VeryHigh,
        "high" => Priority::High,
        "normal" => Priority::Normal,
        "low" => Priority::Low,
        "very-low" => Priority::VeryLow,
        other => return Err(format!("`{other}` is no priority; write {names}")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_as_people_write_them() {
        assert_eq!(size("64MiB"), Ok(64 << 20));
        assert_eq!(size("100MB"), Ok(100_000_000));
        assert_eq!(size("7"), Ok(7));
        assert_eq!(size("2 g"), Ok(2 << 30));
        for wrong in ["", "MiB", "0", "-1", "1.5GiB", "99999999999GiB", "5 apples"] {
            assert!(size(wrong).is_err(), "{wrong}");
        }
    }
}
