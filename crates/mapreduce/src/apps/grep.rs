//! Grep: the lines that match a regular expression, unchanged. A map-only job with one output file per split.

use super::App;
use super::error::PlanError;
use crate::job::Plan;
use crate::record::{AppError, Emit, Mapper, Record, Reducer};
use regex::bytes::Regex;

pub(super) struct Grep;

impl App for Grep {
    named!("grep", "print the lines that match a regular expression");

    fn options(&self) -> &'static [(&'static str, &'static str)] {
        &[("pattern", "regular expression; begin it with (?i) to ignore case")]
    }

    fn prepare(&self, plan: &mut Plan) -> Result<(), AppError> {
        plan.reduces = 0;
        Ok(())
    }

    fn mapper(&self, plan: &Plan) -> Result<Box<dyn Mapper>, AppError> {
        let Some(pattern) = plan.request.options.get("pattern") else {
            return Err(PlanError::MissingPattern.into());
        };
        let regex = Regex::new(pattern).map_err(|error| PlanError::BadPattern { pattern: pattern.clone(), error })?;
        Ok(Box::new(GrepMapper(regex)))
    }

    fn reducer(&self, _plan: &Plan) -> Result<Option<Box<dyn Reducer>>, AppError> {
        Ok(None)
    }
}

struct GrepMapper(Regex);

impl Mapper for GrepMapper {
    fn map(&mut self, record: Record<'_>, out: &mut dyn Emit) -> Result<(), AppError> {
        if self.0.is_match(record.line) {
            out.emit(record.line, b"");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::apps::tests::{check, plan_error};

    #[test]
    fn matching_lines_are_written_unchanged() {
        let files = [("a", "error: x\nfine\n\terror\t\n"), ("b", "Error")];
        check("grep", &[("pattern", "^\\s*error")], &files, "error: x\n\terror\t\n");
        check("grep", &[("pattern", "(?i)ERROR$")], &files, "Error\n");
    }

    #[test]
    fn a_bad_pattern_is_refused_before_anything_runs() {
        assert!(plan_error("grep", &[], "x").starts_with("grep needs a pattern;"));
        assert!(plan_error("grep", &[("pattern", "a(")], "x").starts_with("grep: invalid pattern=a(: "));
        assert_eq!(plan_error("grep", &[("patern", "a")], "x"), "grep has no option `patern`; it has pattern");
    }
}
