//! Grep: the lines that match, as they are. A job of maps alone: each split's matches are an output file.

use super::App;
use crate::input::Stored;
use crate::job::Plan;
use crate::record::{Emit, Failure, Mapper, Record, Reducer};
use regex::bytes::Regex;

pub(super) struct Grep;

impl App for Grep {
    fn name(&self) -> &'static str {
        "grep"
    }

    fn about(&self) -> &'static str {
        "the lines that match a regular expression"
    }

    fn options(&self) -> &'static [(&'static str, &'static str)] {
        &[("pattern", "the regular expression; (?i) in front ignores case")]
    }

    fn prepare(&self, plan: &mut Plan, _stored: &dyn Stored) -> Result<(), Failure> {
        plan.reduces = 0;
        Ok(())
    }

    fn mapper(&self, plan: &Plan) -> Result<Box<dyn Mapper>, Failure> {
        let Some(pattern) = plan.request.options.get("pattern") else {
            return Err(Failure("grep needs a pattern; give it one with pattern=REGEX".to_owned()));
        };
        let regex = Regex::new(pattern).map_err(|error| {
            Failure(format!("grep cannot read pattern={pattern}: {error}; quote special characters with \\"))
        })?;
        Ok(Box::new(Matches(regex)))
    }

    fn reducer(&self, _plan: &Plan) -> Result<Option<Box<dyn Reducer>>, Failure> {
        Ok(None)
    }
}

struct Matches(Regex);

impl Mapper for Matches {
    fn map(&mut self, record: Record<'_>, out: &mut dyn Emit) -> Result<(), Failure> {
        if self.0.is_match(record.line) {
            out.emit(record.line, b"");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::apps::tests::{check, refused};

    #[test]
    fn matching_lines_go_out_as_they_are() {
        let files = [("a", "error: x\nfine\n\terror\t\n"), ("b", "Error")];
        check("grep", &[("pattern", "^\\s*error")], &files, "error: x\n\terror\t\n");
        check("grep", &[("pattern", "(?i)ERROR$")], &files, "Error\n");
    }

    #[test]
    fn a_bad_pattern_is_refused_before_anything_runs() {
        assert!(refused("grep", &[], "x").starts_with("grep needs a pattern;"));
        assert!(refused("grep", &[("pattern", "a(")], "x").starts_with("grep cannot read pattern=a(: "));
        assert_eq!(refused("grep", &[("patern", "a")], "x"), "grep has no option `patern`; it has pattern");
    }
}
