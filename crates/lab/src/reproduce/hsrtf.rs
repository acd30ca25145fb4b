//! hSRTF: the six schedulers of the paper's Table 1 on the workload of its Table 2, our variants that preempt without losing work, and two
//! ideas of its section 6.

use super::estimate::{Estimate, Unit};
use super::experiment::{Case, Run, Runs, Scale};
use super::observation::ObservationOptions;
use super::sensitivity::{CORE_SPEED, CORES, Column, DISK_RATE, LAUNCH, NOISE, PAGE_CACHE, Parameter, REDUCE_COMPUTE};
use super::study::{Figure, Measure, PaperValue, Plot, SensitivityTable, Study};
use super::variants::{setting, value, variant};
use super::verdict::{Direction, Headline};
use anyhow::Result;
use giveway_core::{JobId, Policy, Time};
use giveway_sim::metrics::JobMetrics;
use giveway_sim::workload::{JobPlan, Workload};

const MIX: &str = "mix";
const GROUPS: [&str; 3] = ["small", "medium", "large"];
/// Number of the group of large jobs.
const LARGE: u16 = 2;
/// The schedulers of Table 1.
const TABLE_1: [&str; 6] = ["fifo", "fair", "hsrtf-pu", "hsrtf-pup", "hsrtf-pr", "hsrtf-prp"];
const ALL: [&str; 8] =
    ["fifo", "fair", "hsrtf-pu", "hsrtf-pup", "hsrtf-pr", "hsrtf-prp", "hsrtf-pup-pause", "hsrtf-prp-pause"];
const DELAY: &str = "hsrtf-pr, delay scheduling for small jobs";
const DATA_AWARE: &str = "hsrtf-prp-pause, data-aware victims";
/// Pr without waiting for a node that ran maps of the job (section 3.4).
const NO_COLOCATION: &str = "hsrtf-pr, no co-location";
/// A job takes a slot only if its remaining time is shorter by half.
const MARGIN: f64 = 1.5;
const PUP_MARGIN: &str = "hsrtf-pup, margin 1.5";
/// The model that was used before tasks contended: half a core and 20 MB/s for every slot, also on an idle node.
const NO_CONTENTION: &str = "no contention";
/// Factors on the compute time of reduces.
const LONG_REDUCES: [f64; 2] = [4.0, 8.0];
/// Reduces that take as different times as the paper's cluster may have had.
const NOISY: &str = "noise 0.3";
/// The last job of Table 2 submitted first, so that medium jobs come before fewer large ones and FIFO serves the small jobs first.
const REVERSED: &str = "jobs submitted in reverse order";
const PARAMETERS: [&Parameter; 7] = [&CORES, &CORE_SPEED, &DISK_RATE, &PAGE_CACHE, &REDUCE_COMPUTE, &NOISE, &LAUNCH];
/// The policies that the sensitivity tables compare.
const COMPARED: [&str; 3] = ["fifo", "fair", "hsrtf-pr"];

/// The cases to run.
pub fn cases(scale: &Scale) -> Result<Vec<Case>> {
    let kills = ObservationOptions { kills: true, ..ObservationOptions::default() };
    let variants = [
        delay_small_jobs()?,
        data_aware_victims()?,
        variant("hsrtf-pr", NO_COLOCATION, &[(setting::COLOCATION_DELAY, "0s".into())])?,
        // PrP takes slots by share, for which there is no margin.
        variant(
            "hsrtf-pup",
            PUP_MARGIN,
            &[(setting::MAP_MARGIN, MARGIN.into()), (setting::REDUCE_MARGIN, MARGIN.into())],
        )?,
    ];
    let mut cases = vec![
        Case::new(MIX, "hsrtf-table2", &ALL, scale.seeds).with_policies(variants).observed(kills),
        Case::new(NO_CONTENTION, "hsrtf-table2", &TABLE_1, scale.seeds).modified(|cluster, _| {
            for node in &mut cluster.nodes {
                (node.shared, node.spec.speed_ppm, node.spec.disk_bytes_per_s) = (None, 500_000, 20 << 20);
            }
        }),
        Case::new(NOISY, "hsrtf-table2", &TABLE_1, scale.seeds).modified(|cluster, _| cluster.noise = 0.3),
        Case::new(REVERSED, "hsrtf-table2", &TABLE_1, scale.seeds).modified(|_, workload| reverse(workload)),
    ];
    for factor in LONG_REDUCES {
        let longer = move |job: &mut JobPlan| job.reduce_compute = job.reduce_compute.scaled(factor);
        let case = Case::new(long_reduces(factor), "hsrtf-table2", &COMPARED, scale.seeds);
        cases.push(case.modified(move |_, workload| workload.jobs.iter_mut().for_each(longer)));
    }
    for parameter in PARAMETERS {
        cases.extend(parameter.cases(MIX, "hsrtf-table2", &COMPARED, scale.sweep_seeds));
    }
    Ok(cases)
}

