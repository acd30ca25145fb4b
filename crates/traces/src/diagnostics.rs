//! What was odd in a trace, and plain counts of what it contains.

use std::collections::BTreeMap;
use std::fmt;

/// Declares an enum whose variants have a text (and, for oddities, a rule).
macro_rules! oddities {
    ($($variant:ident: $what:literal => $rule:literal,)*) => {
        /// Something odd in a trace. Each kind has one rule that says how it is handled.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Oddity {
            $(#[doc = concat!("Counted as: ", $what, ". Rule: ", $rule, ".")] $variant,)*
        }

        impl Oddity {
            /// Every kind.
            pub const ALL: &[Oddity] = &[$(Oddity::$variant,)*];

            /// What is counted, in the plural.
            pub fn what(self) -> &'static str {
                match self { $(Oddity::$variant => $what,)* }
            }

            /// How it is handled.
            pub fn rule(self) -> &'static str {
                match self { $(Oddity::$variant => $rule,)* }
            }
        }
    };
}

oddities! {
    TruncatedInput: "inputs that end in the middle or are damaged" => "read up to that place",
    LongLine: "lines that are too long" => "skipped",
    LargeObject: "JSON objects that are too large" => "skipped",
    NotUtf8: "lines or objects that are not valid UTF-8" => "invalid bytes replaced",
    BadLine: "lines that cannot be parsed" => "skipped",
    BadObject: "JSON objects that cannot be parsed" => "skipped",
    StrayText: "places with text between JSON objects" => "skipped",
    UnknownEvent: "events of an unknown kind" => "skipped",
    NumberOutOfRange: "numbers out of range" => "taken as absent",
    MissingSubmit: "jobs without a submission time" => "submitted when their first task started, or skipped",
    SubmittedBefore: "jobs submitted before the trace begins" => "skipped",
    Unsorted: "jobs listed after a job submitted later" => "sorted by submission time",
    RepeatedId: "jobs whose identifier occurred before" => "kept as jobs of their own",
    RepeatedTask: "tasks whose identifier occurred before in the same job" => "kept",
    JobEndsBeforeStart: "jobs that end before they are submitted" => "recorded end ignored",
    TaskEndsBeforeStart: "tasks that end before they start" => "skipped",
    AttemptBeforeTask: "attempts that start before their task (clock skew)" => "the attempt's own times are used",
    NoAttempts: "tasks without attempts" => "skipped",
    NoFinishedAttempt: "tasks without a successful attempt" => "skipped",
    UnfinishedTask: "tasks that do not finish within the trace" => "skipped",
    FewerTasksThanDeclared: "jobs with fewer tasks than they declare" => "the listed tasks are used",
    FailedAttempt: "failed attempts" => "not repeated",
    KilledAttempt: "killed attempts" => "not repeated",
    FailedJob: "failed jobs" => "kept with the tasks that finished",
    KilledJob: "killed jobs" => "kept with the tasks that finished",
    SkippedFailedJob: "failed or killed jobs" => "skipped, as the duration model asks",
    UnfinishedJob: "jobs without an end in the trace" => "kept with the tasks that finished",
    NoTasks: "jobs without a usable task" => "skipped",
    ReducesWithoutMaps: "jobs with reduces but without maps" => "given one map that takes no time",
    OtherTasks: "setup and cleanup tasks" => "left out",
    RepeatedJobs: "jobs with a repeat count above one" => "repeated",
    NodeWithoutName: "nodes without a name" => "skipped",
    WaitingTask: "tasks that were waiting" => "skipped",
    FailedTask: "failed tasks" => "skipped",
    RunningTask: "tasks that were still running" => "skipped",
    NoInstances: "tasks without instances" => "skipped",
    MissingCpu: "tasks without a CPU request" => "each instance takes one slot",
    DeepGraph: "jobs with more than two layers of stages" => "refused: not a map/reduce graph",
    CyclicGraph: "jobs whose stages depend on each other" => "refused: not a graph that can run",
    MissingParent: "stages that wait for a stage that is not listed" => "taken as if it had finished",
    FlattenedGraph: "jobs with more than two layers of stages " => "flattened: the first layer is maps, all others reduces",
    TaskTimeModelled: "jobs without task times" => "times from the duration model",
    NoWork: "jobs without any recorded work" => "skipped",
    TooManyOpenJobs: "jobs beyond the limit of jobs that are open at the same time" => "skipped",
    TooManyTasks: "tasks beyond the limit of tasks in a job" => "skipped",
    LargestTaskCount: "jobs with ten million or more tasks of a kind" => "given ten million",
    ShorterThanCosts: "jobs whose recorded task times are below the cluster's own costs" => "compute time set to zero",
    SkippedStage: "stages that were not run (their output was cached)" => "left out",
    FarFromOthers: "jobs submitted more than ten years from the median job" => "skipped",
    StartedBefore: "tasks that started before the trace begins" => "skipped",
    StageTime: "stages without the times of their instances" => "each instance takes the time of its stage",
    OtherFile: "files that are not traces" => "skipped",
}

