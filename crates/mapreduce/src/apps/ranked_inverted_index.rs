//! RankedInvertedIndex: for each sequence of three words, the documents in which it occurs, most frequent first.
//!
//! As in PUMA, its input is the output of SequenceCount: the first round counts, the second ranks. The ranking is a secondary sort: values begin with
//! the bitwise complement of the count, so that larger counts arrive first.

use super::error::DataError;
use super::sequence_count::SequenceCount;
use super::{App, round_output};
use crate::input;
use crate::job::Plan;
use crate::record::{AppError, Combine, Emit, Mapper, Record, Reducer, Values};
use std::io::Write;

pub(super) struct RankedInvertedIndex;

impl App for RankedInvertedIndex {
    named!(
        "rankedinvertedindex",
        "list for three consecutive words of a line the documents (files) in which they occur, most frequent first"
    );

    fn prepare(&self, plan: &mut Plan) -> Result<(), AppError> {
        plan.output = round_output(plan, 0);
        SequenceCount.prepare(plan)
    }

    fn mapper(&self, plan: &Plan) -> Result<Box<dyn Mapper>, AppError> {
        if plan.round == 0 { SequenceCount.mapper(plan) } else { Ok(Box::new(RankMapper::default())) }
    }

    fn reducer(&self, plan: &Plan) -> Result<Option<Box<dyn Reducer>>, AppError> {
        if plan.round == 0 { SequenceCount.reducer(plan) } else { Ok(Some(Box::new(RankReducer::default()))) }
    }

    fn combine(&self, plan: &Plan) -> Combine {
        if plan.round == 0 { SequenceCount.combine(plan) } else { Combine::Nothing }
    }

    fn next_round(&self, plan: &Plan) -> Result<Option<Plan>, AppError> {
        if plan.output == plan.request.output {
            return Ok(None);
        }
        let files = input::find_files(&[plan.output.clone().into()])?;
        let splits = input::compute_splits(&files, plan.request.split_bytes);
        Ok(Some(Plan {
            files,
            splits,
            round: 1,
            output: plan.request.output.clone(),
            app_data: Vec::new(),
            ..plan.clone()
        }))
    }
}

/// Parses lines `sequence TAB document TAB count`.
#[derive(Default)]
struct RankMapper {
    value: Vec<u8>,
}

impl Mapper for RankMapper {
    fn map(&mut self, record: Record<'_>, out: &mut dyn Emit) -> Result<(), AppError> {
        let line = record.line;
        let parsed = || {
            let (first, last) = (memchr::memchr(b'\t', line)?, memchr::memrchr(b'\t', line)?);
            let count: u64 = std::str::from_utf8(&line[last + 1..]).ok()?.parse().ok()?;
            Some((&line[..first], line.get(first + 1..last)?, count))
        };
        let (sequence, document, count) = parsed().ok_or_else(|| DataError::NotACount {
            file: record.file.to_string_lossy().into_owned(),
            offset: record.offset,
        })?;
        self.value.clear();
        self.value.extend_from_slice(&(!count).to_be_bytes());
        self.value.extend_from_slice(document);
        out.emit(sequence, &self.value);
        Ok(())
    }
}

#[derive(Default)]
struct RankReducer {
    list: Vec<u8>,
}

impl Reducer for RankReducer {
    fn reduce(&mut self, key: &[u8], values: &mut dyn Values, out: &mut dyn Emit) -> Result<(), AppError> {
        self.list.clear();
        while let Some(value) = values.next() {
            let (complement, document) = value.split_first_chunk().expect("a value begins with a count");
            if !self.list.is_empty() {
                self.list.push(b' ');
            }
            self.list.extend_from_slice(document);
            write!(self.list, ":{}", !u64::from_be_bytes(*complement)).expect("writing to memory succeeds");
        }
        out.emit(key, &self.list);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::apps::tests::check;

    #[test]
    fn documents_are_ranked_by_count_and_then_by_name() {
        let files = [("x", "a b c\n"), ("y", "a b c a b c\n"), ("z", "a b c\n")];
        check("rankedinvertedindex", &[], &files, "a b c\ty:2 x:1 z:1\nb c a\ty:1\nc a b\ty:1\n");
        check("rankedinvertedindex", &[], &[("x", "too short")], "");
    }
}
