//! Chronos: two jobs and a node failure under FIFO and Fair, with and without Chronos, and over base policies that the paper does not
//! evaluate.

use super::estimate::{Estimate, Unit};
use super::experiment::{Case, Run, Runs, Scale};
use super::observation::ObservationOptions;
use super::recovery::BaseOrder;
use super::study::{Figure, Measure, PaperValue, Plot, SensitivityTable, Study};
use super::verdict::{Direction, Headline};
use anyhow::{Context, Result};
use giveway_core::policy::catalog;
use giveway_core::{Action, Event, JobId, Kind, Span, Time};
use giveway_sim::Observer;
use giveway_sim::cluster::{self, Cluster};
use giveway_sim::comparison::Comparison;
use giveway_sim::workload;

const MAP: &str = "map-heavy";
const REDUCE: &str = "reduce-heavy";
const NO_FAILURE: &str = "no failure";
const BASES: [&str; 6] = ["fifo", "fair", "capacity", "hsrtf-pr", "coshh", "las"];
const SLOW_HEARTBEATS: &str = "heartbeats every 3 s";
const NO_FLUSH: &str = "pauses without a flush";
const NO_CONTENTION: &str =
    "no contention for the disk (reduce-heavy: the first job has then ended before the failure)";
/// The second job has no slots yet when the node fails.
const LATE_SECOND_JOB: &str = "second job submitted when the node fails";
const JOBS: [&str; 2] = ["first", "second"];
const WITHOUT: &str = "without Chronos";
const WITH: &str = "with Chronos";
/// Times of the node failure in the sensitivity table, in seconds. The main experiment uses 100 s.
const FAILURE_TIMES_S: [f64; 7] = [40.0, 70.0, 100.0, 135.0, 170.0, 200.0, 230.0];
/// "Chronos successfully launches recovery tasks within 2 seconds" (section V-B).
const PROMPT_S: f64 = 2.0;

/// The cases to run.
pub fn cases(scale: &Scale) -> Result<Vec<Case>> {
    let recovery = ObservationOptions { recovery: true, ..ObservationOptions::default() };
    let policies = with_and_without(&BASES);
    let policies: Vec<&str> = policies.iter().map(String::as_str).collect();
    let reduce_failure_s = reduce_failure_s()?;
    let at_its_time = |case: Case| {
        case.modified(move |cluster, _| {
            cluster.faults.scripted.iter_mut().for_each(|fault| fault.at_s = reduce_failure_s);
        })
    };
    let mut cases = vec![
        Case::new(MAP, "chronos-map", &policies, scale.seeds).observed(recovery),
        at_its_time(Case::new(REDUCE, "chronos-reduce", &policies, scale.seeds).observed(recovery)),
        Case::new(NO_FAILURE, "chronos-map", &policies, scale.seeds).on_cluster("chronos").observed(recovery),
    ];
    for workload in [MAP, REDUCE] {
        let case = Case::new(late_second_job(workload), named(workload), &policies[..2], scale.sweep_seeds);
        let case = if workload == REDUCE { at_its_time(case) } else { case };
        cases.push(case.observed(recovery).modified(|cluster, workload| {
            let failure = cluster.faults.scripted.first().map(|fault| Time::from_secs_f64(fault.at_s));
            if let (Some(failure), Some(second)) = (failure, workload.jobs.last_mut()) {
                second.submit = failure;
            }
        }));
    }
    for at_s in FAILURE_TIMES_S {
        let case = Case::new(failure_at(at_s), "chronos-map", &policies[..4], scale.sweep_seeds).observed(recovery);
        cases.push(case.modified(move |cluster, _| cluster.faults.scripted[0].at_s = at_s));
    }
    for workload in [MAP, REDUCE] {
        let changed = |name: &str, change: fn(&mut Cluster)| {
            let case = Case::new(format!("{workload}, {name}"), named(workload), &policies[..2], scale.sweep_seeds);
            let case = case.observed(recovery).modified(move |cluster, _| change(cluster));
            if workload == REDUCE { at_its_time(case) } else { case }
        };
        cases.push(changed(SLOW_HEARTBEATS, |cluster| cluster.heartbeat = Span::from_secs(3)));
        cases.push(changed(NO_FLUSH, |cluster| cluster.costs.pause_flush_bytes = 0));
        cases.push(changed(NO_CONTENTION, |cluster| cluster.nodes.iter_mut().for_each(|node| node.shared = None)));
    }
    Ok(cases)
}

