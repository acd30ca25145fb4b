//! Streaming: any executable as a mapper or a reducer, in the manner of Hadoop Streaming.
//!
//! Commands are run by `sh -c`. The mapper gets the lines of the input and prints lines of a key, a tab and a value; a line without a tab is
//! all key. The reducer gets `key TAB value` lines in order and prints lines that go out as they are. Without a reducer the
//! mapper's lines go out as they are.
//!
//! A program starts with its first record and ends when its input does. A map that ends early and a reduce that pauses close the input
//! at a record or key boundary; the next program starts behind it. So a mapper must treat each line by itself, and a reducer each
//! key: what it prints must not depend on which keys came before.

use super::App;
use super::child::{Program, Running};
use crate::input::Stored;
use crate::job::Plan;
use crate::record::{Emit, Failure, Mapper, Record, Reducer, Values};
use std::path::Path;

/// How much of the mapper's output is gathered for one run of the combiner.
const COMBINED_BYTES: usize = 32 << 20;

/// The variable that names the input file, as Hadoop calls it.
const FILE_VARIABLE: &str = "mapreduce_map_input_file";

/// Runs executables.
#[derive(Clone, Copy, Debug)]
pub struct Streaming;

impl App for Streaming {
    fn name(&self) -> &'static str {
        "streaming"
    }

    fn about(&self) -> &'static str {
        "any executable as mapper and reducer, in the manner of Hadoop Streaming"
    }

    fn options(&self) -> &'static [(&'static str, &'static str)] {
        &[
            ("mapper", "the command that reads lines and prints key TAB value lines"),
            (
                "reducer",
                "the command that reads key TAB value lines in order and prints lines; none for a job of maps alone",
            ),
            ("combiner", "a command that shrinks what the mapper printed: key TAB value lines in order, in and out"),
            ("dir", "the folder the commands run in"),
        ]
    }

    fn prepare(&self, plan: &mut Plan, _stored: &dyn Stored) -> Result<(), Failure> {
        let options = &plan.request.options;
        if !options.contains_key("mapper") {
            return Err(Failure(
                "streaming needs a mapper; give it one with mapper=COMMAND (`cat` if there is nothing to do)"
                    .to_owned(),
            ));
        }
        if options.contains_key("combiner") && !options.contains_key("reducer") {
            return Err(Failure(
                "streaming has a combiner but no reducer; leave it out or add reducer=COMMAND".to_owned(),
            ));
        }
        match options.get("dir").map(Path::new) {
            Some(folder) if !folder.is_absolute() || !folder.is_dir() => Err(Failure(format!(
                "streaming cannot run in dir={}: give it an absolute path of a folder that is there",
                folder.display()
            ))),
            _ => Ok(()),
        }
    }

    fn mapper(&self, plan: &Plan) -> Result<Box<dyn Mapper>, Failure> {
        let combined = program(plan, "combiner").map(|program| Combined { program, records: Vec::new(), bytes: 0 });
        let lines = if plan.reduces == 0 { Lines::AsTheyAre } else { combined.map_or(Lines::Keyed, Lines::Combined) };
        match program(plan, "mapper") {
            Some(program) => Ok(Box::new(StreamMapper { program, running: None, lines })),
            None => Err(Failure("streaming needs a mapper".to_owned())),
        }
    }

    fn reducer(&self, plan: &Plan) -> Result<Option<Box<dyn Reducer>>, Failure> {
        let reducer = |program| Box::new(StreamReducer { program, running: None }) as Box<dyn Reducer>;
        Ok(program(plan, "reducer").map(reducer))
    }
}

fn program(plan: &Plan, role: &'static str) -> Option<Program> {
    let options = &plan.request.options;
    let command = options.get(role)?.clone();
    Some(Program { role, command, folder: options.get("dir").map(Into::into) })
}

struct StreamMapper {
    program: Program,
    running: Option<Running>,
    lines: Lines,
}

impl Mapper for StreamMapper {
    fn map(&mut self, record: Record<'_>, out: &mut dyn Emit) -> Result<(), Failure> {
        let running = match &mut self.running {
            Some(running) => running,
            none => none.insert(self.program.start(Some((FILE_VARIABLE, record.file)))?),
        };
        running.feed(&[record.line], &mut |line, out| self.lines.take(line, out), out)?;
        self.lines.combine_if_many(out)
    }

    fn finish(&mut self, out: &mut dyn Emit) -> Result<(), Failure> {
        if let Some(running) = self.running.take() {
            running.finish(&mut |line, out| self.lines.take(line, out), out)?;
        }
        self.lines.combine(out)
    }
}

/// What becomes of the lines a mapper prints.
enum Lines {
    /// They are the output.
    AsTheyAre,
    /// They are keys and values.
    Keyed,
    /// They are keys and values, and go through a combiner first.
    Combined(Combined),
}

