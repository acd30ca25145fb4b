//! hSRTF: the six schedulers of its Table 1 on the mix of its Table 2, our variants that keep the work, and two ideas of its last section.

use super::lab::{Case, Run, Runs, Scale};
use super::study::{Direction, Estimate, Figure, Headline, Measure, Plot, Study, Unit};
use super::vary::{Column, DISK, Knob, LAUNCH, NOISE, REDUCES, SPEED};
use giveway_core::Span;
use giveway_core::policy::{AttemptOrder, Policy, catalog};
use giveway_sim::metrics::JobMetrics;

const MIX: &str = "mix";
const GROUPS: [&str; 3] = ["small", "medium", "large"];
/// Table 1.
const TABLE_1: [&str; 6] = ["fifo", "fair", "hsrtf-pu", "hsrtf-pup", "hsrtf-pr", "hsrtf-prp"];
const ALL: [&str; 8] =
    ["fifo", "fair", "hsrtf-pu", "hsrtf-pup", "hsrtf-pr", "hsrtf-prp", "hsrtf-pup-pause", "hsrtf-prp-pause"];
const DELAYING: &str = "hsrtf-pr, small jobs hold out for their data";
const DATA_AWARE: &str = "hsrtf-prp-pause, victims near the data";
const KNOBS: [&Knob; 5] = [&SPEED, &DISK, &REDUCES, &NOISE, &LAUNCH];
/// What the sensitivity tables compare.
const COMPARED: [&str; 3] = ["fifo", "fair", "hsrtf-pr"];

/// What to run.
pub fn cases(scale: &Scale) -> Vec<Case> {
    let mut cases = vec![Case::new(MIX, "hsrtf-table2", &ALL, scale.seeds).and_under([delaying(), data_aware()])];
    for knob in KNOBS {
        cases.extend(knob.cases(MIX, "hsrtf-table2", &COMPARED, scale.sweep_seeds));
    }
    cases
}

/// Section 6: small jobs wait a little for a node with their data, as in delay scheduling.
fn delaying() -> Policy {
    let mut policy = catalog::by_name("hsrtf-pr").expect("in the catalogue");
    policy.name = DELAYING.into();
    policy.map.placement.node_locality_delay = Span::from_secs(5);
    policy.map.placement.rack_locality_delay = Span::from_secs(5);
    policy.map.placement.delay_max_maps = Some(10);
    policy
}

/// Section 6: whoever gives way does so where the taker's data is.
fn data_aware() -> Policy {
    let mut policy = catalog::by_name("hsrtf-prp-pause").expect("in the catalogue");
    policy.name = DATA_AWARE.into();
    for preemption in policy.map.preempt.iter_mut().chain(&mut policy.reduce.preempt) {
        preemption.attempt = AttemptOrder::NearData;
    }
    policy
}

/// What came of it.
pub fn study(_: &Scale, runs: &Runs) -> Study {
    Study {
        paper: "hsrtf",
        title: "hSRTF: shortest remaining time first",
        about: "58 nodes, 31 jobs one every ten seconds (its Table 2), six schedulers (its Table 1), and ours that keep the work of those who give way. Times \
                are from submission to finish, which the paper calls makespan.",
        headlines: headlines(runs),
        directions: directions(runs),
        figures: figures(runs),
        sensitivity: KNOBS.iter().map(|knob| knob.table(MIX, runs, &COLUMNS)).collect(),
    }
}

const COLUMNS: [Column; 4] = [
    Column { name: "small, Pr against FIFO", of: |runs, case| runs.change(case, "fifo", "hsrtf-pr", small) },
    Column { name: "small, Pr against Fair", of: |runs, case| runs.change(case, "fair", "hsrtf-pr", small) },
    Column { name: "large, Pr against FIFO", of: |runs, case| runs.change(case, "fifo", "hsrtf-pr", large) },
    Column { name: "large, Pr against Fair", of: |runs, case| runs.change(case, "fair", "hsrtf-pr", large) },
];