/// Gives the last job the submission time of the first, and so on.
fn reverse(workload: &mut Workload) {
    let times: Vec<Time> = workload.jobs.iter().rev().map(|job| job.submit).collect();
    workload.jobs.iter_mut().zip(times).for_each(|(job, submit)| job.submit = submit);
    workload.jobs.sort_by_key(|job| job.submit);
    (0..).zip(&mut workload.jobs).for_each(|(number, job)| job.id = JobId(number));
}

fn long_reduces(factor: f64) -> String {
    format!("reduces {factor} times longer")
}

/// Section 6: delay scheduling for small jobs.
fn delay_small_jobs() -> Result<Policy> {
    let settings = [
        (setting::MAP_NODE_DELAY, "5s".into()),
        (setting::MAP_RACK_DELAY, "5s".into()),
        (setting::MAP_DELAY_MAX_MAPS, 10.into()),
    ];
    variant("hsrtf-pr", DELAY, &settings)
}

/// Section 6: victims are chosen on nodes that hold data of the preempting job.
fn data_aware_victims() -> Result<Policy> {
    let settings = [
        (setting::MAP_VICTIM_ATTEMPT, value::NEAR_DATA.into()),
        (setting::REDUCE_VICTIM_ATTEMPT, value::NEAR_DATA.into()),
    ];
    variant("hsrtf-prp-pause", DATA_AWARE, &settings)
}

/// Evaluates the runs.
pub fn study(_: &Scale, runs: &Runs) -> Study {
    Study {
        paper: "hsrtf",
        title: "hSRTF: shortest remaining time first",
        about: "58 nodes; 31 jobs, one submitted every 10 s (the paper's Table 2); the six schedulers of the paper's Table 1, and our variants that preempt without \
                losing work. Times are from submission to completion, which the paper calls makespan.",
        headlines: headlines(runs),
        directions: directions(runs),
        figures: figures(runs),
        tests: tests(runs),
        sensitivity: PARAMETERS.iter().map(|parameter| parameter.table(MIX, runs, &COLUMNS)).collect(),
    }
}

const COLUMNS: [Column; 4] = [
    Column { name: "small jobs, Pr against FIFO", values: |runs, case| runs.change(case, "fifo", "hsrtf-pr", small) },
    Column { name: "small jobs, Pr against Fair", values: |runs, case| runs.change(case, "fair", "hsrtf-pr", small) },
    Column { name: "large jobs, Pr against FIFO", values: |runs, case| runs.change(case, "fifo", "hsrtf-pr", large) },
    Column { name: "large jobs, Pr against Fair", values: |runs, case| runs.change(case, "fair", "hsrtf-pr", large) },
];

fn small(run: &Run) -> f64 {
    run.group_completion_s("small")
}

fn medium(run: &Run) -> f64 {
    run.group_completion_s("medium")
}

fn large(run: &Run) -> f64 {
    run.group_completion_s("large")
}

fn small_wait_s(run: &Run) -> f64 {
    run.group("small").key_metrics.mean_wait_s.unwrap_or(f64::NAN)
}

fn small_locality(run: &Run) -> f64 {
    run.group("small").key_metrics.locality_node.unwrap_or(f64::NAN)
}

