//! The duration model: what a trace does not record, such as the number and time of tasks where only bytes are known.

use crate::{TaskTime, Tasks, TraceError};
use giveway_core::Span;
use serde::Deserialize;

/// A megabyte in the model: 2^20 bytes, as in Hadoop.
const MB: f64 = (1u64 << 20) as f64;

/// Parameters for what a trace lacks. Every key of the TOML file has a default; `docs/traces.md` describes them and their sources.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DurationModel {
    /// Input of one map, where the trace has only bytes.
    pub block_mb: f64,
    /// A map-only job has at least one map for each this many megabytes of output; 0 for no such minimum.
    pub map_only_output_mb: f64,
    /// Compute time of a map that does not depend on its input, in seconds.
    pub map_s: f64,
    /// Input that a map processes per second, in megabytes.
    pub map_mb_s: f64,
    /// Output that a map of a map-only job produces per second, in megabytes.
    pub map_only_output_mb_s: f64,
    /// Shuffled bytes per reduce.
    pub reduce_mb: f64,
    /// Largest number of reduces of a job.
    pub reduces_max: u32,
    /// Compute time of a reduce that does not depend on its input, in seconds.
    pub reduce_s: f64,
    /// Shuffled bytes that a reduce processes per second, in megabytes.
    pub reduce_mb_s: f64,
    /// Mean time of a task, where a trace has only the total work of a job, in seconds.
    pub task_s: f64,
    /// Memory of one slot, where a trace has only memory, in megabytes.
    pub slot_mb: f64,
    /// Reduces may start once this fraction of the maps is done, where the trace does not tell.
    pub slowstart: f64,
    /// What happens to failed and killed jobs.
    pub failed_jobs: FailedJobs,
    /// What happens to jobs whose stages are not a map/reduce graph.
    pub graphs: Graphs,
}

/// What happens to failed and killed jobs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FailedJobs {
    /// They are simulated with the tasks that finished.
    #[default]
    Keep,
    /// They are left out.
    Skip,
}

/// What happens to jobs with more than two layers of stages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Graphs {
    /// They are left out.
    #[default]
    Refuse,
    /// The first layer becomes the maps, all other layers the reduces.
    Flatten,
}

impl Default for DurationModel {
    fn default() -> DurationModel {
        DurationModel {
            block_mb: 128.0,
            map_only_output_mb: 1_024.0,
            map_s: 10.0,
            map_mb_s: 2.0,
            map_only_output_mb_s: 8.0,
            reduce_mb: 1_024.0,
            reduces_max: 999,
            reduce_s: 10.0,
            reduce_mb_s: 2.0,
            task_s: 30.0,
            slot_mb: 1_024.0,
            slowstart: 0.05,
            failed_jobs: FailedJobs::Keep,
            graphs: Graphs::Refuse,
        }
    }
}

impl DurationModel {
    /// Parses the model from the text of a TOML file; `file` is used in error messages.
    pub fn from_toml(text: &str, file: &str) -> Result<DurationModel, TraceError> {
        let error = |line: usize, problem: String| TraceError::Model { file: file.into(), line, problem };
        let line_at = |at: usize| text.bytes().take(at).filter(|&byte| byte == b'\n').count() + 1;
        let model: DurationModel = toml::from_str(text).map_err(|problem| {
            let message = problem.message().split_whitespace().collect::<Vec<_>>().join(" ");
            error(line_at(problem.span().map_or(0, |span| span.start)), message)
        })?;
        match model.out_of_range() {
            None => Ok(model),
            Some((key, value, range)) => {
                let line = text.lines().position(|line| line.trim_start().starts_with(key)).map_or(1, |at| at + 1);
                Err(error(line, format!("{key} is {value}; write a number {range}")))
            }
        }
    }