fn small(run: &Run) -> f64 {
    run.group_completion("small")
}

fn medium(run: &Run) -> f64 {
    run.group_completion("medium")
}

fn large(run: &Run) -> f64 {
    run.group_completion("large")
}

fn small_wait(run: &Run) -> f64 {
    run.group("small").key_metrics.mean_wait_s.unwrap_or(f64::NAN)
}

fn small_locality(run: &Run) -> f64 {
    run.group("small").key_metrics.locality_node.unwrap_or(f64::NAN)
}

fn headlines(runs: &Runs) -> Vec<Headline> {
    let change = |from: &str, to: &str, figure: fn(&Run) -> f64| runs.change(MIX, from, to, figure);
    vec![
        Headline::change(
            "small jobs, Pu against FIFO",
            "5.1",
            -0.43,
            &change("fifo", "hsrtf-pu", small),
            "As in the paper the gain is in execution, not in waiting for the first map: FIFO keeps reduces of small jobs waiting behind those of large sorts. \
             How much that is depends on how long those reduces last, which the paper does not say.",
        ),
        Headline::change(
            "small jobs, Pr against FIFO",
            "abstract",
            -0.45,
            &change("fifo", "hsrtf-pr", small),
            "The same; without preemption a small job still waits for the first reduce slot that comes free.",
        ),
        Headline::change(
            "small jobs, Pr against Fair",
            "abstract",
            -0.26,
            &change("fair", "hsrtf-pr", small),
            "Under Fair no small job waits long for a map slot here, so the paper's huge waiting times, which Pr removes, are not there to be removed.",
        ),
        Headline::change(
            "large jobs, Pr against FIFO",
            "abstract",
            0.10,
            &change("fifo", "hsrtf-pr", large),
            "Ours is less loaded than the paper's cluster must have been, so large jobs give up less: with slower slots or disks it is more \
             (see below).",
        ),
        Headline::hardly(
            "large jobs, Pr against Fair: hardly slower",
            "abstract",
            0.002,
            &change("fair", "hsrtf-pr", large),
            0.05,
            "Neither takes slots away once they are given.",
        ),
        Headline::rises(
            "large jobs, PrP against Pr: preemption lengthens them",
            "5.3",
            &change("hsrtf-pr", "hsrtf-prp", large),
            "Killed tasks begin again. The paper prints no figure, so only the direction can be compared.",
        ),
        Headline::level(
            "small jobs that read on their own node under Fair",
            "Fig. 3(a)",
            Unit::Part,
            1.0,
            &runs.each(MIX, "fair", small_locality),
            "Delay scheduling waits for a node with the data.",
        ),
        Headline::level(
            "small jobs that read on their own node under Pr",
            "Fig. 3(a)",
            Unit::Part,
            0.05,
            &runs.each(MIX, "hsrtf-pr", small_locality),
            "Three replicas on 58 nodes: whoever takes the first free slot finds its data there one time in nineteen.",
        ),
    ]
}

const NO_WAIT: &str = "Without preemption map slots are free when the small jobs come, so their first map starts with the next beat and there is no waiting to cut. With it the large \
                       jobs, whose killed tasks begin again, may still hold the slots then, and who takes one waits until it has been freed.";

