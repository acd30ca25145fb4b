//! Alibaba's batch jobs of 2017 and 2018: one row per task, which is a stage of several equal instances. The names of 2018's tasks have the
//! dependencies (`R2_1` waits for task 1); those of 2017 have none, and a stage waits for the stages that ended before it started.

use super::{JobReader, JobsById, Reading};
use crate::graph::{Stage, by_layer, layers_by_time, map_reduce};
use crate::records::Lines;
use crate::tally::us_from_s;
use crate::{Count, JobOutcome, Oddity, TraceJob};

/// Columns of a table, by position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Table {
    job: usize,
    /// Name of the task in 2018; absent in 2017.
    name: Option<usize>,
    instances: usize,
    status: Option<usize>,
    start: usize,
    end: Option<usize>,
    cpu: usize,
    /// Mean time of an instance in seconds, where the table has one.
    mean_s: Option<usize>,
    /// Fewest columns of a row.
    width: usize,
}

const V2017: Table =
    Table { start: 0, end: Some(1), job: 2, name: None, instances: 4, status: Some(5), cpu: 6, mean_s: None, width: 8 };
const V2017_CLEANED: Table =
    Table { start: 1, end: None, mean_s: Some(2), cpu: 3, job: 5, name: None, instances: 7, status: None, width: 9 };
const V2018: Table = Table {
    name: Some(0),
    instances: 1,
    job: 2,
    status: Some(3),
    start: 4,
    end: Some(5),
    cpu: 6,
    mean_s: None,
    width: 8,
};
const V2018_MEANS: Table = Table { mean_s: Some(8), width: 11, ..V2018 };
/// The files as Alibaba publishes them have no header, and a column with the type of the task.
const V2018_ORIGINAL: Table = Table { status: Some(4), start: 5, end: Some(6), cpu: 7, width: 9, ..V2018 };

const STATUSES: [&str; 7] = ["Terminated", "Running", "Waiting", "Failed", "Ready", "Cancelled", "Interrupted"];

/// The table that a line belongs to: a header, or a row of a file without one.
pub(crate) fn matches(line: &str) -> Option<Table> {
    let columns: Vec<&str> = line.split(',').map(str::trim).collect();
    match columns.as_slice() {
        ["task_create_time", ..] => Some(V2017),
        ["", "submit_time", "duration", "cpu", ..] => Some(V2017_CLEANED),
        ["task_name", "instance_num", "job_name", "status", ..] if columns.contains(&"mean_instance_duration") => {
            Some(V2018_MEANS)
        }
        ["task_name", "instance_num", "job_name", "status", ..] => Some(V2018),
        [_, _, _, _, _, status, _, _] if STATUSES.contains(status) => Some(V2017),
        [_, _, _, _, status, _, _, _, _] if STATUSES.contains(status) => Some(V2018_ORIGINAL),
        _ => None,
    }
}

/// Reader of a table. The jobs are returned at the end, because the rows of a job are not contiguous.
pub(crate) struct AlibabaReader {
    lines: Lines,
    table: Table,
    jobs: JobsById<String, AlibabaJob>,
}

#[derive(Default)]
struct AlibabaJob {
    id: String,
    stages: Vec<Stage>,
    /// Start and end of each stage.
    times: Vec<(i64, i64)>,
    before_trace: bool,
    failed: bool,
    unfinished: bool,
}

impl AlibabaReader {
    pub(crate) fn new(lines: Lines, table: Table) -> AlibabaReader {
        AlibabaReader { lines, table, jobs: JobsById::default() }
    }

    fn read_rows(&mut self, reading: &mut Reading) {
        while let Some((number, line)) = self.lines.next(&mut reading.diagnostics) {
            let columns: Vec<&str> = line.split(',').map(str::trim).collect();
            let is_header = columns.contains(&"job_id") || columns.contains(&"job_name");
            if line.trim().is_empty() || is_header {
                continue;
            }
            reading.add(Count::Rows, 1);
            let Some(&id) = columns.get(self.table.job).filter(|_| columns.len() >= self.table.width) else {
                reading.odd(Oddity::BadLine, format_args!("line {number}"));
                continue;
            };
            if let Some(job) = self.jobs.job(id, reading, |_| AlibabaJob { id: id.into(), ..AlibabaJob::default() }) {
                job.row(&self.table, &columns, &format!("line {number}"), reading);
            }
        }
    }
}

