//! Chronos: two jobs and a node that fails, under FIFO and Fair with and without it; and over schedulers the paper has not tried.

use super::lab::{Case, Run, Runs, Scale};
use super::recovery::Order;
use super::study::{Direction, Estimate, Figure, Headline, Measure, Plot, Sensitivity, Study, Unit};
use super::watch::Watch;
use giveway_core::JobId;

const MAP: &str = "map-heavy";
const REDUCE: &str = "reduce-heavy";
const CALM: &str = "no failure";
const BASES: [&str; 6] = ["fifo", "fair", "capacity", "hsrtf-pr", "coshh", "las"];
const JOBS: [&str; 2] = ["first", "second"];
/// When the node fails in the map experiment, beside the 135 s of the main one.
const FAILS_AT_S: [f64; 7] = [40.0, 70.0, 100.0, 135.0, 170.0, 200.0, 230.0];

/// What to run.
pub fn cases(scale: &Scale) -> Vec<Case> {
    let watch = Watch { recovery: true, ..Watch::default() };
    let both: Vec<String> = BASES.iter().flat_map(|base| [(*base).to_owned(), over(base)]).collect();
    let both: Vec<&str> = both.iter().map(String::as_str).collect();
    let mut cases = vec![
        Case::new(MAP, "chronos-map", &both, scale.seeds).watched(watch),
        Case::new(REDUCE, "chronos-reduce", &both, scale.seeds).watched(watch),
        Case::new(CALM, "chronos-map", &both, scale.seeds).on("chronos").watched(watch),
    ];
    for at_s in FAILS_AT_S {
        let case = Case::new(fails_at(at_s), "chronos-map", &both[..4], scale.sweep_seeds).watched(watch);
        cases.push(case.with(move |cluster, _| cluster.faults.scripted[0].at_s = at_s));
    }
    cases
}

fn over(base: &str) -> String {
    format!("chronos({base})")
}

fn fails_at(at_s: f64) -> String {
    format!("node fails after {at_s} s")
}

/// What came of it.
pub fn study(_: &Scale, runs: &Runs) -> Study {
    Study {
        paper: "chronos",
        title: "Chronos: failure-aware scheduling",
        about: "8 nodes, two word counts (17 and 56 GB) and then two sorts; one node falls silent and is given up after 25 s. Waits count from then on. The \
                order counts as violated while lost work of a job waits although a job behind it (FIFO) or over its share (Fair) holds slots of that kind.",
        headlines: headlines(runs),
        directions: directions(runs),
        figures: figures(runs),
        sensitivity: vec![when_it_fails(runs)],
    }
}

fn first(run: &Run) -> f64 {
    run.group_completion("first")
}

fn second(run: &Run) -> f64 {
    run.group_completion("second")
}

/// The paper's wait: until all recovery tasks have started; of the first job, whose work it speaks of.
fn wait(run: &Run) -> f64 {
    run.watched.recovery().until_all_run_s(JobId(0))
}

fn violated(order: Order) -> impl Fn(&Run) -> f64 {
    move |run| run.watched.recovery().violated_s(order)
}

fn recovery_locality(run: &Run) -> f64 {
    run.summary.details.recovery_locality.unwrap_or(f64::NAN)
}

