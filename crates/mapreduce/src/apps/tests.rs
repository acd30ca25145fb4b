//! Test support for applications: they are compared with expected outputs, and with the reference implementation under disruptions.
//!
//! [`run_disrupted`] does to a job what a cluster may do: it ends maps early, pauses reduces at any key, and combines at random. The output must be that
//! of the reference in any case.

use super::{App, Apps, plan};
use crate::input::LineReader;
use crate::job::{InputSplit, Plan, Request};
use crate::record::{AppError, Combine, Emit, varint};
use crate::reference::{Parts, Records, SliceValues, run, run_rounds};
use giveway_core::{JobId, Priority};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use std::sync::Arc;

/// A job over small files.
pub(crate) struct TestJob {
    app: Arc<dyn App>,
    request: Request,
    _dir: tempfile::TempDir,
}

impl TestJob {
    pub(crate) fn new(app: &str, options: &[(&str, &str)], files: &[(&str, &str)]) -> TestJob {
        let dir = tempfile::tempdir().unwrap();
        let input = dir.path().join("in");
        std::fs::create_dir(&input).unwrap();
        for (name, text) in files {
            std::fs::write(input.join(name), text).unwrap();
        }
        let request = Request {
            app: app.to_owned(),
            options: options.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
            input: vec![input.clone().into()],
            output: dir.path().join("out"),
            reduces: None,
            split_bytes: 8,
            memory_bytes: 1 << 20,
            name: app.to_owned(),
            user: "test".to_owned(),
            pool: "test".to_owned(),
            priority: Priority::default(),
            task_timeout_ms: 1000,
            records_per_s: None,
            compress: true,
            sync_output: false,
        };
        TestJob { app: Apps::builtin().find(app).unwrap(), request, _dir: dir }
    }

    pub(crate) fn reduces(mut self, reduces: u32) -> TestJob {
        self.request.reduces = Some(reduces);
        self
    }

    fn plan(&self) -> Result<Plan, AppError> {
        plan(self.app.as_ref(), JobId(1), self.request.clone())
    }

    /// The output files. Asserts that they are the same under disruptions.
    pub(crate) fn parts(&self) -> Parts {
        let plan = self.plan().unwrap();
        let parts = run(self.app.as_ref(), &plan).unwrap();
        for seed in 0..8 {
            let mut rng = Pcg64::seed_from_u64(seed);
            let disrupted =
                run_rounds(self.app.as_ref(), &plan, |plan| run_disrupted(self.app.as_ref(), plan, &mut rng)).unwrap();
            assert_eq!(escaped(&disrupted), escaped(&parts), "{} with seed {seed}", self.request.app);
        }
        parts
    }

    /// The concatenated output files.
    pub(crate) fn text(&self) -> String {
        self.parts().into_iter().map(|(_, bytes)| String::from_utf8(bytes).unwrap()).collect()
    }

    /// The error of a run that fails.
    pub(crate) fn run_error(&self) -> String {
        run(self.app.as_ref(), &self.plan().unwrap()).unwrap_err().to_string()
    }
}

/// Asserts the output with one reduce, and that the output with three has the same lines in any order.
pub(crate) fn check(app: &str, options: &[(&str, &str)], files: &[(&str, &str)], expected: &str) {
    assert_eq!(TestJob::new(app, options, files).text(), expected);
    let three = TestJob::new(app, options, files).reduces(3).text();
    let sorted = |text: &str| {
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort_unstable();
        lines
    };
    assert_eq!(sorted(&three), sorted(expected));
}

/// The error of a request that is refused.
pub(crate) fn plan_error(app: &str, options: &[(&str, &str)], text: &str) -> String {
    TestJob::new(app, options, &[("f", text)]).plan().unwrap_err().to_string()
}

fn escaped(parts: &Parts) -> Vec<(&str, String)> {
    parts.iter().map(|(name, bytes)| (name.as_str(), bytes.escape_ascii().to_string())).collect()
}