impl AlibabaJob {
    fn row(&mut self, table: &Table, columns: &[&str], place: &str, reading: &mut Reading) {
        reading.add(Count::Tasks, 1);
        let column = |at: usize| columns.get(at).copied().unwrap_or_default();
        let seconds = |at: usize| column(at).parse::<f64>().ok().and_then(us_from_s);
        let instances: u64 = column(table.instances).parse().unwrap_or(0);
        reading.add(Count::Instances, instances);
        let status = table.status.map_or("Terminated", column);
        if column(table.cpu).is_empty() {
            reading.odd(Oddity::MissingCpu, place);
        }
        let mean_us = table.mean_s.and_then(seconds).filter(|&us| us >= 0);
        let start_us = seconds(table.start);
        let end_us = match table.end {
            Some(end) => seconds(end),
            None => start_us.zip(mean_us).map(|(start, mean)| start.saturating_add(mean)),
        };
        let (Some(start_us), Some(end_us)) = (start_us, end_us) else { return reading.odd(Oddity::BadLine, place) };
        let ends_before_start = end_us < start_us;
        if ends_before_start {
            reading.odd(Oddity::TaskEndsBeforeStart, place);
        }
        self.before_trace |= start_us < 0;
        let unused = match status {
            "Terminated" if ends_before_start => return,
            "Terminated" if instances == 0 => Some(Oddity::NoInstances),
            "Terminated" => (self.stages.len() >= reading.limits.tasks_per_job).then_some(Oddity::TooManyTasks),
            "Failed" | "Cancelled" | "Interrupted" => Some(Oddity::FailedTask),
            "Waiting" | "Ready" => Some(Oddity::WaitingTask),
            _ => Some(Oddity::RunningTask),
        };
        self.failed |= unused == Some(Oddity::FailedTask);
        self.unfinished |= matches!(unused, Some(Oddity::WaitingTask | Oddity::RunningTask));
        if let Some(oddity) = unused {
            return reading.odd(oddity, place);
        }
        let each_us = mean_us.unwrap_or_else(|| {
            reading.odd(Oddity::StageTime, place);
            end_us.saturating_sub(start_us)
        });
        let (number, parents) = table.name.map_or((None, Vec::new()), |at| dependencies(column(at)));
        self.stages.push(Stage {
            // Tasks without a number wait for nothing, and nothing waits for them.
            number: number.unwrap_or(u64::MAX - self.stages.len() as u64),
            parents,
            count: instances,
            time_us: u128::from(each_us.unsigned_abs()) * u128::from(instances),
            ..Stage::default()
        });
        self.times.push((start_us, end_us));
    }

    fn job(self, has_names: bool, reading: &mut Reading) -> Option<TraceJob> {
        if self.before_trace {
            reading.odd(Oddity::SubmittedBefore, &self.id);
            return None;
        }
        let Some(submit_us) = self.times.iter().map(|&(start, _)| start).min() else {
            reading.odd(Oddity::NoTasks, &self.id);
            return None;
        };
        let tasks = match has_names {
            true => map_reduce(&self.stages, reading, &self.id)?,
            false => by_layer(&self.stages, &layers_by_time(&self.times), reading, &self.id)?,
        };
        let outcome = match (self.failed, self.unfinished) {
            (true, _) => JobOutcome::Failed,
            (false, true) => JobOutcome::Unknown,
            (false, false) => JobOutcome::Succeeded,
        };
        let finish_us = self.times.iter().map(|&(_, end)| end).max();
        // A stage starts when those it waits for have ended.
        let job = reading.counted_job(&self.id, submit_us, tasks);
        Some(TraceJob { finish_us, outcome, slowstart_ppm: 1_000_000, ..job })
    }
}