fn headlines(runs: &Runs) -> Vec<Headline> {
    let change = |case: &str, base: &str, figure: fn(&Run) -> f64| runs.change(case, base, &over(base), figure);
    let level = |case: &str, policy: &str, figure: fn(&Run) -> f64| runs.each(case, policy, figure);
    let depends = "It is the time left to run for the tasks that hold the slots when the failure is noticed, so it follows from task times and the moment \
                   of the failure, both of which were chosen here.";
    let beats = "A lost map waits for the next beat of a node that has its data, which then ends a map early; the last of several counts.";
    let flush = "A lost reduce waits for the next beat of a node whose reduce is to pause; the last of several counts, and whoever pauses while it fetches first writes up \
                 to 128 MB to disk.";
    let saved = "What is saved is the wait of the lost tasks, so it follows from task times and the moment of the failure (see below).";
    let behind = "The second job has the slots for which the first one's lost tasks wait, so it hardly gains by their running sooner.";
    vec![
        Headline::level(
            "recovery wait under FIFO, map-heavy",
            "V-A",
            Unit::Seconds,
            51.0,
            &level(MAP, "fifo", wait),
            depends,
        ),
        Headline::level(
            "recovery wait with Chronos over FIFO, map-heavy",
            "V-A",
            Unit::Seconds,
            1.5,
            &level(MAP, "chronos(fifo)", wait),
            beats,
        ),
        Headline::level(
            "order violated under Fair, map-heavy",
            "V-A",
            Unit::Seconds,
            48.0,
            &runs.each(MAP, "fair", violated(Order::EqualShares)),
            depends,
        ),
        Headline::level(
            "order violated with Chronos over Fair, map-heavy",
            "V-A",
            Unit::Seconds,
            2.0,
            &runs.each(MAP, "chronos(fair)", violated(Order::EqualShares)),
            beats,
        ),
        Headline::level(
            "recovery wait under FIFO, reduces",
            "V-B",
            Unit::Seconds,
            325.0,
            &level(REDUCE, "fifo", wait),
            depends,
        ),
        Headline::level(
            "recovery wait with Chronos over FIFO, reduces",
            "V-B",
            Unit::Seconds,
            2.0,
            &level(REDUCE, "chronos(fifo)", wait),
            flush,
        ),
        Headline::level(
            "recovery maps near their data under FIFO",
            "V-A2",
            Unit::Part,
            0.125,
            &level(MAP, "fifo", recovery_locality),
            "Hadoop 1's FIFO looks for a local task of the job first in our reading, also among those that were lost; the paper's ran them anywhere.",
        ),
        Headline::level(
            "recovery maps near their data with Chronos over FIFO",
            "V-A2",
            Unit::Part,
            1.0,
            &level(MAP, "chronos(fifo)", recovery_locality),
            "Slots are freed on nodes that hold a replica.",
        ),
        Headline::change("first job, Chronos over FIFO, map-heavy", "V-A", -0.20, &change(MAP, "fifo", first), saved),
        Headline::change(
            "second job, Chronos over FIFO, map-heavy",
            "V-A",
            -0.10,
            &change(MAP, "fifo", second),
            behind,
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
            "The paper gives a range; that its lower end is the second job's is our guess.",
        ),
        Headline::change("first job, Chronos over FIFO, reduces", "V-B", -0.55, &change(REDUCE, "fifo", first), saved),
        Headline::change(
            "second job, Chronos over FIFO, reduces",
            "V-B",
            -0.11,
            &change(REDUCE, "fifo", second),
            behind,
        ),
        Headline::hardly(
            "no overhead without failures (FIFO, both jobs)",
            "V-C",
            f64::NAN,
            &change(CALM, "fifo", Run::completion),
            0.01,
            "Without a loss Chronos decides nothing.",
        ),
    ]
}

fn directions(runs: &Runs) -> Vec<Direction> {
    let mut all = Vec::new();
    for case in [MAP, REDUCE] {
        for base in BASES {
            let claim = format!("the first job finishes sooner with Chronos over {base}, {case}");
            all.push(Direction::down(claim, &runs.change(case, base, &over(base), first)).unless(
                "Chronos takes a slot only for work that outranks its holder in the base policy's own terms, and under this order the first job's does not.",
            ));
        }
    }
    // Two beats of a node are 6 s.
    let within = |case: &str, base: &str| -> Vec<f64> {
        runs.each(case, &over(base), wait).iter().map(|wait_s| wait_s - 6.0).collect()
    };
    // Reduces under Fair are left out: there the first job may already hold its share, and then has no right to more.
    for (case, base) in [(MAP, "fifo"), (MAP, "fair"), (REDUCE, "fifo")] {
        let claim = format!(
            "lost tasks of the first job run again within two beats of a node with Chronos over {base}, {case}"
        );
        all.push(Direction::down(claim, &within(case, base)));
    }
    for (base, order) in [("fifo", Order::Submission), ("fair", Order::EqualShares)] {
        let values = runs.change(MAP, base, &over(base), violated(order));
        all.push(Direction::down(
            format!("the order of {base} is violated for a shorter time with Chronos, {MAP}"),
            &values,
        ));
    }
    all
}