fn headlines(runs: &Runs) -> Vec<Headline> {
    let change = |from: &str, to: &str, figure: fn(&Run) -> f64| runs.change(MIX, from, to, figure);
    vec![
        Headline::change("small jobs, Pu against FIFO", "5.1", -0.43, &change("fifo", "hsrtf-pu", small), FEW_BLOCKED),
        Headline::change(
            "small jobs, Pr against FIFO",
            "abstract",
            -0.45,
            &change("fifo", "hsrtf-pr", small),
            FEW_BLOCKED,
        ),
        Headline::change(
            "small jobs, Pr against Fair",
            "abstract",
            -0.26,
            &change("fair", "hsrtf-pr", small),
            "Under Fair no small job waits long for a map slot here, and few wait for a reduce slot. The long waits that the paper reports for Fair, and that Pr removes, do not occur.",
        ),
        Headline::change(
            "large jobs, Pr against FIFO",
            "abstract",
            0.10,
            &change("fifo", "hsrtf-pr", large),
            "Large jobs lose what others take from them. Tested: with disks half as fast, on which the sorts queue longer, they lose several times as much (see the sensitivity tables).",
        ),
        Headline::within_limit(
            "large jobs, Pr against Fair: no significant slowdown",
            "abstract",
            0.002,
            &change("fair", "hsrtf-pr", large),
            0.05,
            "Neither policy preempts.",
        ),
        Headline::increase(
            "large jobs, PrP against Pr: preemption lengthens them",
            "5.3",
            &change("hsrtf-pr", "hsrtf-prp", large),
            "Killed tasks start again from the beginning. The paper gives no number, so only the direction can be compared.",
        ),
        Headline::no_decrease(
            "small jobs, PrP against Pr: preemption does not shorten them",
            "5.1",
            &change("hsrtf-pr", "hsrtf-prp", small),
            NOT_SHORTENED,
        ),
        Headline::no_decrease(
            "small jobs, PuP against Pu: preemption does not shorten them",
            "5.1",
            &change("hsrtf-pu", "hsrtf-pup", small),
            NOT_SHORTENED,
        ),
        Headline::decrease("medium jobs, Pr against FIFO", "5.2", &change("fifo", "hsrtf-pr", medium), MEDIUM),
        Headline::decrease("medium jobs, Pr against Fair", "5.2", &change("fair", "hsrtf-pr", medium), MEDIUM),
        Headline::decrease("medium jobs, Pr against Pu", "5.2", &change("hsrtf-pu", "hsrtf-pr", medium), MEDIUM),
        Headline::decrease("medium jobs, Pr against PuP", "5.2", &change("hsrtf-pup", "hsrtf-pr", medium), MEDIUM),
        Headline::decrease("medium jobs, Pr against PrP", "5.2", &change("hsrtf-prp", "hsrtf-pr", medium), MEDIUM),
        Headline::level(
            "node-local maps of small jobs under Fair",
            "Fig. 3(a)",
            Unit::Fraction,
            1.0,
            &runs.values(MIX, "fair", small_locality),
            "Delay scheduling waits for a node with the data.",
        ),
        Headline::level(
            "node-local maps of small jobs under Pr",
            "Fig. 3(a)",
            Unit::Fraction,
            0.05,
            &runs.values(MIX, "hsrtf-pr", small_locality),
            "With three replicas on 58 nodes, the first free slot is on a node with the data in one of 19 cases.",
        ),
    ]
}

const FEW_BLOCKED: &str = "When the small jobs arrive, the reduces of most sorts have ended here, so few small jobs find the reduce slots taken under FIFO. Tested: with longer reduces or slower disks, which \
                           the paper's cluster may have had, the effect is several times as large; the price of an idle node alone makes it smaller, because the sorts end sooner too \
                           (see the tests and the sensitivity tables).";
const NOT_SHORTENED: &str = "The paper: makespans were not reduced, because reduce slots were freed on other nodes than those of the job's maps.";
const MEDIUM: &str = "The paper finds Pr superior to all other schedulers for medium jobs, and gives no numbers. Here medium jobs are served before the small ones under FIFO, and under PrP they take \
                      slots from the large jobs, which then take longer (see the kills below). Tested: with the jobs submitted in reverse order Pr is ahead of all but FIFO, by 0.2 to 44 % (see the tests).";