fn directions(runs: &Runs) -> Vec<Direction> {
    let down = |claim: &str, from: &str, to: &str, figure: fn(&Run) -> f64| {
        Direction::down(claim, &runs.change(MIX, from, to, figure))
    };
    vec![
        down("small jobs finish sooner under hsrtf-pr than under fifo", "fifo", "hsrtf-pr", small),
        down("small jobs finish sooner under hsrtf-pr than under fair", "fair", "hsrtf-pr", small),
        down("small jobs finish sooner under hsrtf-pu than under fifo", "fifo", "hsrtf-pu", small),
        down("small jobs wait less with preemption (PrP against Pr)", "hsrtf-pr", "hsrtf-prp", small_wait)
            .unless(NO_WAIT),
        down("small jobs wait less with preemption (PuP against Pu)", "hsrtf-pu", "hsrtf-pup", small_wait)
            .unless(NO_WAIT),
        down("large jobs finish later with preemption that kills (PrP against Pr)", "hsrtf-prp", "hsrtf-pr", large),
        down("medium jobs finish sooner under hsrtf-pr than under fair", "fair", "hsrtf-pr", medium),
        down("pausing beats killing, all jobs (PrP)", "hsrtf-prp", "hsrtf-prp-pause", Run::completion),
        down("pausing beats killing, all jobs (PuP)", "hsrtf-pup", "hsrtf-pup-pause", Run::completion),
        down("pausing beats killing, large jobs (PrP)", "hsrtf-prp", "hsrtf-prp-pause", large),
    ]
}

fn figures(runs: &Runs) -> Vec<Figure> {
    let mut figures = Vec::new();
    type Time = fn(&JobMetrics) -> f64;
    let times: [(&str, Time); 3] = [
        ("makespan", |job| job.completion_s),
        ("waiting time", |job| job.wait_s),
        ("execution time", |job| job.execution_s),
    ];
    for (row, (time, of)) in times.into_iter().enumerate() {
        for (column, group) in GROUPS.into_iter().enumerate() {
            let values = |policy: &str| -> Vec<f64> {
                let jobs = runs.get(MIX, policy).iter().flat_map(|run| &run.jobs);
                jobs.filter(|job| usize::from(job.group) == column).map(of).collect()
            };
            let letter = char::from(b'a' + (row * 3 + column) as u8);
            figures.push(Figure {
                id: format!("hsrtf-2{letter}"),
                title: format!("{}, {group} jobs", capital(time)),
                answers: format!("its Fig. 2({letter})"),
                plot: Plot::Distributions {
                    x: Measure::seconds(time),
                    series: ALL.iter().map(|policy| ((*policy).into(), values(policy))).collect(),
                },
            });
        }
    }
    let by_group = |policy: &str, figure: &dyn Fn(&Run, &str) -> f64| -> Vec<Estimate> {
        GROUPS.iter().map(|group| Estimate::of(&runs.each(MIX, policy, |run| figure(run, group)))).collect()
    };
    let locality = |run: &Run, group: &str| run.group(group).key_metrics.locality_node.unwrap_or(f64::NAN);
    let bars = |y: Measure, policies: &[&str], figure: &dyn Fn(&Run, &str) -> f64| Plot::Bars {
        y,
        categories: GROUPS.map(String::from).into(),
        series: policies.iter().map(|policy| ((*policy).into(), by_group(policy, figure))).collect(),
    };
    figures.push(Figure {
        id: "hsrtf-3".into(),
        title: "Maps that ran on a node with their data".into(),
        answers: "its Fig. 3".into(),
        plot: bars(Measure::part("part of all map launches"), &TABLE_1, &locality),
    });
    let ideas = ["hsrtf-pr", DELAYING, "hsrtf-prp", "hsrtf-prp-pause", DATA_AWARE];
    figures.push(Figure {
        id: "hsrtf-future-time".into(),
        title: "Keeping the work, holding out for data, data-aware victims: mean makespan".into(),
        answers: "its section 6, future work".into(),
        plot: bars(Measure::seconds("mean makespan"), &ideas, &|run, group| run.group_completion(group)),
    });
    figures.push(Figure {
        id: "hsrtf-future-locality".into(),
        title: "Keeping the work, holding out for data, data-aware victims: locality".into(),
        answers: "its section 6, future work".into(),
        plot: bars(Measure::part("part of all map launches"), &ideas, &locality),
    });
    figures
}

fn capital(words: &str) -> String {
    let mut letters = words.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}