fn figures(runs: &Runs) -> Vec<Figure> {
    let four = |bases: [&str; 2]| bases.iter().flat_map(|base| [(*base).to_owned(), over(base)]).collect::<Vec<_>>();
    let by_job =
        |case: &str, policies: &[String], figure: &dyn Fn(&Run, &str) -> f64| -> Vec<(String, Vec<Estimate>)> {
            let of = |policy: &String| {
                JOBS.iter().map(|job| Estimate::of(&runs.each(case, policy, |run| figure(run, job)))).collect()
            };
            policies.iter().map(|policy| (policy.clone(), of(policy))).collect()
        };
    let jobs: Vec<String> = JOBS.iter().map(|job| format!("{job} job")).collect();
    let completion = |id: &str, title: &str, answers: &str, case: &str, policies: &[String]| Figure {
        id: id.into(),
        title: title.into(),
        answers: answers.into(),
        plot: Plot::Bars {
            y: Measure::seconds("completion time"),
            categories: jobs.clone(),
            series: by_job(case, policies, &|run, job| run.group_completion(job)),
        },
    };
    let named = four(["fifo", "fair"]);
    let all: Vec<String> = BASES.iter().flat_map(|base| [(*base).to_owned(), over(base)]).collect();
    let per_policy = |id: &str, title: &str, answers: &str, y: Measure, figure: &dyn Fn(&Run) -> f64| Figure {
        id: id.into(),
        title: title.into(),
        answers: answers.into(),
        plot: Plot::Bars {
            y,
            categories: BASES.map(String::from).into(),
            series: [("without Chronos", false), ("with Chronos", true)]
                .map(|(name, with)| {
                    let of = |base: &&str| {
                        let policy = if with { over(base) } else { (*base).to_owned() };
                        Estimate::of(&runs.each(MAP, &policy, figure))
                    };
                    (name.to_owned(), BASES.iter().map(of).collect())
                })
                .into(),
        },
    };
    let locality = |run: &Run, job: &str| run.group(job).key_metrics.locality_node.unwrap_or(f64::NAN);
    let task_times = |policy: &str| -> Vec<f64> {
        runs.get(MAP, policy).iter().flat_map(|run| run.watched.recovery().task_s().iter().copied()).collect()
    };
    vec![
        completion("chronos-1", "Map-heavy jobs with a failure", "its Fig. 1", MAP, &named),
        Figure {
            id: "chronos-2".into(),
            title: "Maps that ran on a node with their data".into(),
            answers: "its Fig. 2".into(),
            plot: Plot::Bars {
                y: Measure::part("part of all map launches"),
                categories: jobs.clone(),
                series: by_job(MAP, &named, &locality),
            },
        },
        completion("chronos-3", "Reduce-heavy jobs with a failure", "its Fig. 3", REDUCE, &named),
        Figure {
            id: "chronos-4a".into(),
            title: "How long tasks that finished took".into(),
            answers: "its Fig. 4(a)".into(),
            plot: Plot::Distributions {
                x: Measure::seconds("task time"),
                series: ["fifo", "chronos(fifo)"].map(|policy| (policy.to_owned(), task_times(policy))).into(),
            },
        },
        completion("chronos-4b", "The same jobs without a failure", "its Fig. 4(b)", CALM, &named),
        per_policy(
            "chronos-wait",
            "From the notice of the failure until all lost tasks of the first job run",
            "its section V-A, and schedulers it has not tried",
            Measure::seconds("recovery wait"),
            &wait,
        ),
        per_policy(
            "chronos-recovery-locality",
            "Lost maps that ran again on a node with their data",
            "its section V-A2, and schedulers it has not tried",
            Measure::part("part of the lost maps"),
            &recovery_locality,
        ),
        completion("chronos-any-map", "Over any scheduler: map-heavy", "its section III-A", MAP, &all),
        completion("chronos-any-reduce", "Over any scheduler: reduce-heavy", "its section III-A", REDUCE, &all),
    ]
}

/// The failure at other moments.
fn when_it_fails(runs: &Runs) -> Sensitivity {
    let row = |at_s: f64| {
        let case = fails_at(at_s);
        let changes = [
            runs.change(&case, "fifo", "chronos(fifo)", first),
            runs.change(&case, "fifo", "chronos(fifo)", second),
            runs.change(&case, "fair", "chronos(fair)", first),
            runs.change(&case, "fair", "chronos(fair)", second),
        ];
        (format!("{at_s} s"), changes.iter().map(|values| Estimate::of(values)).collect())
    };
    Sensitivity {
        parameter: "map-heavy: the node fails after".into(),
        columns: ["first job, over FIFO", "second job, over FIFO", "first job, over Fair", "second job, over Fair"]
            .map(String::from)
            .into(),
        rows: FAILS_AT_S.map(row).into(),
        unit: Unit::Change,
    }
}