/// Tests of the explanations.
fn tests(runs: &Runs) -> Vec<SensitivityTable> {
    let columns = || COLUMNS.iter().map(|column| column.name.to_owned()).collect();
    let headlines_in = |label: &str, case: &str| {
        (label.to_owned(), COLUMNS.iter().map(|column| Estimate::of_changes(&(column.values)(runs, case))).collect())
    };
    let seconds = |policy: &str| {
        let of = |figure: fn(&Run) -> f64| Estimate::of(&runs.values(MIX, policy, figure));
        (policy.to_owned(), vec![of(small), of(medium), of(large)])
    };
    let kills = |policy: &str| {
        let of = |figure: &dyn Fn(&Run) -> f64| Estimate::of(&runs.values(MIX, policy, figure));
        let all = |run: &Run| run.observed.kills().len() as f64;
        let between_large = |run: &Run| {
            let is_large = |job: JobId| run.jobs.iter().any(|ended| ended.job == job && ended.group == LARGE);
            run.observed.kills().iter().filter(|(victim, winner)| is_large(*victim) && is_large(*winner)).count() as f64
        };
        (policy.to_owned(), vec![of(&all), of(&between_large), of(&small), of(&medium), of(&large)])
    };
    let medium_jobs = |label: &str, case: &str| {
        let change = |from: &str| Estimate::of_changes(&runs.change(case, from, "hsrtf-pr", medium));
        (label.to_owned(), ["fifo", "fair", "hsrtf-pu", "hsrtf-pup", "hsrtf-prp"].map(change).into())
    };
    vec![
        SensitivityTable {
            parameter: "medium jobs under Pr (section 5.2)".into(),
            columns: ["against FIFO", "against Fair", "against Pu", "against PuP", "against PrP"].map(String::from).into(),
            rows: vec![medium_jobs("jobs in the order of Table 2 (as above)", MIX), medium_jobs(REVERSED, REVERSED)],
            unit: Unit::Change,
        },
        SensitivityTable {
            parameter: "what the model of the machines does".into(),
            columns: columns(),
            rows: vec![
                headlines_in("tasks contend for cores and disk (as above)", MIX),
                headlines_in("no contention: half a core and 20 MB/s for every slot, also on an idle node", NO_CONTENTION),
                headlines_in("contention, and task times that vary more (noise 0.3)", NOISY),
                headlines_in("contention, and reduces that compute 4 times longer", &long_reduces(LONG_REDUCES[0])),
                headlines_in("contention, and reduces that compute 8 times longer", &long_reduces(LONG_REDUCES[1])),
            ],
            unit: Unit::Change,
        },
        SensitivityTable {
            parameter: "mean makespan, s: what co-location does (section 3.4)".into(),
            columns: GROUPS.map(|group| format!("{group} jobs")).into(),
            rows: ["fifo", "fair", "hsrtf-pu", "hsrtf-pr", NO_COLOCATION].map(seconds).into(),
            unit: Unit::Seconds,
        },
        SensitivityTable {
            parameter: "kills by preemption, and mean makespan in seconds; with a margin, jobs of similar remaining time take fewer slots from each other".into(),
            columns: ["kills", "of these from a large job for a large job", "small jobs", "medium jobs", "large jobs"]
                .map(String::from)
                .into(),
            rows: ["hsrtf-pup", PUP_MARGIN, "hsrtf-prp"].map(kills).into(),
            unit: Unit::Plain,
        },
    ]
}

const NO_WAIT: &str = "Without preemption, map slots are free when the small jobs arrive: the first map starts with the next heartbeat, so there is no wait to reduce. With preemption, \
                       large jobs, whose killed tasks start again, may still occupy the slots at that time, and a small job waits until a preempted slot is free.";

const CLOSE: &str = "The difference is a few percent, about as much as between seeds.";

