//! The word count of every MapReduce tutorial, written as an application of one's own: the same output as the built-in `wordcount`.
//!
//! It shows the two ways to combine. With `--option combiner=sum`, the values are numbers that the engine sums. With `combiner=own`, the default, they
//! are anything a [`Combiner`] of the application understands; here they are numbers, too, so that the two can be compared.
//!
//! [`emit_words`] finds the words of a line many bytes at a time, which is much faster than a search byte by byte.

use giveway_mapreduce::apps::{App, emit_words};
use giveway_mapreduce::job::Plan;
use giveway_mapreduce::record::{AppError, Combine, Combiner, Emit, Mapper, Record, Reducer, Values, varint};

/// The application `countwords`. It is its own mapper, combiner and reducer.
#[derive(Clone, Copy, Debug)]
pub struct CountWords;

impl App for CountWords {
    fn name(&self) -> &'static str {
        "countwords"
    }

    fn about(&self) -> &'static str {
        "count how often each word occurs, with a combiner of this crate"
    }

    fn options(&self) -> &'static [(&'static str, &'static str)] {
        &[("combiner", "own: this crate's combiner (default); sum: the engine's")]
    }

    fn split_bytes(&self) -> u64 {
        // One count per word however long the split is, so larger splits mean less data for the reduces.
        128 << 20
    }

    fn mapper(&self, plan: &Plan) -> Result<Box<dyn Mapper>, AppError> {
        match plan.request.options.get("combiner").map(String::as_str) {
            None | Some("own" | "sum") => Ok(Box::new(CountWords)),
            Some(other) => Err(format!("unknown combiner `{other}`; use `own` or `sum`").into()),
        }
    }

    fn reducer(&self, _plan: &Plan) -> Result<Option<Box<dyn Reducer>>, AppError> {
        Ok(Some(Box::new(CountWords)))
    }

    fn combine(&self, plan: &Plan) -> Combine {
        match plan.request.options.get("combiner").map(String::as_str) {
            Some("sum") => Combine::Sum,
            _ => Combine::With(Box::new(CountWords)),
        }
    }
}

impl Mapper for CountWords {
    fn map(&mut self, record: Record<'_>, out: &mut dyn Emit) -> Result<(), AppError> {
        varint::with_encoded(1, |one| emit_words(record.line, one, out));
        Ok(())
    }
}

impl Combiner for CountWords {
    fn combine(&mut self, _key: &[u8], values: &mut dyn Values, out: &mut dyn FnMut(&[u8])) {
        varint::with_encoded(sum(values), out);
    }
}

impl Reducer for CountWords {
    fn reduce(&mut self, key: &[u8], values: &mut dyn Values, out: &mut dyn Emit) -> Result<(), AppError> {
        out.emit(key, sum(values).to_string().as_bytes());
        Ok(())
    }
}

fn sum(values: &mut dyn Values) -> u64 {
    let mut sum = 0_u64;
    while let Some(value) = values.next() {
        sum = sum.saturating_add(varint::decode(value).expect("the mapper emits numbers"));
    }
    sum
}