macro_rules! counts {
    ($($variant:ident: $what:literal,)*) => {
        /// A plain count of what a trace contains, as recorded, before anything is skipped.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Count {
            $(#[doc = concat!("Number of ", $what, ".")] $variant,)*
        }

        impl Count {
            /// What is counted, in the plural.
            pub fn what(self) -> &'static str {
                match self { $(Count::$variant => $what,)* }
            }
        }
    };
}

counts! {
    Jobs: "jobs",
    Maps: "maps",
    Reduces: "reduces",
    SucceededAttempts: "successful attempts",
    FailedAttempts: "failed attempts",
    KilledAttempts: "killed attempts",
    MapsWithReplicas: "maps with replica locations",
    Rows: "rows",
    Tasks: "tasks",
    Instances: "instances",
    Events: "events",
    Users: "users",
}

/// Counts of oddities and contents of one trace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Diagnostics {
    oddities: BTreeMap<Oddity, (u64, String)>,
    counts: BTreeMap<Count, u64>,
}

impl Diagnostics {
    /// Counts an oddity; `place` says where the first one is, such as `line 12` or `job_7`.
    pub fn odd(&mut self, oddity: Oddity, place: impl fmt::Display) {
        self.odd_times(oddity, 1, place);
    }

    /// Counts several oddities of one kind.
    pub fn odd_times(&mut self, oddity: Oddity, times: u64, place: impl fmt::Display) {
        if times > 0 {
            self.oddities.entry(oddity).or_insert_with(|| (0, shortened(&place.to_string()))).0 += times;
        }
    }

    /// Adds to a count.
    pub fn add(&mut self, count: Count, number: u64) {
        if number > 0 {
            let sum = self.counts.entry(count).or_default();
            *sum = sum.saturating_add(number);
        }
    }

    /// How often an oddity occurred.
    pub fn of(&self, oddity: Oddity) -> u64 {
        self.oddities.get(&oddity).map_or(0, |(times, _)| *times)
    }

    /// A plain count.
    pub fn count(&self, count: Count) -> u64 {
        self.counts.get(&count).copied().unwrap_or(0)
    }

    /// One line for each kind of oddity that occurred.
    pub fn lines(&self) -> Vec<String> {
        let line = |(oddity, (times, place)): (&Oddity, &(u64, String))| {
            format!("{times} {}: {} (first: {place})", oddity.what().trim_end(), oddity.rule())
        };
        self.oddities.iter().map(line).collect()
    }

    /// One line with all plain counts.
    pub fn counts_line(&self) -> String {
        let counts: Vec<String> =
            self.counts.iter().map(|(count, number)| format!("{number} {}", count.what())).collect();
        counts.join(", ")
    }
}

/// A place for a message: one line of at most 120 characters.
fn shortened(place: &str) -> String {
    let mut text: String = place.chars().map(|c| if c.is_control() { ' ' } else { c }).take(121).collect();
    if text.chars().count() > 120 {
        text = text.chars().take(119).collect();
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_gets_one_line_with_its_rule() {
        let mut diagnostics = Diagnostics::default();
        diagnostics.odd(Oddity::BadLine, "line 3");
        diagnostics.odd(Oddity::BadLine, "line 9");
        diagnostics.odd_times(Oddity::FailedJob, 0, "nowhere");
        assert_eq!(diagnostics.lines(), ["2 lines that cannot be parsed: skipped (first: line 3)"]);
        assert_eq!((diagnostics.of(Oddity::BadLine), diagnostics.of(Oddity::FailedJob)), (2, 0));
    }

    #[test]
    fn places_are_short_and_printable() {
        let mut diagnostics = Diagnostics::default();
        diagnostics.odd(Oddity::BadLine, "x\n\u{7}".repeat(1_000));
        let line = &diagnostics.lines()[0];
        assert!(line.len() < 250 && !line.contains('\n'), "{line}");
    }

    #[test]
    fn texts_differ() {
        let mut texts: Vec<&str> = Oddity::ALL.iter().map(|oddity| oddity.what()).collect();
        texts.sort_unstable();
        texts.dedup();
        assert_eq!(texts.len(), Oddity::ALL.len());
    }
}
