//! Arguments of the commands that start, use and inspect a cluster.

use crate::complete;
use crate::text_table::TextTable;
use anyhow::Result;
use clap::Args;
use giveway_cli_common::input::size;
use giveway_core::Priority;
use giveway_engine::attempt_logs::TaskSelector;
use serde::Serialize;
use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Selects the cluster that a command works on.
#[derive(Clone, Debug, Args)]
pub struct ClusterDir {
    /// Cluster directory: journal, token, coordinator address and worker data.
    #[arg(long, value_name = "DIR", env = "GIVEWAY_DIR", default_value_os_t = default_dir())]
    pub dir: PathBuf,
}

/// `~/.giveway`, or `.giveway` in the current directory if `HOME` is not set.
pub fn default_dir() -> PathBuf {
    std::env::var_os("HOME").map_or_else(|| PathBuf::from(".giveway"), |home| PathBuf::from(home).join(".giveway"))
}

/// Size, policy and timeouts of a cluster.
#[derive(Clone, Debug, Args)]
pub struct ClusterOptions {
    /// Number of worker processes (1-256).
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=256))]
    pub nodes: u32,
    /// Map slots per worker (1-256); default: one for each core of the machine, divided among the workers.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub map_slots: Option<u16>,
    /// Reduce slots per worker (1-256); default: half as many as map slots, rounded up.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub reduce_slots: Option<u16>,
    /// Scheduling policy: a name (see `giveway policies`) or a TOML file.
    #[arg(long, value_name = "NAME|FILE", default_value = "giveway", add = complete::policies())]
    pub policy: String,
    /// TOML file with the users and pools, their weights and min shares, and who has access; see docs/files.md.
    #[arg(long, value_name = "FILE")]
    pub tenants: Option<PathBuf>,
    /// Interval between worker heartbeats; must be less than half of --timeout.
    #[arg(long, value_name = "DURATION", default_value = "200ms", value_parser = duration)]
    pub heartbeat: Duration,
    /// Time without a heartbeat after which a worker is lost and its work is re-executed.
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = duration)]
    pub timeout: Duration,
    /// Disk space for the logs of task attempts, per worker; the oldest are removed first.
    #[arg(long, value_name = "SIZE", default_value = "256MiB", value_parser = size)]
    pub log_budget: u64,
    /// Disk space for archived journals, which `giveway history` and `replay` read; the oldest are removed first.
    #[arg(long, value_name = "SIZE", default_value = "4GiB", value_parser = size)]
    pub archive_budget: u64,
    /// Shell command to run when a job has ended; JOB_ID, JOB_NAME, JOB_APP, JOB_USER, JOB_OUTCOME and JOB_SECONDS are in its environment.
    #[arg(long, value_name = "COMMAND", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    pub on_job_end: Option<String>,
}

impl ClusterOptions {
    /// Map and reduce slots per worker.
    pub fn slots(&self) -> (u16, u16) {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        self.slots_on(u32::try_from(cores).unwrap_or(u32::MAX))
    }

    fn slots_on(&self, cores: u32) -> (u16, u16) {
        let per_worker = u16::try_from(cores.div_ceil(self.nodes.max(1))).unwrap_or(u16::MAX).clamp(1, 256);
        let maps = self.map_slots.unwrap_or(per_worker);
        (maps, self.reduce_slots.unwrap_or(maps.div_ceil(2)))
    }
}

/// `giveway up`
#[derive(Debug, Args)]
#[command(after_long_help = "\
EXAMPLES
  Start four workers with two map slots each in the default cluster directory:
      giveway up --nodes 4 --map-slots 2
  Submit a job from another terminal:
      giveway submit wordcount --input 'books/*.txt' --output counts
      giveway jobs
  Add a worker with its data on another disk:
      giveway worker --join ~/.giveway --name extra --work-dir /data/extra

