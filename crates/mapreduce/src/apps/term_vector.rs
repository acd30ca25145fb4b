//! TermVector: for each document, its most frequent words.
//!
//! A value is a word, a space and a count (see [`number`]). Words contain no space, so all values of a word are adjacent in the order of values,
//! and its counts are summed in one pass.

use super::documents::Documents;
use super::{App, words};
use crate::job::Plan;
use crate::record::{AppError, Combine, Combiner, Emit, Mapper, Record, Reducer, Values, varint};
use std::cmp::Reverse;
use std::io::Write;

pub(super) struct TermVector;

impl App for TermVector {
    named!("termvector", "list for each document (file) its most frequent words with their counts");

    fn options(&self) -> &'static [(&'static str, &'static str)] {
        &[
            ("min", "minimum count of a word in the document (default 2)"),
            ("top", "maximum number of words (default 100)"),
        ]
    }

    fn prepare(&self, plan: &mut Plan) -> Result<(), AppError> {
        Documents::prepare(plan);
        Ok(())
    }

    fn mapper(&self, plan: &Plan) -> Result<Box<dyn Mapper>, AppError> {
        Ok(Box::new(TermMapper { documents: Documents::new(plan), term: Vec::new() }))
    }

    fn reducer(&self, plan: &Plan) -> Result<Option<Box<dyn Reducer>>, AppError> {
        let top = plan.request.number("top", 100)?;
        Ok(Some(Box::new(TopTermsReducer {
            min: plan.request.number("min", 2)?,
            top: usize::try_from(top).unwrap_or(usize::MAX),
        })))
    }

    fn combine(&self, _plan: &Plan) -> Combine {
        Combine::With(Box::new(TermCombiner))
    }
}

struct TermMapper {
    documents: Documents,
    term: Vec<u8>,
}

impl Mapper for TermMapper {
    fn map(&mut self, record: Record<'_>, out: &mut dyn Emit) -> Result<(), AppError> {
        let document = self.documents.name(record.file);
        words(record.line, |word| {
            write_term(word, 1, &mut self.term);
            out.emit(document, &self.term);
        });
        Ok(())
    }
}

fn write_term(word: &[u8], count: u64, term: &mut Vec<u8>) {
    term.clear();
    term.extend_from_slice(word);
    term.push(b' ');
    varint::with_encoded(count, |number| term.extend_from_slice(number));
}

/// Calls `take` with each word and the sum of its counts.
fn sum_counts(values: &mut dyn Values, mut take: impl FnMut(&[u8], u64)) {
    let mut word = Vec::new();
    let mut count = 0_u64;
    while let Some(value) = values.next() {
        let space = memchr::memchr(b' ', value).expect("a term has a space after its word");
        let more = varint::decode(&value[space + 1..]).expect("a term ends in a number");
        if word != value[..space] {
            if count > 0 {
                take(&word, count);
            }
            word.clear();
            word.extend_from_slice(&value[..space]);
            count = 0;
        }
        count += more;
    }
    if count > 0 {
        take(&word, count);
    }
}

struct TermCombiner;

impl Combiner for TermCombiner {
    fn combine(&mut self, _key: &[u8], values: &mut dyn Values, out: &mut dyn FnMut(&[u8])) {
        let mut term = Vec::new();
        sum_counts(values, |word, count| {
            write_term(word, count, &mut term);
            out(&term);
        });
    }
}

struct TopTermsReducer {
    min: u64,
    top: usize,
}

impl Reducer for TopTermsReducer {
    fn reduce(&mut self, key: &[u8], values: &mut dyn Values, out: &mut dyn Emit) -> Result<(), AppError> {
        let mut found = Vec::new();
        sum_counts(values, |word, count| {
            if count >= self.min {
                found.push((Reverse(count), word.to_vec()));
            }
        });
        found.sort_unstable();
        found.truncate(self.top);
        let mut list = Vec::new();
        for (Reverse(count), word) in &found {
            if !list.is_empty() {
                list.push(b' ');
            }
            list.extend_from_slice(word);
            write!(list, ":{count}").expect("writing to memory succeeds");
        }
        out.emit(key, &list);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::apps::tests::{check, plan_error};

    #[test]
    fn documents_have_their_most_frequent_words() {
        let files = [("x", "b a b\nc b a\n"), ("y", "b\n"), ("z", "")];
        check("termvector", &[], &files, "x\tb:3 a:2\ny\n");
        check("termvector", &[("min", "1"), ("top", "2")], &files, "x\tb:3 a:2\ny\tb:1\n");
        check("termvector", &[("min", "1")], &files, "x\tb:3 a:2 c:1\ny\tb:1\n");
        let control = [("x", "a\0b a \0 a\0b a\0\n\0")];
        check("termvector", &[("min", "1")], &control, "x\t\0:2 a\0b:2 a:1 a\0:1\n");
        assert!(
            plan_error("termvector", &[("min", "two")], "x")
                .starts_with("option min=two of termvector is not a number;")
        );
    }
}
