//! WordCount: how often each word occurs. `words.rs` defines words.

use super::error::PlanError;
use super::{App, Sum, emit_words};
use crate::job::Plan;
use crate::record::{AppError, Combine, Combiner, Emit, Mapper, Record, Reducer, Values, varint};

pub(super) struct WordCount;

impl App for WordCount {
    named!("wordcount", "count how often each word occurs");

    fn options(&self) -> &'static [(&'static str, &'static str)] {
        &[(
            "combiner",
            "builtin: the engine's sum (default); custom: the interface for an application's own combiner, slower",
        )]
    }

    fn split_bytes(&self) -> u64 {
        // One sum per word however long the split is, so larger splits mean less data for the reduces.
        128 << 20
    }

    fn mapper(&self, plan: &Plan) -> Result<Box<dyn Mapper>, AppError> {
        match combiner(plan) {
            "builtin" | "custom" => Ok(Box::new(WordMapper)),
            other => Err(PlanError::UnknownCombiner { name: other.to_owned() }.into()),
        }
    }

    fn reducer(&self, _plan: &Plan) -> Result<Option<Box<dyn Reducer>>, AppError> {
        Ok(Some(Box::new(Sum)))
    }

    fn combine(&self, plan: &Plan) -> Combine {
        match combiner(plan) {
            "custom" => Combine::With(Box::new(AddingCombiner)),
            _ => Combine::Sum,
        }
    }
}

fn combiner(plan: &Plan) -> &str {
    plan.request.options.get("combiner").map_or("builtin", String::as_str)
}

/// Does what [`Combine::Sum`] does, through the interface for combiners of applications. `giveway bench engine` compares the two.
struct AddingCombiner;

impl Combiner for AddingCombiner {
    fn combine(&mut self, _key: &[u8], values: &mut dyn Values, out: &mut dyn FnMut(&[u8])) {
        let mut sum = 0_u64;
        while let Some(value) = values.next() {
            sum = sum.saturating_add(varint::decode(value).expect("the mapper emits numbers"));
        }
        varint::with_encoded(sum, out);
    }
}

struct WordMapper;

impl Mapper for WordMapper {
    fn map(&mut self, record: Record<'_>, out: &mut dyn Emit) -> Result<(), AppError> {
        varint::with_encoded(1, |one| emit_words(record.line, one, out));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::apps::tests::{check, plan_error};

    #[test]
    fn words_are_counted_over_all_files() {
        check("wordcount", &[], &[("a", "to be or\nnot to be\n"), ("b", "be")], "be\t3\nnot\t1\nor\t1\nto\t2\n");
        check("wordcount", &[], &[("a", "")], "");
    }

    #[test]
    fn both_combiners_give_the_same_counts() {
        let text = "to be or not to be\n".repeat(100);
        let counts = "be\t200\nnot\t100\nor\t100\nto\t200\n";
        check("wordcount", &[("combiner", "custom")], &[("a", &text)], counts);
        check("wordcount", &[("combiner", "builtin")], &[("a", &text)], counts);
        assert!(plan_error("wordcount", &[("combiner", "max")], "x").contains("`max`"));
    }

    #[test]
    fn control_bytes_belong_to_words() {
        check("wordcount", &[], &[("a", "a\0b a\x0bb\ta\0b\x0ca\0b")], "a\0b\t3\na\x0bb\t1\n");
    }
}
