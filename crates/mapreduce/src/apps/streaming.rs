//! Streaming: any executable as a mapper or a reducer, like Hadoop Streaming.
//!
//! Commands are run by `sh -c`. The mapper reads the lines of the input and prints lines of a key, a tab and a value; a line without a tab is a key
//! with an empty value. The reducer reads `key TAB value` lines in order and prints lines, which are written to the output unchanged. Without a
//! reducer the mapper's lines are written to the output unchanged.
//!
//! A program is started at its first record and ends after its last. A map that ends early and a reduce that pauses close the program's input at a
//! record or key boundary; another process of the program continues after it. So a mapper must process each line independently, and a reducer
//! each key: its output for a key must not depend on earlier keys.

use super::App;
use super::child::{Program, RunningProgram};
use super::error::PlanError;
use crate::job::Plan;
use crate::record::{AppError, Emit, Mapper, Record, Reducer, Values};
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Mapper output gathered for one run of the combiner, in bytes.
const COMBINE_BYTES: usize = 32 << 20;

/// Environment variable with the input file of a mapper, named as in Hadoop.
const INPUT_FILE_VARIABLE: &str = "mapreduce_map_input_file";

/// The application `streaming`.
#[derive(Clone, Copy, Debug)]
pub struct Streaming;

impl App for Streaming {
    named!("streaming", "run any executable as mapper and reducer, like Hadoop Streaming");

    fn options(&self) -> &'static [(&'static str, &'static str)] {
        &[
            ("mapper", "command that reads lines and prints key TAB value lines"),
            ("reducer", "command that reads key TAB value lines in order and prints lines; omit it for a map-only job"),
            ("combiner", "command that reduces the mapper's output: reads and prints key TAB value lines in order"),
            ("dir", "directory in which the commands run (absolute path)"),
        ]
    }

    fn split_bytes(&self) -> u64 {
        // External programs are slow, so maps are long even with small splits.
        32 << 20
    }

    fn prepare(&self, plan: &mut Plan) -> Result<(), AppError> {
        let options = &plan.request.options;
        if !options.contains_key("mapper") {
            return Err(PlanError::MissingMapper.into());
        }
        if options.contains_key("combiner") && !options.contains_key("reducer") {
            return Err(PlanError::CombinerWithoutReducer.into());
        }
        match options.get("dir").map(Path::new) {
            Some(dir) if !dir.is_absolute() || !dir.is_dir() => {
                return Err(PlanError::BadDir { dir: dir.into() }.into());
            }
            _ => {}
        }
        ["mapper", "combiner", "reducer"].into_iter().filter_map(|role| program(plan, role)).try_for_each(check_program)
    }

    fn mapper(&self, plan: &Plan) -> Result<Box<dyn Mapper>, AppError> {
        let combiner = program(plan, "combiner").map(|program| Combiner { program, records: Vec::new(), bytes: 0 });
        let output = if plan.reduces == 0 {
            MapperOutput::Lines
        } else {
            combiner.map_or(MapperOutput::Pairs, MapperOutput::Combined)
        };
        match program(plan, "mapper") {
            Some(program) => Ok(Box::new(StreamMapper { program, running: None, output })),
            None => Err(PlanError::MissingMapper.into()),
        }
    }

    fn reducer(&self, plan: &Plan) -> Result<Option<Box<dyn Reducer>>, AppError> {
        let reducer = |program| Box::new(StreamReducer { program, running: None }) as Box<dyn Reducer>;
        Ok(program(plan, "reducer").map(reducer))
    }
}

/// Fails if a command begins with the path of a program that cannot be run: each attempt of each task would fail. Other commands are known to the shell only.
fn check_program(program: Program) -> Result<(), AppError> {
    let is_plain = |character: char| character.is_ascii_alphanumeric() || "/._-+".contains(character);
    let word = program.command.split_whitespace().next().unwrap_or_default();
    let path = program.dir.unwrap_or_default().join(word);
    if !word.contains('/') || !word.chars().all(is_plain) || !path.is_absolute() {
        return Ok(());
    }
    let problem = match path.metadata() {
        Err(error) if error.kind() == ErrorKind::NotFound => "does not exist",
        Ok(file) if !file.is_file() => "is not a file",
        Ok(file) if file.permissions().mode() & 0o111 == 0 => "is not executable",
        // What cannot be seen from here may be seen where the job runs.
        _ => return Ok(()),
    };
    Err(PlanError::BadProgram { role: program.role, program: path, problem }.into())
}