/// When the node fails in the reduce-heavy experiment: 12 s before the first reduce of the first job would end under FIFO without a failure, so that
/// the node has reduces of that job ("in order to have failed reduce tasks from the first job"). Most of the others end before the failure is
/// detected, and FIFO gives their slots to the second job.
fn reduce_failure_s() -> Result<f64> {
    const BEFORE_END_S: f64 = 12.0;
    let trial = Comparison::new(cluster::by_name("chronos")?, workload::by_name("chronos-reduce", 1)?, 1);
    let fifo = catalog::by_name("fifo").context("no policy `fifo` in the catalogue")?;
    let mut first_end = FirstReduceEnd(None);
    trial.run(&fifo, &mut first_end)?;
    let end = first_end.0.context("the first job did not end")?;
    Ok((end.as_secs_f64() - BEFORE_END_S).max(0.0))
}

/// Records when the first reduce of the first job ends.
struct FirstReduceEnd(Option<Time>);

impl Observer for FirstReduceEnd {
    fn observe(&mut self, now: Time, event: &Event, _: &[Action]) {
        match event {
            Event::AttemptFinished { attempt, .. }
                if attempt.task.kind == Kind::Reduce && attempt.task.job == JobId(0) =>
            {
                self.0.get_or_insert(now);
            }
            _ => {}
        }
    }
}

fn named(workload: &str) -> &'static str {
    if workload == MAP { "chronos-map" } else { "chronos-reduce" }
}

fn late_second_job(workload: &str) -> String {
    format!("{workload}, {LATE_SECOND_JOB}")
}

fn chronos(base: &str) -> String {
    format!("chronos({base})")
}

/// Each base policy, followed by Chronos over it.
fn with_and_without(bases: &[&str]) -> Vec<String> {
    bases.iter().flat_map(|base| [(*base).to_owned(), chronos(base)]).collect()
}

fn failure_at(at_s: f64) -> String {
    format!("node fails after {at_s} s")
}

/// Evaluates the runs.
pub fn study(_: &Scale, runs: &Runs) -> Study {
    Study {
        paper: "chronos",
        title: "Chronos: failure-aware scheduling",
        about: "8 nodes; two word counts (17 and 56 GB), and in a second experiment two sorts. One node fails and is declared lost after a timeout of 25 s; waits \
                are measured from then. The order is violated while a lost task of a job waits although a later job (FIFO) or a job over its share (Fair) has slots of that kind.",
        headlines: headlines(runs),
        directions: directions(runs),
        figures: figures(runs),
        tests: tests(runs),
        sensitivity: vec![failure_times(runs)],
    }
}

fn first(run: &Run) -> f64 {
    run.group_completion_s("first")
}

fn second(run: &Run) -> f64 {
    run.group_completion_s("second")
}

/// The paper's recovery wait (section I): until all lost tasks have started.
fn wait_s(run: &Run) -> f64 {
    run.observed.recovery().max_wait_s(None)
}

/// The same for the lost tasks of the first job, to which most of the lost tasks belong in the paper (section V-A).
fn first_job_wait_s(run: &Run) -> f64 {
    run.observed.recovery().max_wait_s(Some(JobId(0)))
}

fn violated_s(order: BaseOrder) -> impl Fn(&Run) -> f64 {
    move |run| run.observed.recovery().violated_s(order)
}

fn recovery_locality(run: &Run) -> f64 {
    run.summary.details.recovery_locality.unwrap_or(f64::NAN)
}

