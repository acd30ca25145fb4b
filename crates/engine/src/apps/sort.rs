//! Sort: all lines in order of their bytes, over all parts together.

use super::App;
use crate::input::{self, Stored};
use crate::job::{Partitioning, Plan};
use crate::record::{Emit, Failure, Mapper, Record, Reducer, Values};

pub(super) struct Sort;

impl App for Sort {
    fn name(&self) -> &'static str {
        "sort"
    }

    fn about(&self) -> &'static str {
        "all lines in order; the parts one after the other are sorted too"
    }

    fn prepare(&self, plan: &mut Plan, stored: &dyn Stored) -> Result<(), Failure> {
        into_ranges(plan, stored, |line| line)
    }

    fn mapper(&self, _plan: &Plan) -> Result<Box<dyn Mapper>, Failure> {
        Ok(Box::new(Lines))
    }

    fn reducer(&self, _plan: &Plan) -> Result<Option<Box<dyn Reducer>>, Failure> {
        Ok(Some(Box::new(AsTheyCome)))
    }
}

/// Gives each reduce a range of keys, by a sample of the input.
pub(super) fn into_ranges(plan: &mut Plan, stored: &dyn Stored, key: fn(&[u8]) -> &[u8]) -> Result<(), Failure> {
    let mut keys = Vec::new();
    if plan.reduces > 1 {
        input::sample(plan, stored, |line| keys.push(key(line).to_vec()))?;
    }
    plan.partitioning = Partitioning::Ranges(input::cuts(keys, plan.reduces));
    Ok(())
}

struct Lines;

impl Mapper for Lines {
    fn map(&mut self, record: Record<'_>, out: &mut dyn Emit) -> Result<(), Failure> {
        out.emit(record.line, b"");
        Ok(())
    }
}

/// Writes records in the order they arrive in, which is the order of the sort.
pub(super) struct AsTheyCome;

impl Reducer for AsTheyCome {
    fn reduce(&mut self, key: &[u8], values: &mut dyn Values, out: &mut dyn Emit) -> Result<(), Failure> {
        while let Some(value) = values.next() {
            out.emit(key, value);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::apps::tests::{Try, check};

    #[test]
    fn lines_come_out_in_order_and_as_often_as_they_went_in() {
        check("sort", &[], &[("a", "pear\nfig\n\nfig"), ("b", "apple\tred\n")], "\napple\tred\nfig\nfig\npear\n");
    }

    #[test]
    fn parts_are_ranges_of_about_the_same_size() {
        let lines: String = (0..10_000_u32).map(|n| format!("{:05}\n", n.wrapping_mul(7_919) % 10_000)).collect();
        let parts = Try::new("sort", &[], &[("a", &lines)]).reduces(4).parts();
        assert_eq!(parts.len(), 4);
        for (name, bytes) in &parts {
            assert!((12_000..18_000).contains(&bytes.len()), "{name} has {} bytes", bytes.len());
        }
        let all: Vec<u8> = parts.into_iter().flat_map(|(_, bytes)| bytes).collect();
        assert_eq!(all, (0..10_000).map(|n| format!("{n:05}\n")).collect::<String>().as_bytes());
    }
}
