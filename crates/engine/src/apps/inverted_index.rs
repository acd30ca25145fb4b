//! InvertedIndex: for each word, the documents it occurs in.

use super::documents::Documents;
use super::{App, words};
use crate::input::Stored;
use crate::job::Plan;
use crate::record::{Combine, Combiner, Emit, Failure, Mapper, Record, Reducer, Values};

pub(super) struct InvertedIndex;

impl App for InvertedIndex {
    fn name(&self) -> &'static str {
        "invertedindex"
    }

    fn about(&self) -> &'static str {
        "for each word, the documents (files) it occurs in, in order"
    }

    fn prepare(&self, plan: &mut Plan, _stored: &dyn Stored) -> Result<(), Failure> {
        Documents::prepare(plan);
        Ok(())
    }

    fn mapper(&self, plan: &Plan) -> Result<Box<dyn Mapper>, Failure> {
        Ok(Box::new(Occurrences(Documents::of(plan))))
    }

    fn reducer(&self, _plan: &Plan) -> Result<Option<Box<dyn Reducer>>, Failure> {
        Ok(Some(Box::new(Lists::default())))
    }

    fn combine(&self, _plan: &Plan) -> Combine {
        Combine::With(Box::new(Distinct))
    }
}

struct Occurrences(Documents);

impl Mapper for Occurrences {
    fn map(&mut self, record: Record<'_>, out: &mut dyn Emit) -> Result<(), Failure> {
        let document = self.0.name(record.file);
        words(record.line, |word| out.emit(word, document));
        Ok(())
    }
}

/// Calls `take` with each value once. Values come in order, so equal ones are neighbours.
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

/// Keeps each value once.
pub(super) struct Distinct;

impl Combiner for Distinct {
    fn combine(&mut self, _key: &[u8], values: &mut dyn Values, out: &mut dyn FnMut(&[u8])) {
        distinct(values, out);
    }
}

#[derive(Default)]
struct Lists {
    list: Vec<u8>,
}

impl Reducer for Lists {
    fn reduce(&mut self, key: &[u8], values: &mut dyn Values, out: &mut dyn Emit) -> Result<(), Failure> {
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
    fn words_lead_to_their_documents() {
        let files = [("b", "rose is a rose\n"), ("a", "a rose\na\n"), ("c", "")];
        check("invertedindex", &[], &files, "a\ta b\nis\tb\nrose\ta b\n");
    }
}
