//! Sort: all lines in byte order. The concatenation of the output parts is sorted.

use super::App;
use crate::input;
use crate::job::{Partitioning, Plan};
use crate::record::{AppError, Emit, Mapper, Record, Reducer, Values};

pub(super) struct Sort;

impl App for Sort {
    named!("sort", "sort lines in byte order; the concatenated output parts are sorted, too");

    fn prepare(&self, plan: &mut Plan) -> Result<(), AppError> {
        partition_by_range(plan, |line| line)
    }

    fn mapper(&self, _plan: &Plan) -> Result<Box<dyn Mapper>, AppError> {
        Ok(Box::new(SortMapper))
    }

    fn reducer(&self, _plan: &Plan) -> Result<Option<Box<dyn Reducer>>, AppError> {
        Ok(Some(Box::new(IdentityReducer)))
    }
}

/// Sets a range partition of about equal parts, computed from a sample of the input.
pub(super) fn partition_by_range(plan: &mut Plan, key: fn(&[u8]) -> &[u8]) -> Result<(), AppError> {
    let mut keys = Vec::new();
    if plan.reduces > 1 {
        input::sample_lines(plan, |line| keys.push(key(line).to_vec()))?;
    }
    plan.partitioning = Partitioning::Ranges(input::cut_points(keys, plan.reduces));
    Ok(())
}

struct SortMapper;

impl Mapper for SortMapper {
    fn map(&mut self, record: Record<'_>, out: &mut dyn Emit) -> Result<(), AppError> {
        out.emit(record.line, b"");
        Ok(())
    }
}

/// Emits records unchanged. They arrive in the order of key and value.
pub(super) struct IdentityReducer;

impl Reducer for IdentityReducer {
    fn reduce(&mut self, key: &[u8], values: &mut dyn Values, out: &mut dyn Emit) -> Result<(), AppError> {
        while let Some(value) = values.next() {
            out.emit(key, value);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::apps::tests::{TestJob, check};

    #[test]
    fn lines_are_sorted_and_duplicates_retained() {
        check("sort", &[], &[("a", "pear\nfig\n\nfig"), ("b", "apple\tred\n")], "\napple\tred\nfig\nfig\npear\n");
    }

    #[test]
    fn parts_are_ranges_of_about_equal_size() {
        let lines: String = (0..10_000_u32).map(|n| format!("{:05}\n", n.wrapping_mul(7_919) % 10_000)).collect();
        let parts = TestJob::new("sort", &[], &[("a", &lines)]).reduces(4).parts();
        assert_eq!(parts.len(), 4);
        for (name, bytes) in &parts {
            assert!((12_000..18_000).contains(&bytes.len()), "{name} has {} bytes", bytes.len());
        }
        let all: Vec<u8> = parts.into_iter().flat_map(|(_, bytes)| bytes).collect();
        assert_eq!(all, (0..10_000).map(|n| format!("{n:05}\n")).collect::<String>().as_bytes());
    }
}
