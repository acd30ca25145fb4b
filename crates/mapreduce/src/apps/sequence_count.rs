//! SequenceCount: how often each sequence of three words occurs in each document. A sequence does not cross the end of a line, so that the
//! result does not depend on the splits.

use super::documents::Documents;
use super::{App, Sum, words};
use crate::job::Plan;
use crate::record::{AppError, Combine, Emit, Mapper, Record, Reducer, varint};

pub(super) struct SequenceCount;

impl App for SequenceCount {
    named!("sequencecount", "count three consecutive words of a line in each document (file)");

    fn prepare(&self, plan: &mut Plan) -> Result<(), AppError> {
        Documents::prepare(plan);
        Ok(())
    }

    fn mapper(&self, plan: &Plan) -> Result<Box<dyn Mapper>, AppError> {
        Ok(Box::new(SequenceMapper { documents: Documents::new(plan), key: Vec::new() }))
    }

    fn reducer(&self, _plan: &Plan) -> Result<Option<Box<dyn Reducer>>, AppError> {
        Ok(Some(Box::new(Sum)))
    }

    fn combine(&self, _plan: &Plan) -> Combine {
        Combine::Sum
    }
}

struct SequenceMapper {
    documents: Documents,
    key: Vec<u8>,
}

impl Mapper for SequenceMapper {
    fn map(&mut self, record: Record<'_>, out: &mut dyn Emit) -> Result<(), AppError> {
        let document = self.documents.name(record.file);
        let mut before: [&[u8]; 2] = [b"", b""];
        words(record.line, |word| {
            let [first, second] = before;
            before = [second, word];
            // An empty word stands for none: words are never empty.
            if !first.is_empty() {
                self.key.clear();
                for (part, end) in [(first, b' '), (second, b' '), (word, b'\t')] {
                    self.key.extend_from_slice(part);
                    self.key.push(end);
                }
                self.key.extend_from_slice(document);
                varint::with_encoded(1, |one| out.emit(&self.key, one));
            }
        });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::apps::tests::check;

    #[test]
    fn sequences_are_counted_by_document_within_lines() {
        let files = [("x", "a b  c a b c\nb c\n"), ("y", "\ta b c\na b\n")];
        check("sequencecount", &[], &files, "a b c\tx\t2\na b c\ty\t1\nb c a\tx\t1\nc a b\tx\t1\n");
    }
}