fn headlines(runs: &Runs) -> Vec<Headline> {
    let change = |case: &str, base: &str, figure: fn(&Run) -> f64| runs.change(case, base, &chronos(base), figure);
    let level = |case: &str, policy: &str, figure: fn(&Run) -> f64| runs.values(case, policy, figure);
    let chosen = "The wait is the remaining time of the tasks that occupy the slots when the failure is detected. It follows from the task times and the time of \
                  the failure, both of which we chose.";
    let lower_ranked = "Lost tasks of the second job outrank nothing that runs, so they wait for a free slot with Chronos too. The next row is for the lost tasks of the first job.";
    let heartbeat = "A lost map waits for the next heartbeat of a node with its data, on which a map then ends early, so the wait follows the heartbeat: 0.3 s in Hadoop 1.2.1 on eight nodes. Tested: \
                     with heartbeats every 3 s it is longer than the paper's (see the tests).";
    let flush = "A lost reduce waits for the next heartbeat of a node on which a reduce then pauses. The longest of several waits counts, and a reduce that pauses \
                 during its shuffle first writes up to 128 MB to disk.";
    let saved = "The time saved is the wait of the lost tasks. It follows from the task times and the time of the failure (see the sensitivity table).";
    let second_job = "The second job has most slots, and the first job's lost tasks take few of them, so it hardly benefits from their earlier start. Tested: submitted only when the node fails, it gains no more in the map-heavy experiment, and neither job is affected in the other (see the tests).";
    vec![
        Headline::level(
            "recovery wait under FIFO, map-heavy",
            "V-A",
            Unit::Seconds,
            51.0,
            &level(MAP, "fifo", wait_s),
            chosen,
        ),
        Headline::level(
            "recovery wait with Chronos over FIFO, map-heavy",
            "V-A",
            Unit::Seconds,
            1.5,
            &level(MAP, "chronos(fifo)", wait_s),
            lower_ranked,
        ),
        Headline::level(
            "recovery wait of the first job's lost tasks, Chronos over FIFO, map-heavy",
            "V-A",
            Unit::Seconds,
            1.5,
            &level(MAP, "chronos(fifo)", first_job_wait_s),
            heartbeat,
        ),
        Headline::level(
            "duration of order violation under Fair, map-heavy",
            "V-A",
            Unit::Seconds,
            48.0,
            &runs.values(MAP, "fair", violated_s(BaseOrder::EqualShares)),
            chosen,
        ),
        Headline::level(
            "duration of order violation with Chronos over Fair, map-heavy",
            "V-A",
            Unit::Seconds,
            2.0,
            &runs.values(MAP, "chronos(fair)", violated_s(BaseOrder::EqualShares)),
            heartbeat,
        ),
        Headline::level(
            "recovery wait under FIFO, reduce-heavy",
            "V-B",
            Unit::Seconds,
            325.0,
            &level(REDUCE, "fifo", wait_s),
            chosen,
        ),
        Headline::level(
            "recovery wait with Chronos over FIFO, reduce-heavy",
            "V-B",
            Unit::Seconds,
            2.0,
            &level(REDUCE, "chronos(fifo)", wait_s),
            lower_ranked,
        ),
        Headline::level(
            "recovery wait of the first job's lost tasks, Chronos over FIFO, reduce-heavy",
            "V-B",
            Unit::Seconds,
            2.0,
            &level(REDUCE, "chronos(fifo)", first_job_wait_s),
            flush,
        ),
        Headline::level(
            "node-local recovery maps under FIFO",
            "V-A2",
            Unit::Fraction,
            0.125,
            &level(MAP, "fifo", recovery_locality),
            "Under Hadoop 1's FIFO lost maps run first and on any node; one or two of the seven remaining nodes have the data.",
        ),
        Headline::level(
            "node-local recovery maps with Chronos over FIFO",
            "V-A2",
            Unit::Fraction,
            1.0,
            &level(MAP, "chronos(fifo)", recovery_locality),
            "Chronos frees slots on nodes that hold a replica.",
        ),
        Headline::change("first job, Chronos over FIFO, map-heavy", "V-A", -0.20, &change(MAP, "fifo", first), saved),
        Headline::change(
            "second job, Chronos over FIFO, map-heavy",
            "V-A",
            -0.10,
            &change(MAP, "fifo", second),
            second_job,
        ),
        Headline::change(
            "first job, Chronos over Fair, map-heavy (paper: 2 to 14 %)",
            "V-A",
            -0.14,
            &change(MAP, "fair", first),
            saved,
        ),
        Headline::change(
            "second job, Chronos over Fair, map-heavy (paper: 2 to 14 %)",
            "V-A",
            -0.02,
            &change(MAP, "fair", second),
            "The paper gives only a range. We assume that its lower end is the second job's.",
        ),
        Headline::change(
            "first job, Chronos over FIFO, reduce-heavy",
            "V-B",
            -0.55,
            &change(REDUCE, "fifo", first),
            saved,
        ),
        Headline::change(
            "second job, Chronos over FIFO, reduce-heavy",
            "V-B",
            -0.11,
            &change(REDUCE, "fifo", second),
            second_job,
        ),
        Headline::within_limit(
            "no overhead without failures (FIFO, both jobs)",
            "V-C",
            f64::NAN,
            &change(NO_FAILURE, "fifo", Run::completion_s),
            0.01,
            "Without a lost node, Chronos takes no decision.",
        ),
    ]
}

