//! COSHH: two traces on a heterogeneous cluster against FIFO and Fair, with and without min shares, for several numbers of jobs and nodes and
//! several estimate errors.

mod claims;
mod figures;

use super::estimate::{Estimate, Unit};
use super::experiment::{Case, Run, Runs, Scale};
use super::observation::ObservationOptions;
use super::sensitivity::{Column, Parameter, multiple};
use super::study::{SensitivityTable, Study};
use super::variants::{setting, variant};
use anyhow::Result;
use giveway_core::{Time, WHOLE_PPM};
use giveway_sim::cluster::Cluster;
use giveway_sim::workload::Workload;

/// Algorithm 2 as the paper gives it: a slot stays idle if no job of a suggested class is pending.
const COSHH: &str = "coshh-strict";
/// `coshh` offers such a slot to the next job instead.
const POLICIES: [&str; 4] = ["fifo", "fair", COSHH, "coshh"];
const TRACES: [&str; 2] = ["yahoo", "facebook"];
/// Numbers of submitted jobs at which running figures are plotted.
const JOBS_SUBMITTED: [usize; 20] = [5, 10, 15, 20, 25, 30, 35, 40, 45, 50, 55, 60, 65, 70, 75, 80, 85, 90, 95, 100];
/// Section 6.2.1: numbers of jobs.
const JOBS: [u32; 9] = [5, 10, 20, 30, 40, 60, 80, 100, 120];
/// Section 6.2.2: numbers of resources, the paper's word for nodes.
const RESOURCES: [u32; 9] = [6, 18, 30, 42, 54, 66, 78, 90, 102];
/// Section 6.3: largest error of the estimates, in percent.
const ERRORS: [u32; 5] = [0, 10, 20, 30, 40];
/// No error and the paper's largest, compared in a headline.
const COMPARED_ERRORS: [u32; 2] = [0, 40];
/// Arrival rates on the four nodes, as multiples.
const FOUR_NODES_LOADS: [f64; 3] = [0.03, 0.1, 0.3];
/// The paper's results for one trace, under FIFO, Fair and COSHH.
struct Table {
    trace: &'static str,
    table: &'static str,
    dissatisfaction: [f64; 3],
    fairness: [f64; 3],
    locality: [f64; 3],
}

/// With the min shares of Table 5.
const WITH_MIN_SHARES: [Table; 2] = [
    Table {
        trace: "yahoo",
        table: "Table 6",
        dissatisfaction: [8.618, 7.16e-4, 1.209],
        fairness: [4.974, 0.965, 2.779],
        locality: [0.956, 0.974, 0.965],
    },
    Table {
        trace: "facebook",
        table: "Table 7",
        dissatisfaction: [10.782, 8.31e-2, 0.294],
        fairness: [6.646, 2.537, 0.663],
        locality: [0.977, 0.957, 0.950],
    },
];

/// Without min shares nobody is dissatisfied.
const NO_MIN_SHARES: [Table; 2] = [
    Table {
        trace: "yahoo",
        table: "Table 8",
        dissatisfaction: [0.0; 3],
        fairness: [1.032, 0.504, 0.856],
        locality: [0.949, 0.979, 0.981],
    },
    Table {
        trace: "facebook",
        table: "Table 9",
        dissatisfaction: [0.0; 3],
        fairness: [1.188, 0.429, 0.926],
        locality: [0.934, 0.952, 0.983],
    },
];

/// Table 12.
const FOUR_NODES_DISSATISFACTION: [f64; 3] = [10.302, 3.984, 5.869];

const PARAMETERS: [&Parameter; 2] = [&LOAD, &SLOW_NODES];

/// Arrival rate, as a multiple. The paper derives arrivals from traces that it does not publish.
const LOAD: Parameter = Parameter {
    name: "load",
    values: &[0.5, 1.0, 3.0, 10.0],
    label: multiple,
    apply: |_, workload, factor| {
        workload.jobs.iter_mut().for_each(|job| job.submit = Time::from_secs_f64(job.submit.as_secs_f64() / factor));
    },
};

