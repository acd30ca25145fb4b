//! TeraSort: lines (records of 100 bytes in the benchmark) sorted by their first ten bytes, with range partitions from a sample of the input.

use super::App;
use super::sort::{IdentityReducer, partition_by_range};
use crate::job::{OutputFormat, Plan};
use crate::record::{AppError, Emit, Mapper, Record, Reducer};

/// Length of a key. A shorter line is a key with an empty value.
const KEY_BYTES: usize = 10;

pub(super) struct TeraSort;

impl App for TeraSort {
    named!("terasort", "sort lines by their first ten bytes, then by the rest");

    fn prepare(&self, plan: &mut Plan) -> Result<(), AppError> {
        plan.format = OutputFormat::Concatenated;
        partition_by_range(plan, |line| split_key(line).0)
    }

    fn mapper(&self, _plan: &Plan) -> Result<Box<dyn Mapper>, AppError> {
        Ok(Box::new(TeraSortMapper))
    }

    fn reducer(&self, _plan: &Plan) -> Result<Option<Box<dyn Reducer>>, AppError> {
        Ok(Some(Box::new(IdentityReducer)))
    }
}

fn split_key(line: &[u8]) -> (&[u8], &[u8]) {
    line.split_at(KEY_BYTES.min(line.len()))
}

struct TeraSortMapper;

impl Mapper for TeraSortMapper {
    fn map(&mut self, record: Record<'_>, out: &mut dyn Emit) -> Result<(), AppError> {
        let (key, value) = split_key(record.line);
        out.emit(key, value);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::apps::tests::check;

    #[test]
    fn records_are_sorted_by_key_and_written_whole() {
        let text = "bbbbbbbbbb 2\naaaaaaaaaa 9\nshort\nbbbbbbbbbb 1\n";
        check("terasort", &[], &[("a", text)], "aaaaaaaaaa 9\nbbbbbbbbbb 1\nbbbbbbbbbb 2\nshort\n");
    }
}