    /// The first key whose value is out of range, its value and its range.
    fn out_of_range(&self) -> Option<(&'static str, f64, &'static str)> {
        let positive = [
            ("block_mb", self.block_mb),
            ("map_mb_s", self.map_mb_s),
            ("map_only_output_mb_s", self.map_only_output_mb_s),
            ("reduce_mb", self.reduce_mb),
            ("reduce_mb_s", self.reduce_mb_s),
            ("task_s", self.task_s),
            ("slot_mb", self.slot_mb),
            ("reduces_max", f64::from(self.reduces_max)),
        ];
        let at_least_zero =
            [("map_only_output_mb", self.map_only_output_mb), ("map_s", self.map_s), ("reduce_s", self.reduce_s)];
        let bad = |low: f64, high: f64| move |(_, value): &(&str, f64)| !(low..=high).contains(value);
        let slowstart = [("slowstart", self.slowstart)];
        let first = |keys: &[(&'static str, f64)], low: f64, high: f64, range: &'static str| {
            keys.iter().copied().find(bad(low, high)).map(|(key, value)| (key, value, range))
        };
        first(&positive, 1e-3, 1e9, "from 0.001 to 1e9")
            .or_else(|| first(&at_least_zero, 0.0, 1e9, "from 0 to 1e9"))
            .or_else(|| first(&slowstart, 0.0, 1.0, "from 0 to 1"))
    }

    /// Maps and reduces of a job of which only bytes are known.
    pub fn tasks_from_bytes(&self, input: u64, shuffle: u64, output: u64) -> (Tasks, Tasks) {
        let (input_mb, shuffle_mb, output_mb) = (input as f64 / MB, shuffle as f64 / MB, output as f64 / MB);
        let map_only = shuffle == 0;
        let by_input = (input_mb / self.block_mb).ceil();
        let by_output =
            if map_only && self.map_only_output_mb > 0.0 { (output_mb / self.map_only_output_mb).ceil() } else { 0.0 };
        let maps = count(by_input.max(by_output).max(1.0));
        let output_s = if map_only { output_mb / self.map_only_output_mb_s } else { 0.0 };
        let map_s = self.map_s + (input_mb / self.map_mb_s + output_s) / f64::from(maps);
        let maps = Tasks { count: maps, input_bytes: input, output_bytes: shuffle, time: modelled(map_s) };
        if map_only {
            return (Tasks { output_bytes: 0, ..maps }, Tasks::default());
        }
        let reduces = count((shuffle_mb / self.reduce_mb).ceil().clamp(1.0, f64::from(self.reduces_max)));
        let reduce_s = self.reduce_s + shuffle_mb / self.reduce_mb_s / f64::from(reduces);
        let reduces = Tasks { count: reduces, input_bytes: shuffle, output_bytes: output, time: modelled(reduce_s) };
        (maps, reduces)
    }

    /// Tasks of a job of which only the total work in slot-seconds is known.
    pub fn tasks_from_work(&self, slot_seconds: f64) -> Tasks {
        let tasks = count((slot_seconds / self.task_s).round().max(1.0));
        let time = TaskTime::Recorded(Span::from_secs_f64(slot_seconds / f64::from(tasks)));
        Tasks { count: tasks, input_bytes: 0, output_bytes: 0, time }
    }

    /// The slow start in millionths.
    pub fn slowstart_ppm(&self) -> u32 {
        (self.slowstart * 1e6).round() as u32
    }
}

fn modelled(seconds: f64) -> TaskTime {
    TaskTime::Modelled(Span::from_secs_f64(seconds))
}

/// A number of tasks; at most ten million, which is the largest that the simulator accepts.
fn count(number: f64) -> u32 {
    number.min(f64::from(crate::job::MAX_TASKS)) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_file_gives_the_defaults() {
        assert_eq!(DurationModel::from_toml("", "m.toml").unwrap(), DurationModel::default());
        let model = DurationModel::from_toml("block_mb = 64\nfailed_jobs = 'skip'", "m.toml").unwrap();
        assert_eq!((model.block_mb, model.failed_jobs), (64.0, FailedJobs::Skip));
    }

    #[test]
    fn errors_name_file_line_and_key() {
        for (text, expected) in [
            ("block_mb = 0", "m.toml:1: block_mb is 0; write a number from 0.001 to 1e9"),
            ("\nslowstart = 2", "m.toml:2: slowstart is 2; write a number from 0 to 1"),
            ("map_s = nan", "m.toml:1: map_s is NaN"),
            ("task_s = 1\nblock = 3", "m.toml:2: unknown field `block`"),
            ("task_s = ", "m.toml:1: "),
        ] {
            let error = DurationModel::from_toml(text, "m.toml").unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}");
        }
    }

    #[test]
    fn tasks_follow_from_bytes() {
        let model = DurationModel::default();
        let mb = 1u64 << 20;
        let (maps, reduces) = model.tasks_from_bytes(0, 0, 0);
        assert_eq!((maps.count, reduces.count, maps.time.span()), (1, 0, Span::from_secs(10)));
        let (maps, reduces) = model.tasks_from_bytes(256 * mb, 2_048 * mb, 7);
        assert_eq!((maps.count, reduces.count), (2, 2));
        assert_eq!((maps.time.span(), reduces.time.span()), (Span::from_secs(74), Span::from_secs(522)));
        assert_eq!((maps.output_bytes, reduces.input_bytes, reduces.output_bytes), (2_048 * mb, 2_048 * mb, 7));
        let (load, _) = model.tasks_from_bytes(1_000, 0, 4_096 * mb);
        assert_eq!((load.count, load.output_bytes), (4, 0), "a job that loads data has maps for its output");
        let huge = model.tasks_from_bytes(u64::MAX, u64::MAX, u64::MAX);
        assert_eq!((huge.0.count, huge.1.count), (10_000_000, 999));
    }

    #[test]
    fn tasks_follow_from_work() {
        let tasks = DurationModel::default().tasks_from_work(100.0);
        assert_eq!((tasks.count, tasks.total_s().round()), (3, 100.0));
        assert_eq!(DurationModel::default().tasks_from_work(0.0).count, 1);
    }
}