/// Speed of the slow nodes, as a multiple, up to that of the others. In Table 3 they are 100 times slower.
const SLOW_NODES: Parameter = Parameter {
    name: "speed of the slow nodes",
    values: &[1.0, 10.0, 100.0],
    label: multiple,
    apply: |cluster, _, factor| {
        for node in cluster.nodes.iter_mut().filter(|node| node.spec.speed_ppm < WHOLE_PPM) {
            node.spec.speed_ppm = ((f64::from(node.spec.speed_ppm) * factor) as u32).min(WHOLE_PPM);
        }
    },
};

/// The cases to run.
///
/// COSHH predicts task times from finished jobs (section 2.2), except in the cases of [`known_times`].
pub fn cases(scale: &Scale) -> Result<Vec<Case>> {
    let timed = ObservationOptions { decision_times: true, ..ObservationOptions::default() };
    let predicted = |case: Case| case.modified(|_, workload| workload.hints = false);
    // These runs are the longest of all papers.
    let sweep_seeds = scale.sweep_seeds.div_ceil(2);
    let mut cases = Vec::new();
    for trace in TRACES {
        let workload = |jobs: u32| format!("coshh-{trace}-{jobs}");
        let even = format!("coshh-{trace}-even");
        cases.push(predicted(Case::new(min_shares(trace), workload(100), &POLICIES, scale.seeds)).observed(timed));
        cases.push(predicted(Case::new(no_min_shares(trace), even, &POLICIES, scale.seeds)).observed(timed));
        cases.push(Case::new(known_times(trace), workload(100), &POLICIES, scale.seeds));
        cases.push(
            predicted(Case::new(fast_nodes_only(trace), workload(100), &POLICIES, sweep_seeds))
                .modified(|cluster, _| keep_fast_nodes(cluster)),
        );
        for count in jobs(scale) {
            let case = Case::new(with_jobs(trace, count), workload(count), &POLICIES, sweep_seeds);
            cases.push(predicted(case).observed(timed));
        }
        for count in resources(scale) {
            let case = Case::new(with_resources(trace, count), workload(100), &POLICIES, sweep_seeds);
            cases.push(predicted(case).on_cluster(format!("coshh-{count}")).observed(timed));
        }
        for percent in errors(scale) {
            let error = f64::from(percent) / 100.0;
            let policy = variant(COSHH, COSHH, &[(setting::NODE_TYPE_ERROR, error.into())])?;
            let case = Case::new(with_error(trace, percent), workload(100), &[], error_seeds(scale));
            // Known times with errors, as in the paper: predictions have errors of their own.
            cases.push(
                case.with_policies([policy])
                    .modified(move |_, workload| workload.estimate_error = error)
                    .observed(timed),
            );
        }
        if !scale.quick {
            for parameter in PARAMETERS {
                let cases_of = parameter.cases(&min_shares(trace), &workload(100), &POLICIES, sweep_seeds);
                cases.extend(cases_of.into_iter().map(predicted));
            }
        }
    }
    for trace in TRACES {
        for percent in COMPARED_ERRORS {
            let error = f64::from(percent) / 100.0;
            let policy = variant(COSHH, COSHH, &[(setting::NODE_TYPE_ERROR, error.into())])?;
            let case = Case::new(error_on_fast_nodes(trace, percent), format!("coshh-{trace}-100"), &[], scale.seeds);
            cases.push(case.with_policies([policy]).modified(move |cluster, workload| {
                keep_fast_nodes(cluster);
                workload.estimate_error = error;
            }));
        }
    }
    for load in four_nodes_loads(scale) {
        let case = Case::new(LOAD.case_name(FOUR_NODES, load), "coshh-facebook", &POLICIES, sweep_seeds);
        let apply = move |cluster: &mut Cluster, workload: &mut Workload| (LOAD.apply)(cluster, workload, load);
        cases.push(predicted(case.on_cluster("coshh-real").modified(apply)));
    }
    for (name, workload) in [(FOUR_NODES, "coshh-facebook"), (FOUR_NODES_EQUAL, "coshh-facebook-even")] {
        let case = Case::new(name, workload, &POLICIES, scale.seeds).on_cluster("coshh-real");
        cases.push(predicted(case).observed(timed));
    }
    Ok(cases)
}

