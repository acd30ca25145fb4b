//! TeraSort: records of 100 bytes, sorted by their first ten, in ranges that were sampled beforehand.

use super::App;
use super::sort::{AsTheyCome, into_ranges};
use crate::input::Stored;
use crate::job::{OutputFormat, Plan};
use crate::record::{Emit, Failure, Mapper, Record, Reducer};

/// How long a key is; a shorter line is all key.
const KEY_BYTES: usize = 10;

pub(super) struct TeraSort;

impl App for TeraSort {
    fn name(&self) -> &'static str {
        "terasort"
    }

    fn about(&self) -> &'static str {
        "all lines in order of their first ten bytes, then of the rest"
    }

    fn prepare(&self, plan: &mut Plan, stored: &dyn Stored) -> Result<(), Failure> {
        plan.format = OutputFormat::Concatenated;
        into_ranges(plan, stored, |line| divided(line).0)
    }

    fn mapper(&self, _plan: &Plan) -> Result<Box<dyn Mapper>, Failure> {
        Ok(Box::new(Divided))
    }

    fn reducer(&self, _plan: &Plan) -> Result<Option<Box<dyn Reducer>>, Failure> {
        Ok(Some(Box::new(AsTheyCome)))
    }
}

fn divided(line: &[u8]) -> (&[u8], &[u8]) {
    line.split_at(KEY_BYTES.min(line.len()))
}

struct Divided;

impl Mapper for Divided {
    fn map(&mut self, record: Record<'_>, out: &mut dyn Emit) -> Result<(), Failure> {
        let (key, value) = divided(record.line);
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