The cluster directory holds the journal: workers and coordinator may be killed at any time, and submitted jobs continue after a restart.")]
pub struct Up {
    /// Where the cluster's state is stored.
    #[command(flatten)]
    pub cluster: ClusterDir,
    /// Applied at every start, policy and tenants only if no job is unfinished; `giveway reload` or SIGHUP reads their files again.
    #[command(flatten)]
    pub options: ClusterOptions,
    /// Do not restart worker processes that ended.
    #[arg(long)]
    pub no_restart: bool,
    /// Loopback address and port of the dashboard and the HTTP API; default: the port used last time in this directory, or a free one.
    #[arg(long, value_name = "ADDRESS", conflicts_with = "no_http")]
    pub http: Option<SocketAddr>,
    /// Do not serve the dashboard and the HTTP API.
    #[arg(long)]
    pub no_http: bool,
}

/// `giveway worker`
#[derive(Debug, Args)]
pub struct Worker {
    /// Directory of the cluster to join.
    #[arg(long, value_name = "DIR")]
    pub join: PathBuf,
    /// Node name; a worker that restarts under the same name is the same node.
    #[arg(long, value_name = "NAME")]
    pub name: String,
    /// Directory for the worker's own data; default: a subdirectory of the cluster directory with the node's name.
    #[arg(long, value_name = "DIR")]
    pub work_dir: Option<PathBuf>,
    /// Map slots (1-256).
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub map_slots: u16,
    /// Reduce slots (1-256).
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub reduce_slots: u16,
    /// Rack number of the node, for rack locality.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub rack: u32,
    /// Host name of the node as HDFS reports it for block locations, for node locality.
    #[arg(long, value_name = "NAME", default_value = giveway_mapreduce::hdfs::LOCALHOST)]
    pub host: String,
    /// Disk space for the logs of task attempts; the oldest are removed first.
    #[arg(long, value_name = "SIZE", default_value = "256MiB", value_parser = size)]
    pub log_budget: u64,
}

/// Application, input, output and resources of a job.
#[derive(Debug, Args)]
pub struct JobOptions {
    /// Application to run; see `giveway apps`.
    #[arg(add = complete::apps())]
    pub app: String,
    /// Input files, directories or globs, local or in HDFS (hdfs://HOST:PORT/PATH); may be repeated.
    #[arg(long, value_name = "PATH", required = true, num_args = 1..)]
    pub input: Vec<OsString>,
    /// Local output directory; must not exist.
    #[arg(long, value_name = "DIR")]
    pub output: PathBuf,
    /// Application option (see `giveway apps`); may be repeated.
    #[arg(short = 'O', long = "option", value_name = "NAME=VALUE", value_parser = name_value)]
    pub options: Vec<(String, String)>,
    /// Map command of `streaming`, run by `sh -c`.
    #[arg(long, value_name = "COMMAND")]
    pub mapper: Option<String>,
    /// Reduce command of `streaming`, run by `sh -c`.
    #[arg(long, value_name = "COMMAND")]
    pub reducer: Option<String>,
    /// Number of reduce tasks; default: one for each 128 MiB of input, 1 to 64.
    #[arg(long, value_name = "N")]
    pub reduces: Option<u32>,
    /// Split size: input bytes per map task; the last split of a file may be 10 % larger. Default: chosen by the application, the input size and the number
    /// of map slots, at most 64MiB for most applications.
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub split: Option<u64>,
    /// Buffer memory per task.
    #[arg(long, value_name = "SIZE", default_value = "256MiB", value_parser = size)]
    pub memory: u64,
    /// Job name; default: the application's name.
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// User to charge the job to; default: $USER, or the name of your account.
    #[arg(long, value_name = "NAME")]
    pub user: Option<String>,
    /// Pool (queue) to submit to; default: the user's own, named after the user.
    #[arg(long, value_name = "NAME")]
    pub pool: Option<String>,
    /// Priority: very-high, high, normal, low or very-low. It orders jobs under fifo and capacity and weighs their fair shares under fair and giveway; policies that put the shortest job first do not read it.
    #[arg(long, value_name = "LEVEL", default_value = "normal", value_parser = priority)]
    pub priority: Priority,
    /// Time without progress after which a task attempt fails.
    #[arg(long, value_name = "DURATION", default_value = "10m", value_parser = duration)]
    pub task_timeout: Duration,
    /// Maximum records per second per task; default: unlimited.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub records_per_second: Option<u64>,
    /// Compress map output where that makes it smaller; on one machine this rarely saves time.
    #[arg(long)]
    pub compress: bool,
    /// Do not wait until the output is on disk before the job succeeds. Faster, but after a power cut the output may be incomplete although it has a `_SUCCESS` file.
    #[arg(long)]
    pub no_sync: bool,
}

