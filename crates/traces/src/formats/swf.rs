//! SWF, the Standard Workload Format of the Parallel Workloads Archive: 18 fields separated by blanks, `;` begins a comment, -1 is unknown. A
//! job of N processors becomes N maps that take its run time.

use super::Reading;
use crate::tally::us_from_s;
use crate::{JobOutcome, Oddity, TaskTime, Tasks, TraceJob};
use giveway_core::Span;

/// What a comment begins with.
pub(crate) const COMMENT: char = ';';

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

pub(crate) fn read(line: &str, reading: &mut Reading) -> Option<Option<TraceJob>> {
    fields(line).map(|fields| job(&fields, reading))
}

fn job(fields: &[f64; 18], reading: &mut Reading) -> Option<TraceJob> {
    let [number, submit_s, wait_s, run_s, used, _, _, asked, _, _, status, user, _, _, queue, ..] = *fields;
    let id = format!("{number}");
    let Some(submit_us) = us_from_s(submit_s).filter(|&us| us >= 0) else {
        reading.odd(Oddity::MissingSubmit, &id);
        return None;
    };
    if run_s < 0.0 {
        reading.odd(Oddity::NoWork, &id);
        return None;
    }
    let processors = if used > 0.0 { used } else { asked };
    let count = processors.clamp(0.0, f64::from(crate::job::MAX_TASKS)) as u32;
    let maps = Tasks { count, time: TaskTime::Recorded(Span::from_secs_f64(run_s)), ..Tasks::default() };
    let named = |what: &str, number: f64| (number >= 0.0).then(|| format!("{what}-{number}"));
    let job = reading.counted_job(&id, submit_us, (maps, Tasks::default()));
    Some(TraceJob {
        finish_us: if wait_s >= 0.0 { us_from_s(submit_s + wait_s + run_s) } else { None },
        outcome: match status as i64 {
            1 => JobOutcome::Succeeded,
            0 => JobOutcome::Failed,
            5 => JobOutcome::Killed,
            _ => JobOutcome::Unknown,
        },
        ..job.of(named("user", user), named("queue", queue))
    })
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