fn keep_fast_nodes(cluster: &mut Cluster) {
    cluster.nodes.retain(|node| node.spec.speed_ppm >= WHOLE_PPM);
}

fn known_times(trace: &str) -> String {
    format!("{trace}, known times")
}

const FOUR_NODES: &str = "four nodes, unequal users";
const FOUR_NODES_EQUAL: &str = "four nodes, equal users";

fn min_shares(trace: &str) -> String {
    format!("{trace}, min shares")
}

fn no_min_shares(trace: &str) -> String {
    format!("{trace}, no min shares")
}

fn fast_nodes_only(trace: &str) -> String {
    format!("{trace}, fast nodes only")
}

fn error_on_fast_nodes(trace: &str, percent: u32) -> String {
    format!("{trace}, {percent} % error, fast nodes only")
}

fn with_jobs(trace: &str, count: u32) -> String {
    format!("{trace}, {count} jobs")
}

fn with_resources(trace: &str, count: u32) -> String {
    format!("{trace}, {count} resources")
}

fn with_error(trace: &str, percent: u32) -> String {
    format!("{trace}, {percent} % error")
}

fn jobs(scale: &Scale) -> Vec<u32> {
    scale.points(&JOBS, &[5, 40])
}

fn resources(scale: &Scale) -> Vec<u32> {
    scale.points(&RESOURCES, &[102])
}

fn errors(scale: &Scale) -> Vec<u32> {
    scale.points(&ERRORS, &[0, 40])
}

fn four_nodes_loads(scale: &Scale) -> Vec<f64> {
    scale.points(&FOUR_NODES_LOADS, &[0.1])
}

/// Seeds of each estimate error. The paper uses 30.
fn error_seeds(scale: &Scale) -> u32 {
    if scale.seeds < 20 { scale.seeds } else { scale.seeds.max(30) }
}

/// Evaluates the runs.
pub fn study(scale: &Scale, runs: &Runs) -> Study {
    Study {
        paper: "coshh",
        title: "COSHH: heterogeneous jobs and nodes",
        about: "Six nodes whose speeds differ by a factor of 100 (the paper's Table 3); 100 jobs of Facebook's and Yahoo!'s classes (Table 4) from users with and without \
                min shares (Table 5). COSHH is `coshh-strict`, Algorithm 2 as the paper gives it; `coshh` does not leave a slot idle if no job of a suggested class is \
                pending. Scheduling time is the wall-clock time that the scheduler core needs for all decisions of a run, replayed without a backend on the machine that \
                generated this page; it is not added to the jobs' times. COSHH predicts task times from finished jobs, except for the estimate errors, where they are known up to the error, drawn for each job and type of node. Dissatisfaction and fairness are sampled when a job completes, over the users that have work. Each estimate error is run with 30 seeds, as in the paper.",
        headlines: claims::headlines(runs),
        directions: claims::directions(runs),
        figures: figures::figures(scale, runs),
        tests: tests(scale, runs),
        sensitivity: sensitivity(scale, runs),
    }
}

fn dissatisfaction(run: &Run) -> f64 {
    run.summary.dissatisfaction.unwrap_or(f64::NAN)
}

/// The paper's fairness metric; smaller is fairer.
fn unfairness(run: &Run) -> f64 {
    run.summary.fairness.unwrap_or(f64::NAN)
}

fn locality(run: &Run) -> f64 {
    run.summary.key_metrics.locality_node.unwrap_or(f64::NAN)
}

/// Wall-clock time of all decisions of a run, in seconds.
fn decision_s(run: &Run) -> f64 {
    run.decision_s.last().copied().unwrap_or(f64::NAN)
}

/// Tests of the explanations: what COSHH gains if it knows task times, and without the slow nodes.
fn tests(scale: &Scale, runs: &Runs) -> Vec<SensitivityTable> {
    let row = |label: &str, case: String| {
        let change = |from: &str, to: &str| Estimate::of_changes(&runs.change(&case, from, to, Run::completion_s));
        (label.to_owned(), vec![change("fifo", COSHH), change("fair", COSHH), change("fair", "coshh")])
    };
    let of_trace = |trace: &str| SensitivityTable {
        parameter: format!("mean completion, {trace}"),
        columns: ["COSHH against FIFO", "COSHH against Fair", "with backfill against Fair"].map(String::from).into(),
        rows: vec![
            row("times predicted from finished jobs (as above)", min_shares(trace)),
            row("times known in advance", known_times(trace)),
            row("no min shares", no_min_shares(trace)),
            row("without the slow nodes", fast_nodes_only(trace)),
        ],
        unit: Unit::Change,
    };
    TRACES.map(of_trace).into_iter().chain([estimate_errors(runs), four_nodes_by_load(scale, runs)]).collect()
}