/// `giveway run`
#[derive(Debug, Args)]
#[command(after_long_help = "\
EXAMPLES
  giveway run wordcount --input 'books/*.txt' --output counts
  giveway run grep -O pattern='err(or|eur)' --input logs --output found
  giveway run streaming --mapper ./map.py --reducer ./reduce.py --input data --output result")]
pub struct Run {
    /// The job to run.
    #[command(flatten)]
    pub job: JobOptions,
    /// The temporary cluster it runs on.
    #[command(flatten)]
    pub options: ClusterOptions,
}

/// `giveway submit`
#[derive(Debug, Args)]
#[command(after_long_help = "\
An application of your own is submitted by its own program, which has all commands of giveway, to any running cluster:
  ./my-program submit my-application --input data --output result
The cluster stores the program (at most 1 GiB) until no job needs it, and runs the job's tasks in processes of it.")]
pub struct Submit {
    /// The cluster to submit to.
    #[command(flatten)]
    pub cluster: ClusterDir,
    /// The job to submit.
    #[command(flatten)]
    pub job: JobOptions,
    /// Wait until the job ends; exit code 1 if it fails or is killed.
    #[arg(long)]
    pub wait: bool,
    /// Program that contains the application, built with the cluster's release of Giveway; default: this program, if it has applications of its own.
    #[arg(long, value_name = "FILE")]
    pub program: Option<PathBuf>,
}

/// Selects a job of a cluster.
#[derive(Debug, Args)]
pub struct JobSelector {
    /// The cluster that has the job.
    #[command(flatten)]
    pub cluster: ClusterDir,
    /// Job number, as `giveway jobs` lists it.
    #[arg(value_name = "JOB", value_parser = job_number, add = complete::jobs())]
    pub id: u32,
}

/// `giveway kill`
#[derive(Debug, Args)]
pub struct Kill {
    /// The cluster that has the jobs.
    #[command(flatten)]
    pub cluster: ClusterDir,
    /// Job numbers, as `giveway jobs` lists them.
    #[arg(value_name = "JOB", required = true, value_parser = job_number, add = complete::jobs())]
    pub ids: Vec<u32>,
}

/// `giveway jobs`
#[derive(Debug, Args)]
pub struct Jobs {
    /// The cluster whose jobs are listed.
    #[command(flatten)]
    pub cluster: ClusterDir,
    /// Print again and again, or not.
    #[command(flatten)]
    pub watch: Watch,
    /// Which jobs.
    #[command(flatten)]
    pub filter: JobFilter,
    /// How the list is printed.
    #[command(flatten)]
    pub format: Format,
}

/// `giveway history`
#[derive(Debug, Args)]
#[command(after_long_help = "\
Reads the journals in the cluster's directory, the archived ones included, so it also works while the cluster is down.

EXAMPLES
  Jobs of one user that failed in the last day:
      giveway history --user ann --state failed --since 24h
  Everything, for a spreadsheet or a script:
      giveway history --json")]
pub struct History {
    /// The cluster whose jobs are listed.
    #[command(flatten)]
    pub cluster: ClusterDir,
    /// Which jobs.
    #[command(flatten)]
    pub filter: JobFilter,
    /// How the list is printed.
    #[command(flatten)]
    pub format: Format,
}

/// How a list is printed.
#[derive(Clone, Copy, Debug, Default, Args)]
pub struct Format {
    /// Output format; default: a table that leaves out columns for which the terminal is too narrow, or tab-separated values in a pipe.
    #[arg(short = 'o', long = "output", value_name = "FORMAT", value_enum, conflicts_with = "json")]
    pub format: Option<ListFormat>,
    /// Print JSON; the same as `-o json`.
    #[arg(long)]
    json: bool,
}

/// A value as JSON: in one line if it is printed again and again.
pub fn json(value: &impl Serialize, watch: bool) -> Result<String> {
    let text = if watch { serde_json::to_string(value)? } else { serde_json::to_string_pretty(value)? };
    Ok(text + "\n")
}