fn program(plan: &Plan, role: &'static str) -> Option<Program> {
    let options = &plan.request.options;
    let command = options.get(role)?.clone();
    Some(Program { role, command, dir: options.get("dir").map(Into::into) })
}

struct StreamMapper {
    program: Program,
    running: Option<RunningProgram>,
    output: MapperOutput,
}

impl Mapper for StreamMapper {
    fn map(&mut self, record: Record<'_>, out: &mut dyn Emit) -> Result<(), AppError> {
        let running = match &mut self.running {
            Some(running) => running,
            none => none.insert(self.program.start(Some((INPUT_FILE_VARIABLE, record.file)))?),
        };
        running.feed(&[record.line], &mut |line, out| self.output.take(line, out), out)?;
        self.output.combine_if_full(out)
    }

    fn finish(&mut self, out: &mut dyn Emit) -> Result<(), AppError> {
        if let Some(running) = self.running.take() {
            running.finish(&mut |line, out| self.output.take(line, out), out)?;
        }
        self.output.combine(out)
    }
}

/// How the lines of a mapper are processed.
enum MapperOutput {
    /// Lines of the job's output.
    Lines,
    Pairs,
    /// Key-value pairs that a combiner reads first.
    Combined(Combiner),
}

struct Combiner {
    program: Program,
    records: Vec<(Vec<u8>, Vec<u8>)>,
    bytes: usize,
}

impl MapperOutput {
    fn take(&mut self, line: &[u8], out: &mut dyn Emit) {
        let (key, value) = split_line(line);
        match self {
            MapperOutput::Lines => out.emit(line, b""),
            MapperOutput::Pairs => out.emit(key, value),
            MapperOutput::Combined(combiner) => {
                combiner.bytes += line.len();
                combiner.records.push((key.to_vec(), value.to_vec()));
            }
        }
    }

    fn combine_if_full(&mut self, out: &mut dyn Emit) -> Result<(), AppError> {
        match self {
            MapperOutput::Combined(combiner) if combiner.bytes >= COMBINE_BYTES => self.combine(out),
            _ => Ok(()),
        }
    }

    /// Runs the combiner over the gathered pairs. It runs here and not, as other combiners, key by key in the engine, because the output of a
    /// program does not show where that of one key ends.
    fn combine(&mut self, out: &mut dyn Emit) -> Result<(), AppError> {
        let MapperOutput::Combined(combiner) = self else { return Ok(()) };
        if combiner.records.is_empty() {
            return Ok(());
        }
        combiner.records.sort_unstable();
        let mut emit = |line: &[u8], out: &mut dyn Emit| {
            let (key, value) = split_line(line);
            out.emit(key, value);
        };
        let mut running = combiner.program.start(None)?;
        for (key, value) in combiner.records.drain(..) {
            running.feed(&[&key, b"\t", &value], &mut emit, out)?;
        }
        combiner.bytes = 0;
        Ok(running.finish(&mut emit, out)?)
    }
}

/// Key and value of a printed line.
fn split_line(line: &[u8]) -> (&[u8], &[u8]) {
    memchr::memchr(b'\t', line).map_or((line, b""), |tab| (&line[..tab], &line[tab + 1..]))
}

struct StreamReducer {
    program: Program,
    running: Option<RunningProgram>,
}

impl Reducer for StreamReducer {
    fn reduce(&mut self, key: &[u8], values: &mut dyn Values, out: &mut dyn Emit) -> Result<(), AppError> {
        let running = match &mut self.running {
            Some(running) => running,
            none => none.insert(self.program.start(None)?),
        };
        while let Some(value) = values.next() {
            running.feed(&[key, b"\t", value], &mut emit_line, out)?;
        }
        Ok(())
    }

    fn finish(&mut self, out: &mut dyn Emit) -> Result<(), AppError> {
        match self.running.take() {
            Some(running) => Ok(running.finish(&mut emit_line, out)?),
            None => Ok(()),
        }
    }
}

