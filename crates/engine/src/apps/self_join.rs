//! SelfJoin: from associations of k items to candidates of k + 1, the step of the Apriori algorithm that PUMA took for a benchmark.
//!
//! Two lines that agree in all items but the last are joined. Items within a line are taken to be in order, as Apriori keeps them.

use super::App;
use super::inverted_index::{Distinct, distinct};
use crate::job::Plan;
use crate::record::{Combine, Emit, Failure, Mapper, Record, Reducer, Values};

pub(super) struct SelfJoin;

impl App for SelfJoin {
    fn name(&self) -> &'static str {
        "selfjoin"
    }

    fn about(&self) -> &'static str {
        "joins lines of items (separated by commas or blanks) that agree in all but the last"
    }

    fn mapper(&self, _plan: &Plan) -> Result<Box<dyn Mapper>, Failure> {
        Ok(Box::new(AllButLast::default()))
    }

    fn reducer(&self, _plan: &Plan) -> Result<Option<Box<dyn Reducer>>, Failure> {
        Ok(Some(Box::new(Pairs::default())))
    }

    fn combine(&self, _plan: &Plan) -> Combine {
        Combine::With(Box::new(Distinct))
    }
}

#[derive(Default)]
struct AllButLast {
    prefix: Vec<u8>,
}

impl Mapper for AllButLast {
    fn map(&mut self, record: Record<'_>, out: &mut dyn Emit) -> Result<(), Failure> {
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
struct Pairs {
    joined: Vec<u8>,
}

impl Reducer for Pairs {
    fn reduce(&mut self, key: &[u8], values: &mut dyn Values, out: &mut dyn Emit) -> Result<(), Failure> {
        // The items before the one at hand; every one of them is its partner.
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
    fn lines_that_share_all_but_the_last_are_joined() {
        let files = [("x", "a,b,d\na b c\n\na,c,d\n"), ("y", "a, b, c\na,b,e\n")];
        check("selfjoin", &[], &files, "a,b,c,d\na,b,c,e\na,b,d,e\n");
        check("selfjoin", &[], &[("x", "b\na\n")], "a,b\n");
    }
}
