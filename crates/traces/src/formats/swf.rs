//! SWF, the Standard Workload Format of the Parallel Workloads Archive: 18 fields separated by blanks, `;` begins a comment, -1 is unknown. A
//! job of N processors becomes N maps that take its run time.

use super::JobReader;
use crate::records::Lines;
use crate::tally::us_from_s;
use crate::{Count, Diagnostics, DurationModel, JobOutcome, Oddity, TaskTime, Tasks, TraceJob};
use giveway_core::{Priority, Span};

/// Reader of an SWF file.
pub(crate) struct SwfReader {
    lines: Lines,
    model: DurationModel,
}

impl SwfReader {
    pub(crate) fn new(lines: Lines, model: DurationModel) -> SwfReader {
        SwfReader { lines, model }
    }

    fn job(&self, fields: &[f64; 18], diagnostics: &mut Diagnostics) -> Option<TraceJob> {
        let [number, submit_s, wait_s, run_s, used, _, _, asked, _, _, status, user, _, _, queue, ..] = *fields;
        let id = format!("{number}");
        let Some(submit_us) = us_from_s(submit_s).filter(|&us| us >= 0) else {
            diagnostics.odd(Oddity::MissingSubmit, &id);
            return None;
        };
        if run_s < 0.0 {
            diagnostics.odd(Oddity::NoWork, &id);
            return None;
        }
        let processors = if used > 0.0 { used } else { asked };
        let count = processors.clamp(0.0, f64::from(crate::job::MAX_TASKS)) as u32;
        diagnostics.add(Count::Maps, u64::from(count));
        let named = |what: &str, number: f64| {
            if number >= 0.0 { format!("{what}-{number}") } else { "default".into() }
        };
        let user = named("user", user);
        let finish_us = if wait_s >= 0.0 { us_from_s(submit_s + wait_s + run_s) } else { None };
        Some(TraceJob {
            name: id.clone(),
            id,
            pool: if queue >= 0.0 { named("queue", queue) } else { user.clone() },
            user,
            priority: Priority::Normal,
            submit_us,
            finish_us,
            outcome: match status as i64 {
                1 => JobOutcome::Succeeded,
                0 => JobOutcome::Failed,
                5 => JobOutcome::Killed,
                _ => JobOutcome::Unknown,
            },
            maps: Tasks { count, time: TaskTime::Recorded(Span::from_secs_f64(run_s)), ..Tasks::default() },
            reduces: Tasks::default(),
            slowstart_ppm: self.model.slowstart_ppm(),
        })
    }
}

/// Whether a line is an SWF job.
pub(crate) fn matches(line: &str) -> bool {
    fields(line).is_some()
}

fn fields(line: &str) -> Option<[f64; 18]> {
    let mut fields = [-1.0; 18];
    let mut words = line.split_ascii_whitespace();
    for field in &mut fields {
        *field = words.next()?.parse().ok().filter(|number: &f64| number.is_finite())?;
    }
    words.next().is_none().then_some(fields)
}

impl JobReader for SwfReader {
    fn next_job(&mut self, diagnostics: &mut Diagnostics) -> Option<TraceJob> {
        loop {
            let (number, line) = self.lines.next(diagnostics)?;
            let line = line.trim();
            if line.is_empty() || line.starts_with(';') {
                continue;
            }
            diagnostics.add(Count::Rows, 1);
            let Some(fields) = fields(line) else {
                diagnostics.odd(Oddity::BadLine, format_args!("line {number}"));
                continue;
            };
            if let Some(job) = self.job(&fields, diagnostics) {
                return Some(job);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::read_text;

    #[test]
    fn processors_become_maps() {
        let text = "; Version: 2.2\n;\n\
            1 10 5 100 4 -1 -1 4 200 -1 1 3 1 -1 -1 1 -1 -1\n\
            2 20 5 -1 4 -1 -1 4 200 -1 -1 3 1 -1 -1 1 -1 -1\n\
            3 20 5 1.5 -1 552.2 -1 8 200 -1 5 3 1 -1 2 1 -1 -1\n\
            4 20 5\n5 x\n";
        let (jobs, diagnostics) = read_text(text);
        assert_eq!(jobs.len(), 2);
        assert_eq!((jobs[0].maps.count, jobs[0].maps.total_s(), jobs[0].finish_us), (4, 400.0, Some(115_000_000)));
        assert_eq!((jobs[1].maps.count, jobs[1].pool.as_str(), jobs[1].outcome), (8, "queue-2", JobOutcome::Killed));
        assert_eq!((diagnostics.of(Oddity::NoWork), diagnostics.of(Oddity::BadLine)), (1, 2));
    }
}