/// Formats of lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum ListFormat {
    /// JSON; see docs/api.md.
    Json,
    /// A table with every column, however narrow the terminal is.
    Wide,
    /// The number of each job, or the name of each node, in a line of its own.
    Name,
}

impl Format {
    /// The text of a list. `name` is what a row is called, `watch` whether it is printed again and again: then JSON is in one line.
    pub fn list<T: Serialize>(
        self,
        rows: &[T],
        watch: bool,
        name: impl Fn(&T) -> String,
        table: impl FnOnce() -> TextTable,
    ) -> Result<String> {
        Ok(match self.format {
            Some(ListFormat::Json) => json(&rows, watch)?,
            _ if self.json => json(&rows, watch)?,
            Some(ListFormat::Name) => rows.iter().map(|row| name(row) + "\n").collect(),
            format => format!("{}\n", table().wide(format.is_some())),
        })
    }
}

/// Selects jobs in a list.
#[derive(Clone, Debug, Default, Args)]
pub struct JobFilter {
    /// Only jobs of this user.
    #[arg(long, value_name = "NAME")]
    pub user: Option<String>,
    /// Only jobs of this pool.
    #[arg(long, value_name = "NAME")]
    pub pool: Option<String>,
    /// Only jobs in this state.
    #[arg(long, value_name = "STATE", value_parser = ["waiting", "running", "succeeded", "killed", "failed"])]
    pub state: Option<String>,
    /// Only jobs that were submitted within this time.
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub since: Option<Duration>,
}

impl JobFilter {
    /// Whether a job is one of those. When it was submitted may not be known.
    pub fn wants(&self, user: &str, pool: &str, state: &str, submitted_ms: Option<f64>) -> bool {
        let is = |wanted: &Option<String>, found: &str| wanted.as_deref().is_none_or(|wanted| found == wanted);
        let is_recent = |(since, submitted_ms): (Duration, f64)| now_ms() - submitted_ms <= since.as_secs_f64() * 1e3;
        is(&self.user, user)
            && is(&self.pool, pool)
            && is(&self.state, state)
            && self.since.zip(submitted_ms).is_none_or(is_recent)
    }
}

/// Milliseconds of the Unix epoch.
pub fn now_ms() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |now| now.as_secs_f64() * 1e3)
}

/// `giveway explain`
#[derive(Debug, Args)]
pub struct ShowJob {
    /// Which job.
    #[command(flatten)]
    pub job: JobSelector,
    /// Print JSON instead of text; see docs/api.md.
    #[arg(long)]
    pub json: bool,
}

/// `giveway job`
#[derive(Debug, Args)]
pub struct WatchJob {
    /// Which job.
    #[command(flatten)]
    pub show: ShowJob,
    /// List the attempts of its tasks too: where and when each ran, how it began and ended. Attempts from before the journal was last replaced are not listed.
    #[arg(long)]
    pub tasks: bool,
    /// Print again and again, or not.
    #[command(flatten)]
    pub watch: Watch,
}

/// Prints again and again.
#[derive(Clone, Copy, Debug, Args)]
pub struct Watch {
    /// Print again every 2 s, or every DURATION, until Ctrl-C; with --json one line each time.
    #[arg(long, value_name = "DURATION", num_args = 0..=1, require_equals = true, default_missing_value = "2s", value_parser = duration)]
    pub watch: Option<Duration>,
}

/// `giveway top`
#[derive(Debug, Args)]
pub struct Top {
    /// The cluster to show.
    #[command(flatten)]
    pub cluster: ClusterDir,
    /// How often the view is refreshed.
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = duration)]
    pub interval: Duration,
    /// Print it once, and also to a pipe or file.
    #[arg(long, conflicts_with = "interval")]
    pub once: bool,
}

/// `giveway logs`
#[derive(Debug, Args)]
#[command(after_long_help = "\
Shows the error output of streaming programs, everything that a program shipped with its job prints, what applications built into the cluster's program pass to giveway_mapreduce::task_log::print, and why attempts failed. \
The standard output of a streaming program is its result, not its log. Workers keep the logs of ended jobs within --log-budget of `giveway up`; of an attempt that prints more than 4 MiB, the first and the last part.

