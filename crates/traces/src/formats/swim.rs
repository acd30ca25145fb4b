//! SWIM: the Facebook traces of 2009 and 2010. One job per line, tab separated, without a header: id, submission (s), gap to the previous
//! submission (s), input, shuffle and output bytes, optionally an input path. Tasks and times come from the duration model.

use super::Reading;
use crate::{JobOutcome, Oddity, TraceJob};

/// The columns of a line that are used.
struct Row<'a> {
    id: &'a str,
    submit_s: f64,
    input: u64,
    shuffle: u64,
    output: u64,
}

/// Whether a line is a SWIM job.
pub(crate) fn matches(line: &str) -> bool {
    row(line).is_some()
}

fn row(line: &str) -> Option<Row<'_>> {
    let mut columns = line.split('\t').map(str::trim);
    let id = columns.next().filter(|id| !id.is_empty())?;
    let submit_s: f64 = columns.next()?.parse().ok().filter(|submit: &f64| submit.is_finite() && *submit >= 0.0)?;
    let _gap: f64 = columns.next()?.parse().ok()?;
    let mut bytes = || columns.next()?.parse().ok();
    Some(Row { id, submit_s, input: bytes()?, shuffle: bytes()?, output: bytes()? })
}

pub(crate) fn read(line: &str, reading: &mut Reading) -> Option<Option<TraceJob>> {
    let row = row(line)?;
    let tasks = reading.model.tasks_from_bytes(row.input, row.shuffle, row.output);
    reading.odd(Oddity::TaskTimeModelled, row.id);
    let job = reading.counted_job(row.id, (row.submit_s * 1e6) as i64, tasks);
    Some(Some(TraceJob { outcome: JobOutcome::Succeeded, ..job }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::read_text;
    use giveway_core::Span;

    #[test]
    fn jobs_have_tasks_of_the_model() {
        let text = "job0\t49\t49\t740773\t2339561\t627471\njob1\t101\t52\t268435456\t0\t9\tinputPath1\t\t\n";
        let (jobs, diagnostics) = read_text(text);
        assert_eq!((jobs[0].maps.count, jobs[0].reduces.count, jobs[0].submit_us), (1, 1, 49_000_000));
        assert_eq!((jobs[1].maps.count, jobs[1].reduces.count), (2, 0));
        assert!(jobs[1].maps.time.span() > Span::from_secs(70));
        assert_eq!(diagnostics.of(Oddity::TaskTimeModelled), 2);
    }

    #[test]
    fn a_number_of_tasks_at_its_limit_is_reported() {
        let (jobs, diagnostics) = read_text(&format!("a\t1\t1\t{}\t0\t0\n", u64::MAX));
        assert_eq!((jobs[0].maps.count, diagnostics.of(Oddity::LargestTaskCount)), (10_000_000, 1));
    }

    #[test]
    fn odd_lines_are_counted() {
        let text = "a\t1\t1\t5\t5\t5\nb\t2\t1\t-5\t5\t5\nc\n\na\t1\t0\t5\t5\t5\nd\t1e999\t1\t1\t1\t1\ne\t9\t1\t5\t5";
        let (jobs, diagnostics) = read_text(text);
        assert_eq!(jobs.len(), 2);
        assert_eq!((diagnostics.of(Oddity::BadLine), diagnostics.of(Oddity::RepeatedId)), (4, 1));
    }
}
