//! The applications of this program.

use giveway_mapreduce::apps::{App, Apps};
use giveway_mapreduce::job::Plan;
use giveway_mapreduce::record::{AppError, Emit, Mapper, Record, Reducer, Values};
use giveway_mapreduce::task_log;
use std::path::PathBuf;
use std::time::Duration;

/// The built-in applications and two more.
pub fn own_apps() -> Apps {
    Apps::builtin().with(Lengths).with(Environment)
}

/// Counts the lines of each length.
struct Lengths;

impl App for Lengths {
    fn name(&self) -> &'static str {
        "lengths"
    }

    fn about(&self) -> &'static str {
        "count lines by length"
    }

    fn options(&self) -> &'static [(&'static str, &'static str)] {
        &[("panic-unless", "file that is created before a panic"), ("ignore-stop", "sleep in the mapper")]
    }

    fn mapper(&self, plan: &Plan) -> Result<Box<dyn Mapper>, AppError> {
        let options = &plan.request.options;
        Ok(Box::new(LengthMapper {
            panic_unless: options.get("panic-unless").map(PathBuf::from),
            ignore_stop: options.contains_key("ignore-stop"),
        }))
    }

    fn reducer(&self, _plan: &Plan) -> Result<Option<Box<dyn Reducer>>, AppError> {
        Ok(Some(Box::new(Count)))
    }
}

struct LengthMapper {
    panic_unless: Option<PathBuf>,
    ignore_stop: bool,
}

impl Mapper for LengthMapper {
    fn map(&mut self, record: Record<'_>, out: &mut dyn Emit) -> Result<(), AppError> {
        if let Some(file) = &self.panic_unless
            && !file.exists()
        {
            std::fs::write(file, "")?;
            panic!("as asked");
        }
        if self.ignore_stop {
            std::thread::sleep(Duration::from_secs(3600));
        }
        out.count("lines", 1);
        out.emit(record.line.len().to_string().as_bytes(), b"");
        Ok(())
    }
}

struct Count;

impl Reducer for Count {
    fn reduce(&mut self, key: &[u8], values: &mut dyn Values, out: &mut dyn Emit) -> Result<(), AppError> {
        let mut count = 0_u64;
        while values.next().is_some() {
            count += 1;
        }
        out.emit(key, count.to_string().as_bytes());
        Ok(())
    }
}

/// Writes its environment, and prints.
struct Environment;

impl App for Environment {
    fn name(&self) -> &'static str {
        "environment"
    }

    fn about(&self) -> &'static str {
        "write the environment of its process"
    }

    fn mapper(&self, _plan: &Plan) -> Result<Box<dyn Mapper>, AppError> {
        Ok(Box::new(Environment))
    }

    fn reducer(&self, _plan: &Plan) -> Result<Option<Box<dyn Reducer>>, AppError> {
        Ok(None)
    }
}

impl Mapper for Environment {
    fn map(&mut self, _record: Record<'_>, out: &mut dyn Emit) -> Result<(), AppError> {
        print!("printed with println");
        eprintln!("printed with eprintln");
        task_log::print("printed with task_log");
        for (name, value) in std::env::vars_os() {
            out.emit(format!("{}={}", name.display(), value.display()).as_bytes(), b"");
        }
        Ok(())
    }
}