fn directions(runs: &Runs) -> Vec<Direction> {
    let decrease = |claim: &str, from: &str, to: &str, figure: fn(&Run) -> f64| {
        Direction::decrease(claim, &runs.change(MIX, from, to, figure))
    };
    vec![
        decrease("small jobs finish sooner under hsrtf-pr than under fifo", "fifo", "hsrtf-pr", small),
        decrease("small jobs finish sooner under hsrtf-pr than under fair", "fair", "hsrtf-pr", small)
            .with_exception(CLOSE),
        decrease("small jobs finish sooner under hsrtf-pu than under fifo", "fifo", "hsrtf-pu", small),
        decrease("small jobs wait less with preemption (PrP against Pr)", "hsrtf-pr", "hsrtf-prp", small_wait_s)
            .with_exception(NO_WAIT),
        decrease("small jobs wait less with preemption (PuP against Pu)", "hsrtf-pu", "hsrtf-pup", small_wait_s)
            .with_exception(NO_WAIT),
        decrease("large jobs finish later with preemption by kill (PrP against Pr)", "hsrtf-prp", "hsrtf-pr", large),
        decrease("medium jobs finish sooner under hsrtf-pr than under fair", "fair", "hsrtf-pr", medium)
            .with_exception(CLOSE),
        decrease(
            "all jobs finish sooner with pause than with kill (PrP)",
            "hsrtf-prp",
            "hsrtf-prp-pause",
            Run::completion_s,
        ),
        decrease(
            "all jobs finish sooner with pause than with kill (PuP)",
            "hsrtf-pup",
            "hsrtf-pup-pause",
            Run::completion_s,
        ),
        decrease("large jobs finish sooner with pause than with kill (PrP)", "hsrtf-prp", "hsrtf-prp-pause", large),
    ]
}

fn figures(runs: &Runs) -> Vec<Figure> {
    let mut figures = Vec::new();
    type JobTime = fn(&JobMetrics) -> f64;
    let times: [(&str, JobTime); 3] = [
        ("makespan", |job| job.completion_s),
        ("waiting time", |job| job.wait_s),
        ("execution time", |job| job.execution_s),
    ];
    for (row, (time, value)) in times.into_iter().enumerate() {
        for (column, group) in GROUPS.into_iter().enumerate() {
            let values = |policy: &str| -> Vec<f64> {
                let jobs = runs.get(MIX, policy).iter().flat_map(|run| &run.jobs);
                jobs.filter(|job| usize::from(job.group) == column).map(value).collect()
            };
            let letter = char::from(b'a' + (row * 3 + column) as u8);
            figures.push(Figure {
                id: format!("hsrtf-2{letter}"),
                title: format!("{}, {group} jobs", capitalized(time)),
                counterpart: format!("paper: Fig. 2({letter})"),
                paper: Vec::new(),
                plot: Plot::Distributions {
                    x: Measure::seconds(time),
                    series: ALL.iter().map(|policy| ((*policy).into(), values(policy))).collect(),
                },
            });
        }
    }
    let by_group = |policy: &str, figure: &dyn Fn(&Run, &str) -> f64| -> Vec<Estimate> {
        GROUPS.iter().map(|group| Estimate::of(&runs.values(MIX, policy, |run| figure(run, group)))).collect()
    };
    let locality = |run: &Run, group: &str| run.group(group).key_metrics.locality_node.unwrap_or(f64::NAN);
    let bars = |y: Measure, policies: &[&str], figure: &dyn Fn(&Run, &str) -> f64| Plot::Bars {
        y,
        categories: GROUPS.map(String::from).into(),
        series: policies.iter().map(|policy| ((*policy).into(), by_group(policy, figure))).collect(),
    };
    figures.push(Figure {
        id: "hsrtf-3".into(),
        title: "Node-local maps".into(),
        counterpart: "paper: Fig. 3; its text gives two values".into(),
        paper: vec![PaperValue::new("fair", "small", 1.0), PaperValue::new("hsrtf-pr", "small", 0.05)],
        plot: bars(Measure::fraction("fraction of map launches"), &TABLE_1, &locality),
    });
    let future_work = ["hsrtf-pr", DELAY, "hsrtf-prp", "hsrtf-prp-pause", DATA_AWARE];
    figures.push(Figure {
        id: "hsrtf-future-time".into(),
        title: "Pause instead of kill, delay scheduling, data-aware victims: mean makespan".into(),
        counterpart: "paper: section 6, future work".into(),
        paper: Vec::new(),
        plot: bars(Measure::seconds("mean makespan"), &future_work, &|run, group| run.group_completion_s(group)),
    });
    figures.push(Figure {
        id: "hsrtf-future-locality".into(),
        title: "Pause instead of kill, delay scheduling, data-aware victims: node-local maps".into(),
        counterpart: "paper: section 6, future work".into(),
        paper: Vec::new(),
        plot: bars(Measure::fraction("fraction of map launches"), &future_work, &locality),
    });
    figures
}

fn capitalized(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}