/// The number of a task and of those it waits for, from a name like `R2_1`; nothing for other names.
fn dependencies(name: &str) -> (Option<u64>, Vec<u64>) {
    let numbers = name.trim_start_matches(|c: char| c.is_ascii_alphabetic());
    if numbers.len() == name.len() {
        return (None, Vec::new());
    }
    let parsed: Option<Vec<u64>> = numbers.split('_').map(|part| part.parse::<u32>().ok().map(u64::from)).collect();
    match parsed.as_deref() {
        Some([own, parents @ ..]) => (Some(*own), parents.to_vec()),
        _ => (None, Vec::new()),
    }
}

impl JobReader for AlibabaReader {
    fn next_job(&mut self, reading: &mut Reading) -> Option<TraceJob> {
        // Reads nothing once the input has ended.
        self.read_rows(reading);
        self.jobs.next_at_end(|job| job.job(self.table.name.is_some(), reading))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::{read_bytes, read_text};
    use crate::{Graphs, Options};
    use giveway_core::Span;

    #[test]
    fn names_have_the_dependencies() {
        assert_eq!(dependencies("M1"), (Some(1), vec![]));
        assert_eq!(dependencies("J5_2_4"), (Some(5), vec![2, 4]));
        for name in ["task_abc", "MergeTask", "", "M", "M1_x", "7_1"] {
            assert_eq!(dependencies(name).1, Vec::<u64>::new(), "{name}");
        }
    }

    const V2018_TEXT: &str = "task_name,instance_num,job_name,status,start_time,end_time,plan_cpu,plan_mem\n\
        R2_1,3,j_1,Terminated,110,130,100,0.5\nM1,4,j_1,Terminated,100,110,100,0.5\n\
        M1,1,j_2,Terminated,5,6,50,1\nR2_1,1,j_2,Terminated,6,7,50,1\nR3_2,1,j_2,Terminated,7,8,50,1\n\
        R3_2,0,j_3,Waiting,0,0,,\nM1,2,j_4,Running,50,0,100,0.1\ntask_x,2,j_4,Terminated,50,60,100,0.1\nx\n";

    #[test]
    fn two_layers_become_a_job_and_more_are_refused() {
        let (jobs, diagnostics) = read_text(V2018_TEXT);
        let ids: Vec<&str> = jobs.iter().map(|job| job.id.as_str()).collect();
        assert_eq!(ids, ["j_1", "j_4"]);
        assert_eq!((jobs[0].maps.count, jobs[0].reduces.count), (4, 3));
        assert_eq!((jobs[0].maps.time.span(), jobs[0].reduces.time.span()), (Span::from_secs(10), Span::from_secs(20)));
        for oddity in [
            Oddity::DeepGraph,
            Oddity::WaitingTask,
            Oddity::RunningTask,
            Oddity::TaskEndsBeforeStart,
            Oddity::NoTasks,
            Oddity::BadLine,
            Oddity::MissingCpu,
        ] {
            assert_eq!(diagnostics.of(oddity), 1, "{oddity:?}");
        }
        let mut options = Options::default();
        options.model.graphs = Graphs::Flatten;
        let (jobs, diagnostics) = read_bytes(V2018_TEXT.as_bytes(), &options);
        assert_eq!((jobs.len(), diagnostics.of(Oddity::FlattenedGraph)), (3, 1));
    }

    #[test]
    fn stages_of_2017_are_layered_by_time() {
        let (jobs, diagnostics) = read_text(
            "task_create_time, task_end_time, job_id, task_id,number_of_instances, status, cpus, mem\n\
             100,110,3,4,10,Terminated,50,0.1\n111,120,3,5,2,Terminated,50,0.1\n-5,9,4,6,1,Terminated,50,0.1\n",
        );
        assert_eq!((jobs.len(), jobs[0].maps.count, jobs[0].reduces.count), (1, 10, 2));
        assert_eq!(diagnostics.of(Oddity::SubmittedBefore), 1);
        let (jobs, _) = read_text(
            ",submit_time,duration,cpu,memory,job_id,task_id,instances_num,disk\n0,539,116.5,1.0,0.005,1,1,283,0\n",
        );
        assert_eq!((jobs[0].maps.count, jobs[0].maps.time.span()), (283, Span::from_millis(116_500)));
    }
}
