//! InvertedIndex: for each word, the documents in which it occurs.

use super::documents::Documents;
use super::{App, emit_words};
use crate::job::Plan;
use crate::record::{AppError, Combine, Combiner, Emit, Mapper, Record, Reducer, Values};

pub(super) struct InvertedIndex;

impl App for InvertedIndex {
    named!("invertedindex", "list for each word the documents (files) in which it occurs, sorted");

    fn prepare(&self, plan: &mut Plan) -> Result<(), AppError> {
        Documents::prepare(plan);
        Ok(())
    }

    fn mapper(&self, plan: &Plan) -> Result<Box<dyn Mapper>, AppError> {
        Ok(Box::new(IndexMapper(Documents::new(plan))))
    }

    fn reducer(&self, _plan: &Plan) -> Result<Option<Box<dyn Reducer>>, AppError> {
        Ok(Some(Box::new(IndexReducer::default())))
    }

    fn combine(&self, _plan: &Plan) -> Combine {
        Combine::With(Box::new(DistinctCombiner))
    }
}

struct IndexMapper(Documents);

impl Mapper for IndexMapper {
    fn map(&mut self, record: Record<'_>, out: &mut dyn Emit) -> Result<(), AppError> {
        let document = self.0.name(record.file);
        emit_words(record.line, document, out);
        Ok(())
    }
}

/// Calls `take` with each distinct value. Values are sorted, so equal ones are adjacent.
pub(super) fn distinct(values: &mut dyn Values, mut take: impl FnMut(&[u8])) {
    let mut last: Option<Vec<u8>> = None;
    while let Some(value) = values.next() {
        if last.as_deref() != Some(value) {
            take(value);
            let last = last.get_or_insert_default();
            last.clear();
            last.extend_from_slice(value);
        }
    }
}

/// Combines equal values into one.
pub(super) struct DistinctCombiner;

impl Combiner for DistinctCombiner {
    fn combine(&mut self, _key: &[u8], values: &mut dyn Values, out: &mut dyn FnMut(&[u8])) {
        distinct(values, out);
    }
}

#[derive(Default)]
struct IndexReducer {
    list: Vec<u8>,
}

impl Reducer for IndexReducer {
    fn reduce(&mut self, key: &[u8], values: &mut dyn Values, out: &mut dyn Emit) -> Result<(), AppError> {
        self.list.clear();
        distinct(values, |document| {
            if !self.list.is_empty() {
                self.list.push(b' ');
            }
            self.list.extend_from_slice(document);
        });
        out.emit(key, &self.list);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::apps::tests::check;

    #[test]
    fn words_have_their_documents() {
        let files = [("b", "rose is a rose\n"), ("a", "a rose\na\n"), ("c", "")];
        check("invertedindex", &[], &files, "a\ta b\nis\tb\nrose\ta b\n");
    }
}
