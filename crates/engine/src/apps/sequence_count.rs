//! SequenceCount: how often each sequence of three words occurs in each document. A sequence does not go over a line's end, so that it
//! does not matter where a file is cut.

use super::documents::Documents;
use super::{App, Sum, words};
use crate::input::Stored;
use crate::job::Plan;
use crate::record::{Combine, Emit, Failure, Mapper, Record, Reducer, varint};

pub(super) struct SequenceCount;

impl App for SequenceCount {
    fn name(&self) -> &'static str {
        "sequencecount"
    }

    fn about(&self) -> &'static str {
        "how often each three consecutive words of a line occur in each document (file)"
    }

    fn prepare(&self, plan: &mut Plan, _stored: &dyn Stored) -> Result<(), Failure> {
        Documents::prepare(plan);
        Ok(())
    }

    fn mapper(&self, plan: &Plan) -> Result<Box<dyn Mapper>, Failure> {
        Ok(Box::new(Sequences { documents: Documents::of(plan), key: Vec::new() }))
    }

    fn reducer(&self, _plan: &Plan) -> Result<Option<Box<dyn Reducer>>, Failure> {
        Ok(Some(Box::new(Sum)))
    }

    fn combine(&self, _plan: &Plan) -> Combine {
        Combine::Sum
    }
}

struct Sequences {
    documents: Documents,
    key: Vec<u8>,
}

impl Mapper for Sequences {
    fn map(&mut self, record: Record<'_>, out: &mut dyn Emit) -> Result<(), Failure> {
        let document = self.documents.name(record.file);
        let mut before: [&[u8]; 2] = [b"", b""];
        words(record.line, |word| {
            let [first, second] = before;
            before = [second, word];
            // Words are never empty: an empty one stands for none.
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
    fn sequences_are_counted_by_document_and_end_with_their_line() {
        let files = [("x", "a b  c a b c\nb c\n"), ("y", "\ta b c\na b\n")];
        check("sequencecount", &[], &files, "a b c\tx\t2\na b c\ty\t1\nb c a\tx\t1\nc a b\tx\t1\n");
    }
}