fn emit_line(line: &[u8], out: &mut dyn Emit) {
    out.emit(line, b"");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::apps::tests::{TestJob, check, plan_error};
    use rustix::process::Pid;
    use std::path::Path;
    use std::sync::atomic::{AtomicBool, Ordering};

    const FILES: [(&str, &str); 2] = [("a", "to be or\nnot to be\n"), ("b", "be\n")];
    const WORDS: &str = "tr -s ' ' '\\n' | awk '{print $1 \"\\t1\"}'";
    const SUMS: &str =
        "awk -F'\\t' '$1 != k {if (n) print k \"\\t\" n; k = $1; n = 0} {n += $2} END {print k \"\\t\" n}'";

    #[test]
    fn shell_commands_count_words() {
        let counts = "be\t3\nnot\t1\nor\t1\nto\t2\n";
        check("streaming", &[("mapper", WORDS), ("reducer", SUMS)], &FILES, counts);
        check("streaming", &[("mapper", WORDS), ("combiner", SUMS), ("reducer", SUMS)], &FILES, counts);
    }

    #[test]
    fn without_a_reducer_lines_are_written_unchanged() {
        check("streaming", &[("mapper", "sed 's/$/\\t/'")], &[("a", "x\n\ny z")], "x\t\n\t\ny z\t\n");
        check("streaming", &[("mapper", "cat; printf '\\377\\0end'")], &[("a", "")], "");
    }

    #[test]
    fn lines_without_a_tab_are_keys() {
        check(
            "streaming",
            &[("mapper", "cat"), ("reducer", "sed 's/\\t/|/'")],
            &[("a", "k\nj\tv\tw\n")],
            "j|v\tw\nk|\n",
        );
    }

    #[test]
    fn programs_have_their_input_file_and_directory() {
        let temp = tempfile::tempdir().unwrap();
        std::fs::write(temp.path().join("greeting"), "hello").unwrap();
        let dir = temp.path().to_str().unwrap();
        let mapper = "cat > /dev/null; cat greeting; basename $mapreduce_map_input_file";
        let output = TestJob::new("streaming", &[("mapper", mapper), ("dir", dir)], &[("the-file", "x\n")]).text();
        assert_eq!(output, "hellothe-file\n");
    }

    #[test]
    fn bad_options_are_refused_before_anything_runs() {
        assert!(plan_error("streaming", &[], "x").starts_with("streaming needs a mapper;"));
        assert!(plan_error("streaming", &[("mapper", "cat"), ("combiner", "cat")], "x").contains("no reducer"));
        assert!(plan_error("streaming", &[("mapper", "cat"), ("dir", "/no/such")], "x").contains("dir=/no/such"));
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("script.py"), "#!/bin/sh\ncat\n").unwrap();
        let dir = dir.path().to_str().unwrap();
        let refused = |command| plan_error("streaming", &[("mapper", "cat"), ("reducer", command), ("dir", dir)], "x");
        assert!(refused("./script.py -v").contains("script.py is not executable"), "{}", refused("./script.py"));
        assert!(refused("/no/such 1").starts_with("the reducer /no/such does not exist"), "{}", refused("/no/such"));
        assert!(refused("./").contains("is not a file"), "{}", refused("./"));
        // Only the shell knows what these run.
        for command in ["no-such-command", "sh ./script.py", "X=/2 cat", "\"$HOME\"/x", "{ /no/such; }"] {
            check_program(Program { role: "reducer", command: command.into(), dir: Some(dir.into()) }).unwrap();
        }
    }

    /// Counts records. Stops its task when the flag is set.
    #[derive(Default)]
    struct Counter<'a> {
        records: u64,
        bytes: usize,
        stop: Option<&'a AtomicBool>,
    }

    impl Emit for Counter<'_> {
        fn emit(&mut self, key: &[u8], value: &[u8]) {
            self.records += 1;
            self.bytes += key.len() + value.len();
        }

        fn count(&mut self, _counter: &'static str, _by: u64) {}

        fn is_stopped(&self) -> bool {
            self.stop.is_some_and(|stop| stop.load(Ordering::Relaxed))
        }
    }

    /// Runs a mapper over this many lines of 100 bytes.
    fn map(command: &str, lines: u64, out: &mut dyn Emit) -> Result<(), AppError> {
        let program = Program { role: "mapper", command: command.to_owned(), dir: None };
        let mut mapper = StreamMapper { program, running: None, output: MapperOutput::Pairs };
        for offset in 0..lines {
            mapper.map(Record { file: "f".as_ref(), offset, line: &[b'x'; 99] }, out)?;
        }
        mapper.finish(out)
    }

    /// Runs a mapper over 10 MB of lines. Returns the number of lines it printed, or its error.
    fn printed(command: &str) -> Result<u64, String> {
        let mut out = Counter::default();
        map(command, 100_000, &mut out).map_err(|error| error.to_string()).map(|()| out.records)
    }

    #[test]
    fn no_program_blocks_its_task() {
        assert_eq!(printed("cat"), Ok(100_000));
        assert_eq!(printed("yes | head -n 300000; cat"), Ok(400_000), "prints before it reads");
        assert_eq!(printed("true"), Ok(0), "reads nothing");
        assert_eq!(printed("head -n 3"), Ok(3), "reads a little");
        assert_eq!(printed("exec <&-; yes | head -n 300000"), Ok(300_000), "closes its input and goes on");
        assert_eq!(printed("sort"), Ok(100_000), "prints when it has read all");
        assert_eq!(printed("yes warning | head -n 300000 >&2; cat"), Ok(100_000), "writes a lot of error output");
        assert_eq!(printed("exec >&-; cat > /dev/null; yes warning | head -n 300000 >&2"), Ok(0), "closes its output");
        assert_eq!(printed("exec >&-; sleep 0.3; cat > /dev/null"), Ok(0), "closes its output and reads late");
    }

    #[test]
    fn errors_quote_the_error_output() {
        let failure = printed("cat > /dev/null; seq 30 >&2; exit 3").unwrap_err();
        let (first, lines) = failure.split_once('\n').unwrap();
        assert!(first.ends_with("ended with exit status 3"), "{first}");
        assert_eq!(
            lines.lines().map(|line| line.parse().unwrap()).collect::<Vec<u32>>(),
            (11..=30).collect::<Vec<u32>>()
        );
        let early = printed("echo broken >&2; exit 1").unwrap_err();
        assert!(early.ends_with("exit status 1\nbroken"), "{early}");
        let absent = printed("no-such-command-here").unwrap_err();
        assert!(absent.contains("ended with exit status 127 (check that it is installed"), "{absent}");
        assert!(absent.contains("not found"), "{absent}");
        assert!(printed("kill -9 $$").unwrap_err().contains("ended with signal 9"));
        assert!(printed("yes bla | head -c 1000000 | tr -d '\\n' >&2; exit 1").unwrap_err().len() < 10_000);
    }

    #[test]
    fn a_line_above_the_limit_is_an_error() {
        let failure = printed("yes | tr -d '\\n'").unwrap_err();
        assert!(failure.contains("printed a line of more than 67108864 bytes"), "{failure}");
    }

    /// A shell command that writes the process id of the last background command to a file, whole.
    fn write_pid(file: &Path) -> String {
        format!("echo $! > {0}.new && mv {0}.new {0}", file.display())
    }

    /// Waits for the file of [`write_pid`] and reads it.
    fn read_pid(file: &Path) -> Pid {
        loop {
            if let Ok(text) = std::fs::read_to_string(file) {
                return Pid::from_raw(text.trim().parse().unwrap()).unwrap();
            }
            std::thread::yield_now();
        }
    }

    /// Waits until a process has ended; a process that nobody has reaped yet counts as ended.
    fn wait_until_dead(pid: Pid) {
        let stat = format!("/proc/{}/stat", pid.as_raw_nonzero());
        while std::fs::read_to_string(&stat).is_ok_and(|stat| !stat.contains(") Z ")) {
            std::thread::yield_now();
        }
    }

    #[test]
    fn stopping_a_task_kills_its_program_and_its_children() {
        for lines in [100_000, 1] {
            let temp = tempfile::tempdir().unwrap();
            let child = temp.path().join("child");
            let command = format!("sleep 600 & {}; sleep 600", write_pid(&child));
            let stop = AtomicBool::new(false);
            let error = std::thread::scope(|scope| {
                scope.spawn(|| {
                    read_pid(&child);
                    stop.store(true, Ordering::Relaxed);
                });
                map(&command, lines, &mut Counter { stop: Some(&stop), ..Counter::default() }).unwrap_err()
            });
            assert!(error.to_string().contains("was killed because its task was stopped"), "{error}");
            wait_until_dead(read_pid(&child));
        }
    }

    #[test]
    fn dropping_a_mapper_kills_its_program() {
        let temp = tempfile::tempdir().unwrap();
        let child = temp.path().join("child");
        let command = format!("sleep 600 & {}; cat", write_pid(&child));
        let program = Program { role: "mapper", command, dir: None };
        let mut mapper = StreamMapper { program, running: None, output: MapperOutput::Pairs };
        mapper.map(Record { file: "f".as_ref(), offset: 0, line: b"x" }, &mut Counter::default()).unwrap();
        let pid = read_pid(&child);
        drop(mapper);
        wait_until_dead(pid);
    }

    #[test]
    fn lines_of_many_megabytes_are_supported() {
        let mut out = Counter::default();
        map("cat > /dev/null; yes | tr -d '\\n' | head -c 20000000", 1, &mut out).unwrap();
        assert_eq!((out.records, out.bytes), (1, 20_000_000));
    }
}