fn run_disrupted(app: &dyn App, plan: &Plan, rng: &mut Pcg64) -> Result<Parts, AppError> {
    let mut parts = Parts::new();
    let mut all = Records::default();
    for (split, part) in plan.splits.iter().zip(0..) {
        let mut rest = Some(*split);
        while let Some(split) = rest {
            if plan.reduces == 0 {
                rest = map_part(app, plan, split, rng, &mut all)?;
            } else {
                let mut some = Records::default();
                rest = map_part(app, plan, split, rng, &mut some)?;
                combine_randomly(app, plan, &some, rng, &mut all);
            }
        }
        if plan.reduces == 0 {
            parts.push((super::part_name(plan, part), std::mem::take(&mut all).to_output(plan)));
        }
    }
    let mut sorted: Vec<_> = all.iter().collect();
    sorted.sort();
    for part in 0..plan.reduces {
        let mut out = Records::default();
        let mut reducer = app.reducer(plan)?.unwrap();
        for group in
            sorted.chunk_by(|a, b| a.0 == b.0).filter(|group| plan.partitioning.of(group[0].0, plan.reduces) == part)
        {
            reducer.reduce(group[0].0, &mut SliceValues(group.iter()), &mut out)?;
            if rng.random_ratio(1, 3) {
                reducer.finish(&mut out)?;
                reducer = app.reducer(plan)?.unwrap();
            }
        }
        reducer.finish(&mut out)?;
        parts.push((super::part_name(plan, part), out.to_output(plan)));
    }
    Ok(parts)
}

/// Maps a split or the first part of it. Returns the rest.
fn map_part(
    app: &dyn App,
    plan: &Plan,
    split: InputSplit,
    rng: &mut Pcg64,
    out: &mut Records,
) -> Result<Option<InputSplit>, AppError> {
    let mut reader = LineReader::open(&plan.files[split.file as usize], split)?;
    let mut mapper = app.mapper(plan)?;
    let mut rest = None;
    while let Some(record) = reader.next()? {
        mapper.map(record, out)?;
        if rng.random_ratio(1, 4) {
            let end = split.offset + split.bytes;
            let offset = reader.position().unwrap();
            rest = (offset < end).then_some(InputSplit { file: split.file, offset, bytes: end.saturating_sub(offset) });
            break;
        }
    }
    mapper.finish(out)?;
    Ok(rest)
}

/// Combines random groups of a key's values.
fn combine_randomly(app: &dyn App, plan: &Plan, records: &Records, rng: &mut Pcg64, out: &mut Records) {
    let mut sorted: Vec<_> = records.iter().collect();
    sorted.sort();
    for group in sorted.chunk_by(|a, b| a.0 == b.0) {
        for some in group.chunks(rng.random_range(1..5)) {
            let key = some[0].0;
            match app.combine(plan) {
                Combine::With(mut combiner) if rng.random() => {
                    combiner.combine(key, &mut SliceValues(some.iter()), &mut |value| out.emit(key, value));
                }
                Combine::Sum if rng.random() => {
                    let sum = some.iter().map(|(_, value)| varint::decode(value).unwrap()).sum();
                    varint::with_encoded(sum, |value| out.emit(key, value));
                }
                _ => some.iter().for_each(|(key, value)| out.emit(key, value)),
            }
        }
    }
}

#[test]
fn unknown_applications_and_options_are_refused() {
    assert!(
        Apps::builtin()
            .find("wordcont")
            .err()
            .unwrap()
            .to_string()
            .starts_with("unknown application `wordcont`; did you mean `wordcount`? choose one of grep, ")
    );
    assert_eq!(plan_error("sort", &[("k", "1")], "x"), "sort has no option `k` and takes none; leave it out");
    let none = TestJob::new("sort", &[], &[("f", "x")]).reduces(0).plan().unwrap_err().to_string();
    assert!(none.starts_with("sort needs at least one reduce;"), "{none}");
}

#[test]
fn part_names_contain_the_task_kind() {
    let names = |app, options: &[(&str, &str)]| -> Vec<String> {
        TestJob::new(app, options, &[("f", "0123456789\n")])
            .reduces(2)
            .parts()
            .into_iter()
            .map(|(name, _)| name)
            .collect()
    };
    assert_eq!(names("sort", &[]), ["part-r-00000", "part-r-00001"]);
    assert_eq!(names("grep", &[("pattern", "0")]), ["part-m-00000", "part-m-00001"]);
}
