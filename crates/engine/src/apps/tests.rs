//! How applications are tested: against outputs worked out by hand, and against themselves, shaken.
//!
//! [`shaken`] does to a job what a cluster may do: it ends maps early, pauses reduces at any key, combines now and then. Whatever it does, the
//! output must be that of the reference.

use super::{App, Apps, plan};
use crate::input::{LineReader, LocalOnly};
use crate::job::{InputSplit, Plan, Request};
use crate::record::{Combine, Emit, Failure, varint};
use crate::reference::{SliceValues, Parts, Records, run_rounds, run};
use giveway_core::{JobId, Priority};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use std::sync::Arc;

/// An application over small files.
pub(crate) struct Try {
    app: Arc<dyn App>,
    request: Request,
    _folder: tempfile::TempDir,
}

impl Try {
    pub(crate) fn new(app: &str, options: &[(&str, &str)], files: &[(&str, &str)]) -> Try {
        let folder = tempfile::tempdir().unwrap();
        let input = folder.path().join("in");
        std::fs::create_dir(&input).unwrap();
        for (name, text) in files {
            std::fs::write(input.join(name), text).unwrap();
        }
        let request = Request {
            app: app.to_owned(),
            options: options.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
            input: vec![input.to_str().unwrap().to_owned()],
            output: folder.path().join("out"),
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
        };
        Try { app: Apps::builtin().find(app).unwrap(), request, _folder: folder }
    }

    pub(crate) fn reduces(mut self, reduces: u32) -> Try {
        self.request.reduces = Some(reduces);
        self
    }

    fn plan(&self) -> Result<Plan, Failure> {
        plan(self.app.as_ref(), JobId(1), self.request.clone(), &LocalOnly)
    }

    /// The output files, the same whatever happens on the way.
    pub(crate) fn parts(&self) -> Parts {
        let plan = self.plan().unwrap();
        let parts = run(self.app.as_ref(), &plan, &LocalOnly).unwrap();
        for seed in 0..8 {
            let mut rng = Pcg64::seed_from_u64(seed);
            let other = run_rounds(self.app.as_ref(), &plan, |plan| shaken(self.app.as_ref(), plan, &mut rng)).unwrap();
            assert_eq!(shown(&other), shown(&parts), "{} shaken with seed {seed}", self.request.app);
        }
        parts
    }

    /// The output files one after the other.
    pub(crate) fn text(&self) -> String {
        self.parts().into_iter().map(|(_, bytes)| String::from_utf8(bytes).unwrap()).collect()
    }

    /// Why a run fails.
    pub(crate) fn failure(&self) -> String {
        run(self.app.as_ref(), &self.plan().unwrap(), &LocalOnly).unwrap_err().0
    }
}

/// The output with one reduce is this; with three it is these lines in some order.
pub(crate) fn check(app: &str, options: &[(&str, &str)], files: &[(&str, &str)], expected: &str) {
    assert_eq!(Try::new(app, options, files).text(), expected);
    let three = Try::new(app, options, files).reduces(3).text();
    let sorted = |text: &str| {
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort_unstable();
        lines
    };
    assert_eq!(sorted(&three), sorted(expected));
}

/// Why a request comes to nothing.
pub(crate) fn refused(app: &str, options: &[(&str, &str)], text: &str) -> String {
    Try::new(app, options, &[("f", text)]).plan().unwrap_err().0
}

fn shown(parts: &Parts) -> Vec<(&str, String)> {
    parts.iter().map(|(name, bytes)| (name.as_str(), bytes.escape_ascii().to_string())).collect()
}

fn shaken(app: &dyn App, plan: &Plan, rng: &mut Pcg64) -> Result<Parts, Failure> {
    let mut parts = Parts::new();
    let mut all = Records::default();
    for (split, part) in plan.splits.iter().zip(0..) {
        let mut rest = Some(*split);
        while let Some(piece) = rest {
            if plan.reduces == 0 {
                rest = map_some(app, plan, piece, rng, &mut all)?;
            } else {
                let mut some = Records::default();
                rest = map_some(app, plan, piece, rng, &mut some)?;
                combine_some(app, plan, &some, rng, &mut all);
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

/// Maps a piece, perhaps not to its end; gives the rest.
fn map_some(
    app: &dyn App,
    plan: &Plan,
    piece: InputSplit,
    rng: &mut Pcg64,
    out: &mut Records,
) -> Result<Option<InputSplit>, Failure> {
    let mut reader = LineReader::open(&plan.files[piece.file as usize], piece, &LocalOnly)?;
    let mut mapper = app.mapper(plan)?;
    let mut rest = None;
    while let Some(record) = reader.next()? {
        mapper.map(record, out)?;
        if rng.random_ratio(1, 4) {
            let end = piece.offset + piece.bytes;
            let offset = reader.position().unwrap();
            rest = (offset < end).then_some(InputSplit { file: piece.file, offset, bytes: end.saturating_sub(offset) });
            break;
        }
    }
    mapper.finish(out)?;
    Ok(rest)
}

/// Combines some of the values of some of the keys.
fn combine_some(app: &dyn App, plan: &Plan, records: &Records, rng: &mut Pcg64, out: &mut Records) {
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
fn unknown_applications_and_needless_options_are_named() {
    assert!(
        Apps::builtin()
            .find("wordcont")
            .err()
            .unwrap()
            .0
            .starts_with("there is no application `wordcont`; there are grep, ")
    );
    assert_eq!(refused("sort", &[("k", "1")], "x"), "sort has no option `k`, nor any other; leave it out");
    let none = Try::new("sort", &[], &[("f", "x")]).reduces(0).plan().unwrap_err().0;
    assert!(none.starts_with("sort cannot do without reduces;"), "{none}");
}

#[test]
fn parts_have_names_by_their_kind() {
    let names = |app, options: &[(&str, &str)]| -> Vec<String> {
        Try::new(app, options, &[("f", "0123456789\n")]).reduces(2).parts().into_iter().map(|(name, _)| name).collect()
    };
    assert_eq!(names("sort", &[]), ["part-r-00000", "part-r-00001"]);
    assert_eq!(names("grep", &[("pattern", "0")]), ["part-m-00000", "part-m-00001"]);
}