/// What estimate errors cost where no node is slow.
fn estimate_errors(runs: &Runs) -> SensitivityTable {
    let change = |case: fn(&str, u32) -> String, trace: &str| {
        let of = |percent: u32| runs.values(&case(trace, percent), COSHH, Run::completion_s);
        let [exact, worst] = COMPARED_ERRORS.map(of);
        Estimate::of_changes(&exact.iter().zip(worst).map(|(exact, worst)| worst / exact - 1.0).collect::<Vec<_>>())
    };
    let row =
        |label: &str, case: fn(&str, u32) -> String| (label.to_owned(), TRACES.map(|trace| change(case, trace)).into());
    SensitivityTable {
        parameter: "mean completion, 40 % estimate error against none".into(),
        columns: TRACES.map(String::from).into(),
        rows: vec![row("all nodes (as above)", with_error), row("without the slow nodes", error_on_fast_nodes)],
        unit: Unit::Change,
    }
}

/// The four nodes at lower loads than the paper's number of jobs gives.
fn four_nodes_by_load(scale: &Scale, runs: &Runs) -> SensitivityTable {
    let row = |label: String, case: &str| {
        let value = |policy: &str| Estimate::of(&runs.values(case, policy, dissatisfaction));
        (label, ["fifo", "fair", COSHH, "coshh"].map(value).into())
    };
    let mut rows: Vec<_> = four_nodes_loads(scale)
        .iter()
        .map(|load| row((LOAD.label)(*load), &LOAD.case_name(FOUR_NODES, *load)))
        .collect();
    rows.push(row("as above".into(), FOUR_NODES));
    SensitivityTable {
        parameter: format!("{FOUR_NODES}, dissatisfaction: load"),
        columns: ["FIFO", "Fair", "COSHH", "COSHH with backfill"].map(String::from).into(),
        rows,
        unit: Unit::Plain,
    }
}

fn sensitivity(scale: &Scale, runs: &Runs) -> Vec<SensitivityTable> {
    const COLUMNS: [Column; 2] = [
        Column { name: "against FIFO", values: |runs, case| runs.change(case, "fifo", COSHH, Run::completion_s) },
        Column { name: "against Fair", values: |runs, case| runs.change(case, "fair", COSHH, Run::completion_s) },
    ];
    if scale.quick {
        return Vec::new();
    }
    let completion = |trace: &&str| PARAMETERS.map(|parameter| parameter.table(&min_shares(trace), runs, &COLUMNS));
    TRACES
        .iter()
        .flat_map(|trace| {
            let metrics = [("dissatisfaction", dissatisfaction as fn(&Run) -> f64), ("fairness", unfairness)];
            completion(trace).into_iter().chain(metrics.map(|metric| metric_by_load(runs, trace, metric)))
        })
        .collect()
}

/// A metric for several loads. The paper's dissatisfaction under FIFO needs a saturated system, its completion times one that is not: no load
/// gives both.
fn metric_by_load(runs: &Runs, trace: &str, (name, metric): (&str, fn(&Run) -> f64)) -> SensitivityTable {
    let row = |load: f64| {
        let case = LOAD.case_name(&min_shares(trace), load);
        let value = |policy: &str| Estimate::of(&runs.values(&case, policy, metric));
        ((LOAD.label)(load), ["fifo", "fair", COSHH].map(value).into())
    };
    SensitivityTable {
        parameter: format!("{trace}, {name}: load"),
        columns: ["FIFO", "Fair", "COSHH"].map(String::from).into(),
        rows: LOAD.values.iter().map(|load| row(*load)).collect(),
        unit: Unit::Plain,
    }
}