fn directions(runs: &Runs) -> Vec<Direction> {
    let mut all = Vec::new();
    for case in [MAP, REDUCE] {
        for base in BASES {
            let claim = format!("the first job finishes sooner with Chronos over {base}, {case}");
            all.push(Direction::decrease(claim, &runs.change(case, base, &chronos(base), first)).with_exception(
                "Chronos preempts only for lost tasks whose job ranks before the victim's in the base policy's order. Under this base policy the first job does not.",
            ));
        }
    }
    let beyond_prompt = |case: &str, base: &str| -> Vec<f64> {
        runs.values(case, &chronos(base), first_job_wait_s).iter().map(|wait_s| wait_s - PROMPT_S).collect()
    };
    // Not for reduces under Fair: the first job may already have its share there, and is then entitled to no more slots.
    for (case, base) in [(MAP, "fifo"), (MAP, "fair"), (REDUCE, "fifo")] {
        let claim = format!("lost tasks of the first job start again within 2 s with Chronos over {base}, {case}");
        all.push(Direction::decrease(claim, &beyond_prompt(case, base)).with_exception(
            "A reduce that pauses during its shuffle first writes up to 128 MB to disk. Tested: without that flush the waits are about 0.5 s (see the tests).",
        ));
    }
    for (base, order) in [("fifo", BaseOrder::Submission), ("fair", BaseOrder::EqualShares)] {
        let values = runs.change(MAP, base, &chronos(base), violated_s(order));
        all.push(Direction::decrease(
            format!("the order is violated for a shorter time with Chronos over {base}, {MAP}"),
            &values,
        ));
    }
    all
}

fn figures(runs: &Runs) -> Vec<Figure> {
    let by_job =
        |case: &str, policies: &[String], figure: &dyn Fn(&Run, &str) -> f64| -> Vec<(String, Vec<Estimate>)> {
            let estimates = |policy: &String| {
                JOBS.iter().map(|job| Estimate::of(&runs.values(case, policy, |run| figure(run, job)))).collect()
            };
            policies.iter().map(|policy| (policy.clone(), estimates(policy))).collect()
        };
    let jobs: Vec<String> = JOBS.iter().map(|job| format!("{job} job")).collect();
    let completion = |id: &str, title: &str, counterpart: &str, case: &str, policies: &[String]| Figure {
        id: id.into(),
        title: title.into(),
        counterpart: counterpart.into(),
        paper: Vec::new(),
        plot: Plot::Bars {
            y: Measure::seconds("completion time"),
            categories: jobs.clone(),
            series: by_job(case, policies, &|run, job| run.group_completion_s(job)),
        },
    };
    let papers_bases = with_and_without(&["fifo", "fair"]);
    let all = with_and_without(&BASES);
    let per_policy =
        |id: &str, title: &str, y: Measure, [without, with]: [f64; 2], figure: &dyn Fn(&Run) -> f64| Figure {
            id: id.into(),
            title: title.into(),
            counterpart: "paper: section V-A; four base policies are not in the paper".into(),
            paper: vec![PaperValue::new(WITHOUT, "fifo", without), PaperValue::new(WITH, "fifo", with)],
            plot: Plot::Bars {
                y,
                categories: BASES.map(String::from).into(),
                series: [(WITHOUT, false), (WITH, true)]
                    .map(|(name, with)| {
                        let estimate = |base: &&str| {
                            let policy = if with { chronos(base) } else { (*base).to_owned() };
                            Estimate::of(&runs.values(MAP, &policy, figure))
                        };
                        (name.to_owned(), BASES.iter().map(estimate).collect())
                    })
                    .into(),
            },
        };
    let locality = |run: &Run, job: &str| run.group(job).key_metrics.locality_node.unwrap_or(f64::NAN);
    let task_durations = |policy: &str| -> Vec<f64> {
        runs.get(MAP, policy).iter().flat_map(|run| run.observed.recovery().task_s().iter().copied()).collect()
    };
    vec![
        completion("chronos-1", "Map-heavy jobs with a failure", "paper: Fig. 1", MAP, &papers_bases),
        Figure {
            id: "chronos-2".into(),
            title: "Node-local maps".into(),
            counterpart: "paper: Fig. 2".into(),
            paper: Vec::new(),
            plot: Plot::Bars {
                y: Measure::fraction("fraction of map launches"),
                categories: jobs.clone(),
                series: by_job(MAP, &papers_bases, &locality),
            },
        },
        completion("chronos-3", "Reduce-heavy jobs with a failure", "paper: Fig. 3", REDUCE, &papers_bases),
        Figure {
            id: "chronos-4a".into(),
            title: "Duration of finished tasks".into(),
            counterpart: "paper: Fig. 4(a)".into(),
            paper: Vec::new(),
            plot: Plot::Distributions {
                x: Measure::seconds("task duration"),
                series: ["fifo", "chronos(fifo)"].map(|policy| (policy.to_owned(), task_durations(policy))).into(),
            },
        },
        completion("chronos-4b", "Map-heavy jobs without a failure", "paper: Fig. 4(b)", NO_FAILURE, &papers_bases),
        per_policy(
            "chronos-wait",
            "From detection of the failure until all lost tasks have started",
            Measure::seconds("recovery wait"),
            [51.0, 1.5],
            &wait_s,
        ),
        per_policy(
            "chronos-recovery-locality",
            "Node-local recovery maps",
            Measure::fraction("fraction of the lost maps"),
            [0.125, 1.0],
            &recovery_locality,
        ),
        completion("chronos-any-map", "Chronos over six base policies, map-heavy", "paper: section III-A", MAP, &all),
        completion(
            "chronos-any-reduce",
            "Chronos over six base policies, reduce-heavy",
            "paper: section III-A",
            REDUCE,
            &all,
        ),
    ]
}

