//! SelfJoin: from associations of k items to candidates of k + 1 items, the step of the Apriori algorithm that is a PUMA benchmark.
//!
//! Two lines that are equal in all items but the last are joined. The items of a line must be sorted, as in Apriori.

use super::App;
use super::inverted_index::{DistinctCombiner, distinct};
use crate::job::Plan;
use crate::record::{AppError, Combine, Emit, Mapper, Record, Reducer, Values};

pub(super) struct SelfJoin;

impl App for SelfJoin {
    named!("selfjoin", "join lines of items (separated by commas or blanks) that are equal in all items but the last");

    fn mapper(&self, _plan: &Plan) -> Result<Box<dyn Mapper>, AppError> {
        Ok(Box::new(PrefixMapper::default()))
    }

    fn reducer(&self, _plan: &Plan) -> Result<Option<Box<dyn Reducer>>, AppError> {
        Ok(Some(Box::new(PairReducer::default())))
    }

    fn combine(&self, _plan: &Plan) -> Combine {
        Combine::With(Box::new(DistinctCombiner))
    }
}

#[derive(Default)]
struct PrefixMapper {
    prefix: Vec<u8>,
}

impl Mapper for PrefixMapper {
    fn map(&mut self, record: Record<'_>, out: &mut dyn Emit) -> Result<(), AppError> {
        let mut items = record.line.split(|byte| *byte == b',' || *byte <= b' ').filter(|item| !item.is_empty());
        let Some(mut last) = items.next() else { return Ok(()) };
        self.prefix.clear();
        for item in items {
            self.prefix.extend_from_slice(last);
            self.prefix.push(b',');
            last = item;
        }
        out.emit(&self.prefix, last);
        Ok(())
    }
}

#[derive(Default)]
struct PairReducer {
    joined: Vec<u8>,
}

impl Reducer for PairReducer {
    fn reduce(&mut self, key: &[u8], values: &mut dyn Values, out: &mut dyn Emit) -> Result<(), AppError> {
        // The items before the current one, each of which is joined with it.
        let mut smaller: Vec<Vec<u8>> = Vec::new();
        distinct(values, |item| {
            for other in &smaller {
                self.joined.clear();
                for part in [key, other, b",", item] {
                    self.joined.extend_from_slice(part);
                }
                out.emit(&self.joined, b"");
            }
            smaller.push(item.to_vec());
        });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::apps::tests::check;

    #[test]
    fn lines_with_equal_prefixes_are_joined() {
        let files = [("x", "a,b,d\na b c\n\na,c,d\n"), ("y", "a, b, c\na,b,e\n")];
        check("selfjoin", &[], &files, "a,b,c,d\na,b,c,e\na,b,d,e\n");
        check("selfjoin", &[], &[("x", "b\na\n")], "a,b\n");
    }
}