struct Combined {
    program: Program,
    records: Vec<(Vec<u8>, Vec<u8>)>,
    bytes: usize,
}

impl Lines {
    fn take(&mut self, line: &[u8], out: &mut dyn Emit) {
        let (key, value) = keyed(line);
        match self {
            Lines::AsTheyAre => out.emit(line, b""),
            Lines::Keyed => out.emit(key, value),
            Lines::Combined(combined) => {
                combined.bytes += line.len();
                combined.records.push((key.to_vec(), value.to_vec()));
            }
        }
    }

    fn combine_if_many(&mut self, out: &mut dyn Emit) -> Result<(), Failure> {
        match self {
            Lines::Combined(combined) if combined.bytes >= COMBINED_BYTES => self.combine(out),
            _ => Ok(()),
        }
    }

    /// Runs the combiner over what was gathered. It runs here, and not key by key where the engine combines, because a program does not
    /// say where its output for one key ends.
    fn combine(&mut self, out: &mut dyn Emit) -> Result<(), Failure> {
        let Lines::Combined(combined) = self else { return Ok(()) };
        if combined.records.is_empty() {
            return Ok(());
        }
        combined.records.sort_unstable();
        let mut emit = |line: &[u8], out: &mut dyn Emit| {
            let (key, value) = keyed(line);
            out.emit(key, value);
        };
        let mut running = combined.program.start(None)?;
        for (key, value) in combined.records.drain(..) {
            running.feed(&[&key, b"\t", &value], &mut emit, out)?;
        }
        combined.bytes = 0;
        running.finish(&mut emit, out)
    }
}

/// A printed line as key and value.
fn keyed(line: &[u8]) -> (&[u8], &[u8]) {
    memchr::memchr(b'\t', line).map_or((line, b""), |tab| (&line[..tab], &line[tab + 1..]))
}

struct StreamReducer {
    program: Program,
    running: Option<Running>,
}

impl Reducer for StreamReducer {
    fn reduce(&mut self, key: &[u8], values: &mut dyn Values, out: &mut dyn Emit) -> Result<(), Failure> {
        let running = match &mut self.running {
            Some(running) => running,
            none => none.insert(self.program.start(None)?),
        };
        while let Some(value) = values.next() {
            running.feed(&[key, b"\t", value], &mut as_it_is, out)?;
        }
        Ok(())
    }

    fn finish(&mut self, out: &mut dyn Emit) -> Result<(), Failure> {
        match self.running.take() {
            Some(running) => running.finish(&mut as_it_is, out),
            None => Ok(()),
        }
    }
}

