//! WordCount: how often each word occurs. `words.rs` defines words.

use super::{App, Sum, words};
use crate::job::Plan;
use crate::record::{AppError, Combine, Emit, Mapper, Record, Reducer, varint};

pub(super) struct WordCount;

impl App for WordCount {
    fn name(&self) -> &'static str {
        "wordcount"
    }

    fn about(&self) -> &'static str {
        "count how often each word occurs"
    }

    fn mapper(&self, _plan: &Plan) -> Result<Box<dyn Mapper>, AppError> {
        Ok(Box::new(WordMapper))
    }

    fn reducer(&self, _plan: &Plan) -> Result<Option<Box<dyn Reducer>>, AppError> {
        Ok(Some(Box::new(Sum)))
    }

    fn combine(&self, _plan: &Plan) -> Combine {
        Combine::Sum
    }
}

struct WordMapper;

impl Mapper for WordMapper {
    fn map(&mut self, record: Record<'_>, out: &mut dyn Emit) -> Result<(), AppError> {
        varint::with_encoded(1, |one| words(record.line, |word| out.emit(word, one)));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::apps::tests::check;

    #[test]
    fn words_are_counted_over_all_files() {
        check("wordcount", &[], &[("a", "to be or\nnot to be\n"), ("b", "be")], "be\t3\nnot\t1\nor\t1\nto\t2\n");
        check("wordcount", &[], &[("a", "")], "");
    }

    #[test]
    fn control_bytes_belong_to_words() {
        check("wordcount", &[], &[("a", "a\0b a\x0bb\ta\0b\x0ca\0b")], "a\0b\t3\na\x0bb\t1\n");
    }
}