/// Tests of the explanations of the waits.
fn tests(runs: &Runs) -> Vec<SensitivityTable> {
    let row = |label: &str, suffix: &str| {
        let value = |workload: &str, policy: &str, figure: fn(&Run) -> f64| {
            Estimate::of(&runs.values(&format!("{workload}{suffix}"), policy, figure))
        };
        let figures = [
            value(MAP, "fifo", wait_s),
            value(MAP, "chronos(fifo)", wait_s),
            value(MAP, "chronos(fifo)", first_job_wait_s),
            value(REDUCE, "fifo", wait_s),
            value(REDUCE, "chronos(fifo)", wait_s),
            value(REDUCE, "chronos(fifo)", first_job_wait_s),
        ];
        (label.to_owned(), figures.into())
    };
    let mut rows = vec![row("as above", "")];
    rows.extend([SLOW_HEARTBEATS, NO_FLUSH, NO_CONTENTION].map(|name| row(name, &format!(", {name}"))));
    let columns = ["FIFO, all lost tasks", "Chronos, all lost tasks", "Chronos, the first job's"];
    let columns = [MAP, REDUCE].iter().flat_map(|case| columns.map(|column| format!("{case}: {column}")));
    vec![
        SensitivityTable {
            parameter: "recovery wait, s".into(),
            columns: columns.collect(),
            rows,
            unit: Unit::Seconds,
        },
        second_job(runs),
    ]
}

/// What the second job gains from the recovery of the first.
fn second_job(runs: &Runs) -> SensitivityTable {
    let row = |label: &str, case: fn(&str) -> String| {
        let change = |workload: &str, figure: fn(&Run) -> f64| {
            Estimate::of_changes(&runs.change(&case(workload), "fifo", "chronos(fifo)", figure))
        };
        (label.to_owned(), vec![change(MAP, first), change(MAP, second), change(REDUCE, first), change(REDUCE, second)])
    };
    let columns = [MAP, REDUCE].iter().flat_map(|case| JOBS.map(|job| format!("{case}: {job} job")));
    SensitivityTable {
        parameter: "completion, Chronos over FIFO".into(),
        columns: columns.collect(),
        rows: vec![row("as above", str::to_owned), row(LATE_SECOND_JOB, late_second_job)],
        unit: Unit::Change,
    }
}

/// Sensitivity to the time of the failure.
fn failure_times(runs: &Runs) -> SensitivityTable {
    let row = |at_s: f64| {
        let case = failure_at(at_s);
        let changes = [
            runs.change(&case, "fifo", "chronos(fifo)", first),
            runs.change(&case, "fifo", "chronos(fifo)", second),
            runs.change(&case, "fair", "chronos(fair)", first),
            runs.change(&case, "fair", "chronos(fair)", second),
        ];
        (format!("{at_s} s"), changes.iter().map(|values| Estimate::of_changes(values)).collect())
    };
    SensitivityTable {
        parameter: "map-heavy: time of the node failure".into(),
        columns: ["first job, over FIFO", "second job, over FIFO", "first job, over Fair", "second job, over Fair"]
            .map(String::from)
            .into(),
        rows: FAILURE_TIMES_S.map(row).into(),
        unit: Unit::Change,
    }
}