fn as_it_is(line: &[u8], out: &mut dyn Emit) {
    out.emit(line, b"");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::apps::tests::{Try, check, refused};
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::{Duration, Instant};

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
    fn without_a_reducer_lines_go_out_as_they_are() {
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
    fn programs_know_their_file_and_folder() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("greeting"), "hello").unwrap();
        let dir = folder.path().to_str().unwrap();
        let mapper = "cat > /dev/null; cat greeting; basename $mapreduce_map_input_file";
        let said = Try::new("streaming", &[("mapper", mapper), ("dir", dir)], &[("the-file", "x\n")]).text();
        assert_eq!(said, "hellothe-file\n");
    }

    #[test]
    fn bad_options_are_refused_before_anything_runs() {
        assert!(refused("streaming", &[], "x").starts_with("streaming needs a mapper;"));
        assert!(refused("streaming", &[("mapper", "cat"), ("combiner", "cat")], "x").contains("no reducer"));
        assert!(refused("streaming", &[("mapper", "cat"), ("dir", "/no/such")], "x").contains("dir=/no/such"));
    }

    /// Counts what comes; can be stopped from outside.
    #[derive(Default)]
    struct Sink<'a> {
        records: u64,
        bytes: usize,
        stop: Option<&'a AtomicBool>,
    }

    impl Emit for Sink<'_> {
        fn emit(&mut self, key: &[u8], value: &[u8]) {
            self.records += 1;
            self.bytes += key.len() + value.len();
        }

        fn count(&mut self, _counter: &'static str, _by: u64) {}

        fn is_stopped(&self) -> bool {
            self.stop.is_some_and(|stop| stop.load(Ordering::Relaxed))
        }
    }

    /// Runs a mapper over so many lines of 100 bytes.
    fn map(command: &str, lines: u64, out: &mut dyn Emit) -> Result<(), Failure> {
        let program = Program { role: "mapper", command: command.to_owned(), folder: None };
        let mut mapper = StreamMapper { program, running: None, lines: Lines::Keyed };
        for offset in 0..lines {
            mapper.map(Record { file: "f", offset, line: &[b'x'; 99] }, out)?;
        }
        mapper.finish(out)
    }

    /// Runs a mapper over 10 MB of lines: what it printed, or why it failed.
    fn printed(command: &str) -> Result<u64, String> {
        let mut out = Sink::default();
        map(command, 100_000, &mut out).map_err(|failure| failure.0).map(|()| out.records)
    }

    #[test]
    fn no_program_makes_the_task_wait_for_ever() {
        assert_eq!(printed("cat"), Ok(100_000));
        assert_eq!(printed("yes | head -n 300000; cat"), Ok(400_000), "prints before it reads");
        assert_eq!(printed("true"), Ok(0), "reads nothing");
        assert_eq!(printed("head -n 3"), Ok(3), "reads a little");
        assert_eq!(printed("exec <&-; yes | head -n 300000"), Ok(300_000), "closes its input and goes on");
        assert_eq!(printed("sort"), Ok(100_000), "prints when it has read all");
        assert_eq!(printed("yes complaint | head -n 300000 >&2; cat"), Ok(100_000), "complains a lot");
        assert_eq!(
            printed("exec >&-; cat > /dev/null; yes complaint | head -n 300000 >&2"),
            Ok(0),
            "closes its output"
        );
        assert_eq!(printed("exec >&-; sleep 0.3; cat > /dev/null"), Ok(0), "closes its output and reads late");
    }

    #[test]
    fn a_program_that_fails_is_quoted() {
        let failure = printed("cat > /dev/null; seq 30 >&2; exit 3").unwrap_err();
        let (first, lines) = failure.split_once('\n').unwrap();
        assert!(first.ends_with("ended with exit status: 3; the last lines of its error output:"), "{first}");
        assert_eq!(
            lines.lines().map(|line| line.parse().unwrap()).collect::<Vec<u32>>(),
            (11..=30).collect::<Vec<u32>>()
        );
        let early = printed("echo broken >&2; exit 1").unwrap_err();
        assert!(early.ends_with("error output:\nbroken"), "{early}");
        let absent = printed("no-such-command-here").unwrap_err();
        assert!(absent.contains("ended with exit status: 127 (is it installed"), "{absent}");
        assert!(absent.contains("not found"), "{absent}");
        assert!(printed("kill -9 $$").unwrap_err().contains("ended with signal: 9"));
        assert!(printed("yes bla | head -c 1000000 | tr -d '\\n' >&2; exit 1").unwrap_err().len() < 10_000);
    }

    #[test]
    fn a_line_without_end_is_a_failure() {
        let failure = printed("yes | tr -d '\\n'").unwrap_err();
        assert!(failure.contains("printed a line of more than 67108864 bytes"), "{failure}");
    }

    #[test]
    fn a_program_that_hangs_goes_with_its_task_and_takes_its_children_along() {
        let folder = tempfile::tempdir().unwrap();
        for (at, lines) in [("reading", 100_000), ("its end", 1)] {
            let mark = folder.path().join(at.replace(' ', "-"));
            let command = format!("(sleep 1; touch {}) & sleep 600", mark.display());
            let stop = AtomicBool::new(false);
            let began = Instant::now();
            let failure = std::thread::scope(|scope| {
                scope.spawn(|| {
                    std::thread::sleep(Duration::from_millis(200));
                    stop.store(true, Ordering::Relaxed);
                });
                map(&command, lines, &mut Sink { stop: Some(&stop), ..Sink::default() }).unwrap_err()
            });
            assert!(began.elapsed() < Duration::from_millis(900), "{at}: {:?}", began.elapsed());
            assert!(failure.0.contains("was stopped, since its task was given up"), "{}", failure.0);
            std::thread::sleep(Duration::from_millis(1200));
            assert!(!mark.exists(), "{at}: a child lived on");
        }
    }

    #[test]
    fn a_dropped_mapper_leaves_nothing_behind() {
        let folder = tempfile::tempdir().unwrap();
        let mark = folder.path().join("mark");
        let command = format!("(sleep 1; touch {}) & cat", mark.display());
        let program = Program { role: "mapper", command, folder: None };
        let mut mapper = StreamMapper { program, running: None, lines: Lines::Keyed };
        mapper.map(Record { file: "f", offset: 0, line: b"x" }, &mut Sink::default()).unwrap();
        drop(mapper);
        std::thread::sleep(Duration::from_millis(1200));
        assert!(!mark.exists());
    }

    #[test]
    fn lines_of_many_megabytes_pass() {
        let mut out = Sink::default();
        map("cat > /dev/null; yes | tr -d '\\n' | head -c 20000000", 1, &mut out).unwrap();
        assert_eq!((out.records, out.bytes), (1, 20_000_000));
    }
}