EXAMPLES
  Everything that job 3 has printed:
      giveway logs 3
  One task, all its attempts; the last 2000 bytes of each, and what follows until the job ends:
      giveway logs 3 map-7 --tail 2000 --follow")]
pub struct Logs {
    /// Which job.
    #[command(flatten)]
    pub job: JobSelector,
    /// Only these attempts: map-7 (a task), map-7.0 (one attempt), map or reduce.
    #[arg(value_name = "TASK")]
    pub task: Option<TaskSelector>,
    /// Only the last bytes of each attempt.
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub tail: Option<u64>,
    /// Continue until the job has ended.
    #[arg(long, short)]
    pub follow: bool,
    /// List the attempts that have printed something instead.
    #[arg(long, conflicts_with = "follow")]
    pub list: bool,
    /// Print that list as JSON; see docs/api.md.
    #[arg(long, conflicts_with = "follow")]
    pub json: bool,
}

/// `giveway nodes`
#[derive(Debug, Args)]
#[command(
    after_long_help = "\
EXAMPLES
  Take a node out of service: what runs there goes on, and nothing new starts there:
      giveway nodes drain node-3
  Have it used again, also if it is excluded because of failures:
      giveway nodes include node-3",
    args_conflicts_with_subcommands = true
)]
pub struct Nodes {
    /// Drain or include nodes instead.
    #[command(subcommand)]
    pub command: Option<NodesCommand>,
    /// The cluster whose nodes are listed.
    #[command(flatten)]
    pub cluster: ClusterDir,
    /// Print again and again, or not.
    #[command(flatten)]
    pub watch: Watch,
    /// How the list is printed.
    #[command(flatten)]
    pub format: Format,
}

/// The subcommands of `giveway nodes`.
#[derive(Debug, clap::Subcommand)]
pub enum NodesCommand {
    /// Start no new tasks on nodes; running ones go on. It lasts until the node is included, also after restarts.
    Drain(NodeNames),
    /// Use nodes again that were drained, or excluded because of failures.
    Include(NodeNames),
}

/// Selects nodes of a cluster.
#[derive(Debug, Args)]
pub struct NodeNames {
    /// The cluster that has the nodes.
    #[command(flatten)]
    pub cluster: ClusterDir,
    /// Names of nodes, as `giveway nodes` lists them.
    #[arg(value_name = "NODE", required = true, add = complete::nodes())]
    pub nodes: Vec<String>,
}

/// Parses a duration of at least one millisecond, such as `5s`, `200ms` or `10m`.
fn duration(text: &str) -> Result<Duration, String> {
    let duration = humantime::parse_duration(text).map_err(|_| "not a duration; use for example 200ms, 5s or 24h")?;
    if duration < Duration::from_millis(1) { Err("less than 1ms; use a longer duration".into()) } else { Ok(duration) }
}

fn name_value(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or_else(|| format!("missing `=` in `{text}`; use NAME=VALUE"))?;
    Ok((name.to_owned(), value.to_owned()))
}

fn job_number(text: &str) -> Result<u32, String> {
    text.parse().map_err(|_| "not a job number; `giveway jobs` lists them".to_owned())
}

fn priority(text: &str) -> Result<Priority, String> {
    text.parse().map_err(|_| format!("invalid priority `{text}`; use very-high, high, normal, low or very-low"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_follow_the_cores_unless_they_are_given() {
        let options = |args: &[&str]| {
            #[derive(clap::Parser)]
            struct Command {
                #[command(flatten)]
                options: ClusterOptions,
            }
            <Command as clap::Parser>::parse_from(std::iter::once(&"up").chain(args)).options
        };
        assert_eq!(options(&[]).slots_on(2), (1, 1));
        assert_eq!(options(&[]).slots_on(16), (8, 4));
        assert_eq!(options(&["--nodes", "4"]).slots_on(2), (1, 1), "at least one each");
        assert_eq!(options(&["--map-slots", "3"]).slots_on(16), (3, 2));
        assert_eq!(options(&["--reduce-slots", "1"]).slots_on(16), (8, 1));
    }
}
