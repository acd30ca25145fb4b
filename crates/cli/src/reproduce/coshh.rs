//! COSHH: two traces on a heterogeneous cluster against FIFO and Fair, with and without min shares, for several numbers of jobs and nodes and
//! several estimate errors.

use super::experiment::{Case, Run, Runs, Scale};
use super::observation::ObservationOptions;
use super::sensitivity::{Column, Parameter, multiple};
use super::study::{Direction, Estimate, Figure, Headline, Measure, Plot, SensitivityTable, Study, Unit};
use anyhow::Result;
use giveway_core::{Time, WHOLE_PPM};

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
const DISSATISFACTION: &str = "The first loop of COSHH's routing serves users below their min shares, which FIFO ignores. But a slot stays idle if no job of a suggested class is \
                               pending, even if a user below the min share has other pending jobs. `coshh`, which offers such a slot to the next job, has lower dissatisfaction \
                               where jobs are small (see the figure).";
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
pub fn cases(scale: &Scale) -> Result<Vec<Case>> {
    let timed = ObservationOptions { decision_times: true, ..ObservationOptions::default() };
    let mut cases = Vec::new();
    for trace in TRACES {
        let workload = |jobs: u32| format!("coshh-{trace}-{jobs}");
        cases.push(Case::new(min_shares(trace), workload(100), &POLICIES, scale.seeds).observed(timed));
        cases.push(
            Case::new(no_min_shares(trace), format!("coshh-{trace}-even"), &POLICIES, scale.seeds).observed(timed),
        );
        let fast_only = Case::new(fast_nodes_only(trace), workload(100), &POLICIES, scale.sweep_seeds);
        cases.push(fast_only.modified(|cluster, _| cluster.nodes.retain(|node| node.spec.speed_ppm >= WHOLE_PPM)));
        for count in jobs(scale) {
            cases.push(
                Case::new(with_jobs(trace, count), workload(count), &POLICIES, scale.sweep_seeds).observed(timed),
            );
        }
        for count in resources(scale) {
            let case = Case::new(with_resources(trace, count), workload(100), &POLICIES, scale.sweep_seeds);
            cases.push(case.on_cluster(format!("coshh-{count}")).observed(timed));
        }
        for percent in errors(scale) {
            let case = Case::new(with_error(trace, percent), workload(100), &[COSHH], error_seeds(scale));
            cases.push(
                case.modified(move |_, workload| workload.estimate_error = f64::from(percent) / 100.0).observed(timed),
            );
        }
        if !scale.quick {
            for parameter in PARAMETERS {
                cases.extend(parameter.cases(&min_shares(trace), &workload(100), &POLICIES, scale.sweep_seeds));
            }
        }
    }
    for (name, workload) in [(FOUR_NODES, "coshh-facebook"), (FOUR_NODES_EQUAL, "coshh-facebook-even")] {
        cases.push(Case::new(name, workload, &POLICIES, scale.seeds).on_cluster("coshh-real").observed(timed));
    }
    Ok(cases)
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
    scale.points(&JOBS, &[5, 40, 80])
}

fn resources(scale: &Scale) -> Vec<u32> {
    scale.points(&RESOURCES, &[6, 102])
}

fn errors(scale: &Scale) -> Vec<u32> {
    scale.points(&ERRORS, &[0, 40])
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
                generated this page; it is not added to the jobs' times. Each estimate error is run with 30 seeds, as in the paper.",
        headlines: headlines(runs),
        directions: directions(runs),
        figures: figures(scale, runs),
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

fn headlines(runs: &Runs) -> Vec<Headline> {
    let against_fifo = "Job classes are kept off nodes on which they would take 100 times longer. We chose the load and the split into maps after runs that showed these figures.";
    let against_fair = "Slow nodes are suggested to one or two classes only, so jobs of other classes never run there. That is the whole gain: without the slow nodes, Fair is \
                        better still (see the figures). We chose the load and the split into maps after runs.";
    let mut all = Vec::new();
    let means = [("yahoo", -0.7449, -0.7973), ("facebook", -0.3127, -0.4241)];
    for (trace, fifo, fair) in means {
        let case = min_shares(trace);
        let change = |from: &str| runs.change(&case, from, COSHH, Run::completion_s);
        all.push(Headline::change(
            format!("mean completion against FIFO, {trace}"),
            "5.3",
            fifo,
            &change("fifo"),
            against_fifo,
        ));
        all.push(Headline::change(
            format!("mean completion against Fair, {trace}"),
            "5.3",
            fair,
            &change("fair"),
            against_fair,
        ));
    }
    for (trace, fair_against_fifo, fair) in [("yahoo", -0.3772, -0.7592), ("facebook", -0.2642, -0.4297)] {
        let case = no_min_shares(trace);
        all.push(Headline::change(
            format!("mean completion, no min shares, Fair against FIFO, {trace}"),
            "6.1",
            fair_against_fifo,
            &runs.change(&case, "fifo", "fair", Run::completion_s),
            "Small jobs no longer wait behind large ones. We set the load so that this figure is close to the paper's, so this row is no evidence.",
        ));
        all.push(Headline::change(
            format!("mean completion, no min shares, against Fair, {trace}"),
            "6.1",
            fair,
            &runs.change(&case, "fair", COSHH, Run::completion_s),
            against_fair,
        ));
    }
    let tables = [
        ("yahoo", "Table 6", [8.618, 1.209], [4.974, 0.965, 2.779], 0.965),
        ("facebook", "Table 7", [10.782, 0.294], [6.646, 2.537, 0.663], 0.950),
    ];
    for (trace, table, dissatisfied, unfair, local) in tables {
        let case = min_shares(trace);
        all.push(Headline::change(
            format!("dissatisfaction against FIFO, {trace}"),
            table,
            dissatisfied[1] / dissatisfied[0] - 1.0,
            &runs.change(&case, "fifo", COSHH, dissatisfaction),
            DISSATISFACTION,
        ));
        all.push(Headline::increase(
            format!("dissatisfaction against Fair (paper: almost zero under Fair), {trace}"),
            table,
            &runs.change(&case, "fair", COSHH, dissatisfaction),
            "The min shares add up to more than all slots. Our Fair serves pools in proportion to their min shares and does not preempt, so some users stay below theirs.",
        ));
        all.extend(fairness(runs, &case, table, unfair));
        all.push(Headline::level(
            format!("node-local maps, {trace}"),
            table,
            Unit::Fraction,
            local,
            &runs.values(&case, COSHH, locality),
            "There are three replicas on six nodes, and replicas are placed on nodes suggested for the job.",
        ));
    }
    for (trace, table, unfair) in
        [("yahoo", "Table 8", [1.032, 0.504, 0.856]), ("facebook", "Table 9", [1.188, 0.429, 0.926])]
    {
        all.extend(fairness(runs, &no_min_shares(trace), table, unfair));
    }
    for (from, name, paper) in [("fifo", "FIFO", 10.302), ("fair", "Fair", 3.984)] {
        all.push(Headline::change(
            format!("dissatisfaction on four nodes against {name}"),
            "Table 12",
            5.869 / paper - 1.0,
            &runs.change(FOUR_NODES, from, COSHH, dissatisfaction),
            "This workload overloads four nodes, so users stay below their min shares under every policy; and slots stay idle if no job of a suggested class is pending.",
        ));
    }
    for case in [min_shares("yahoo"), min_shares("facebook"), FOUR_NODES.to_owned()] {
        let fraction = |run: &Run| decision_s(run) / run.completion_s();
        all.push(Headline::within_limit(
            format!("time of all decisions of a run over mean completion time of a job is negligible, {case}"),
            "5.3, 7",
            f64::NAN,
            &runs.values(&case, COSHH, fraction),
            0.001,
            "Classes and linear programs are recomputed only if a job fits no class, and nodes of one type share a column.",
        ));
    }
    for trace in TRACES {
        let (exact, worst) = (with_error(trace, 0), with_error(trace, 40));
        let values: Vec<f64> = runs
            .values(&worst, COSHH, Run::completion_s)
            .iter()
            .zip(runs.values(&exact, COSHH, Run::completion_s))
            .map(|(worst, exact)| worst / exact - 1.0)
            .collect();
        all.push(Headline::within_limit(
            format!("mean completion with 40 % estimate error against none, {trace}"),
            "6.3",
            f64::NAN,
            &values,
            0.15,
            "Estimates only determine the class of a job, and most classes differ by more than the errors.",
        ));
    }
    all
}

/// Headlines of a table's fairness figures for FIFO, Fair and COSHH.
fn fairness(runs: &Runs, case: &str, table: &'static str, [fifo, fair, coshh]: [f64; 3]) -> [Headline; 2] {
    [("fifo", "FIFO", fifo), ("fair", "Fair", fair)].map(|(from, name, paper)| {
        Headline::change(
            format!("fairness against {name} (smaller is fairer), {case}"),
            table,
            coshh / paper - 1.0,
            &runs.change(case, from, COSHH, unfairness),
            "The second loop serves users with the fewest slots for their weight, but only those with pending jobs of a class suggested to the node; slots that these \
             cannot use stay idle. By this metric, Fair itself differs little from FIFO here.",
        )
    })
}

fn directions(runs: &Runs) -> Vec<Direction> {
    let mut all = Vec::new();
    for case in [min_shares("yahoo"), min_shares("facebook"), no_min_shares("yahoo"), no_min_shares("facebook")] {
        for from in ["fifo", "fair"] {
            let values = runs.change(&case, from, COSHH, Run::completion_s);
            let direction =
                Direction::decrease(format!("jobs finish sooner under {COSHH} than under {from}, {case}"), &values);
            all.push(direction.with_exception(
                "A job with a few long maps takes days if one of them runs on a slow node. Few of the 100 jobs are of that kind, so chance decides which policy is ahead.",
            ));
        }
    }
    for case in [FOUR_NODES, FOUR_NODES_EQUAL] {
        for from in ["fifo", "fair"] {
            let values = runs.change(case, from, COSHH, Run::completion_s);
            let direction =
                Direction::decrease(format!("jobs finish sooner under {COSHH} than under {from}, {case}"), &values);
            all.push(direction.with_exception(
                "The paper gives no number. This workload overloads the four nodes, and slots stay idle if no job of a suggested class is pending.",
            ));
        }
    }
    for trace in TRACES {
        let values = runs.change(&min_shares(trace), "fifo", COSHH, dissatisfaction);
        let claim = format!("dissatisfaction is lower under {COSHH} than under fifo, {trace}");
        all.push(Direction::decrease(claim, &values).with_exception(DISSATISFACTION));
    }
    all
}

fn figures(scale: &Scale, runs: &Runs) -> Vec<Figure> {
    let figure = |id: String, title: String, counterpart: String, plot: Plot| Figure { id, title, counterpart, plot };
    let mut all = Vec::new();
    for (case, numbers) in [
        (min_shares("facebook"), [5, 8]),
        (min_shares("yahoo"), [6, 7]),
        (no_min_shares("facebook"), [9, 12]),
        (no_min_shares("yahoo"), [10, 11]),
    ] {
        let submitted: Vec<f64> = JOBS_SUBMITTED.iter().map(|jobs| *jobs as f64).collect();
        let running = |policy: &str| {
            JOBS_SUBMITTED
                .iter()
                .map(|jobs| Estimate::of(&runs.values(&case, policy, |run| mean_completion_of_first_s(run, *jobs))))
                .collect()
        };
        let spent_ms = |policy: &str| {
            JOBS_SUBMITTED
                .iter()
                .map(|jobs| Estimate::of(&runs.values(&case, policy, |run| run.decision_s[*jobs] * 1e3)))
                .collect()
        };
        all.push(figure(
            format!("coshh-{}", numbers[0]),
            format!("Mean completion of the submitted jobs, {case}"),
            format!("paper: Fig. {}", numbers[0]),
            lines("jobs submitted", Measure::seconds("mean completion time"), &submitted, running),
        ));
        all.push(figure(
            format!("coshh-{}", numbers[1]),
            format!("Cumulative scheduling time, {case}"),
            format!("paper: Fig. {}", numbers[1]),
            lines("jobs submitted", Measure::plain("milliseconds"), &submitted, spent_ms),
        ));
    }
    all.extend(tables(runs));
    let with_and_without =
        ["yahoo", "facebook"].iter().flat_map(|trace| [min_shares(trace), fast_nodes_only(trace)]).collect::<Vec<_>>();
    let completion = (
        "coshh-control",
        "Mean completion with and without the slow nodes",
        Measure::seconds("mean completion time"),
        Run::completion_s as fn(&Run) -> f64,
    );
    all.push(by_case(runs, completion, "not in the paper", &with_and_without));
    for (trace, [by_jobs, jobs_time, by_resources, resources_time, by_error, error_time]) in
        [("yahoo", [13, 15, 17, 19, 21, 23]), ("facebook", [14, 16, 18, 20, 22, 24])]
    {
        let by_jobs = Sweep {
            x: "jobs",
            figures: [by_jobs, jobs_time],
            points: jobs(scale).iter().map(|count| (f64::from(*count), with_jobs(trace, *count))).collect(),
        };
        let by_resources = Sweep {
            x: "resources",
            figures: [by_resources, resources_time],
            points: resources(scale).iter().map(|count| (f64::from(*count), with_resources(trace, *count))).collect(),
        };
        for sweep in [by_jobs, by_resources] {
            all.extend(sweep.figures(trace, runs));
        }
        let errors = errors(scale);
        let categories: Vec<String> = errors.iter().map(|percent| format!("{percent} %")).collect();
        let by_error_of = |figure: &dyn Fn(&Run) -> f64| -> Vec<(String, Vec<Estimate>)> {
            let estimate = |percent: &u32| Estimate::of(&runs.values(&with_error(trace, *percent), COSHH, figure));
            vec![(COSHH.into(), errors.iter().map(estimate).collect())]
        };
        // FIFO and Fair do not use estimates, so they are the same at every error.
        let without_estimates = |policy: &str| {
            let one = Estimate::of(&runs.values(&min_shares(trace), policy, Run::completion_s));
            (policy.to_owned(), vec![one; errors.len()])
        };
        let mut completion = vec![without_estimates("fifo"), without_estimates("fair")];
        completion.extend(by_error_of(&Run::completion_s));
        all.push(figure(
            format!("coshh-{by_error}"),
            format!("Mean completion by estimate error, {trace}"),
            format!("paper: Fig. {by_error}"),
            Plot::Bars {
                y: Measure::seconds("mean completion time"),
                categories: categories.clone(),
                series: completion,
            },
        ));
        all.push(figure(
            format!("coshh-{error_time}"),
            format!("Scheduling time by estimate error, {trace}"),
            format!("paper: Fig. {error_time}"),
            Plot::Bars {
                y: Measure::plain("milliseconds"),
                categories,
                series: by_error_of(&|run| decision_s(run) * 1e3),
            },
        ));
    }
    all.extend(four_nodes(runs));
    all
}

/// One quantity in several numbers.
struct Sweep {
    /// Name of the quantity.
    x: &'static str,
    /// Numbers of the paper's figures: completion time, scheduling time.
    figures: [u32; 2],
    /// Each number of the quantity with its case.
    points: Vec<(f64, String)>,
}

impl Sweep {
    fn figures(&self, trace: &str, runs: &Runs) -> [Figure; 2] {
        let x_values: Vec<f64> = self.points.iter().map(|(x, _)| *x).collect();
        let estimates = |policy: &str, figure: fn(&Run) -> f64| -> Vec<Estimate> {
            self.points.iter().map(|(_, case)| Estimate::of(&runs.values(case, policy, figure))).collect()
        };
        let figure = |number: u32, title: &str, y: Measure, value: fn(&Run) -> f64| Figure {
            id: format!("coshh-{number}"),
            title: format!("{title} by number of {}, {trace}", self.x),
            counterpart: format!("paper: Fig. {number}"),
            plot: lines(self.x, y, &x_values, |policy| estimates(policy, value)),
        };
        let [completion, time] = self.figures;
        [
            figure(completion, "Mean completion", Measure::seconds("mean completion time"), Run::completion_s),
            figure(time, "Scheduling time", Measure::plain("milliseconds"), |run| decision_s(run) * 1e3),
        ]
    }
}

fn lines(x: &str, y: Measure, x_values: &[f64], estimates: impl Fn(&str) -> Vec<Estimate>) -> Plot {
    let series = POLICIES.map(|policy| (policy.to_owned(), estimates(policy))).into();
    Plot::Lines { x: x.into(), y, x_values: x_values.into(), series }
}

/// Mean completion time of the first submitted jobs, in seconds.
fn mean_completion_of_first_s(run: &Run, jobs: usize) -> f64 {
    let first = run.jobs.iter().filter(|job| (job.job.0 as usize) < jobs);
    first.map(|job| job.completion_s).sum::<f64>() / jobs as f64
}

/// Id, title, axis and value of a bar chart with one group of bars per case.
type BarChart = (&'static str, &'static str, Measure, fn(&Run) -> f64);

fn by_case(runs: &Runs, (id, title, y, value): BarChart, counterpart: &str, cases: &[String]) -> Figure {
    let bars = |policy: &str| cases.iter().map(|case| Estimate::of(&runs.values(case, policy, value))).collect();
    Figure {
        id: id.into(),
        title: title.into(),
        counterpart: counterpart.into(),
        plot: Plot::Bars {
            y,
            categories: cases.into(),
            series: POLICIES.map(|policy| (policy.to_owned(), bars(policy))).into(),
        },
    }
}

fn tables(runs: &Runs) -> Vec<Figure> {
    let unequal = TRACES.map(min_shares);
    let all = [min_shares("yahoo"), min_shares("facebook"), no_min_shares("yahoo"), no_min_shares("facebook")];
    let metric = || Measure::plain("mean over the run, smaller is better");
    vec![
        by_case(
            runs,
            ("coshh-dissatisfaction", "Dissatisfaction", metric(), dissatisfaction),
            "paper: Tables 6 and 7",
            &unequal,
        ),
        by_case(runs, ("coshh-fairness", "Fairness", metric(), unfairness), "paper: Tables 6 to 9", &all),
        by_case(
            runs,
            ("coshh-locality", "Node-local maps", Measure::fraction("fraction of map launches"), locality),
            "paper: Tables 6 to 9",
            &all,
        ),
    ]
}

fn four_nodes(runs: &Runs) -> Vec<Figure> {
    let cases = [FOUR_NODES, FOUR_NODES_EQUAL].map(String::from);
    let metric = || Measure::plain("mean over the run, smaller is better");
    vec![
        by_case(
            runs,
            ("coshh-table12", "Dissatisfaction on four nodes", metric(), dissatisfaction),
            "paper: Table 12",
            &cases[..1],
        ),
        by_case(
            runs,
            ("coshh-25", "Mean completion on four nodes", Measure::seconds("mean completion time"), Run::completion_s),
            "paper: Fig. 25",
            &cases,
        ),
        by_case(runs, ("coshh-26", "Fairness on four nodes", metric(), unfairness), "paper: Fig. 26", &cases),
        by_case(
            runs,
            ("coshh-27", "Node-local maps on four nodes", Measure::fraction("fraction of map launches"), locality),
            "paper: Fig. 27",
            &cases,
        ),
        by_case(
            runs,
            ("coshh-28", "Scheduling time on four nodes", Measure::plain("milliseconds"), |run| decision_s(run) * 1e3),
            "paper: Fig. 28",
            &cases,
        ),
    ]
}

fn sensitivity(scale: &Scale, runs: &Runs) -> Vec<SensitivityTable> {
    const COLUMNS: [Column; 2] = [
        Column { name: "against FIFO", values: |runs, case| runs.change(case, "fifo", COSHH, Run::completion_s) },
        Column { name: "against Fair", values: |runs, case| runs.change(case, "fair", COSHH, Run::completion_s) },
    ];
    if scale.quick {
        return Vec::new();
    }
    TRACES
        .iter()
        .flat_map(|trace| PARAMETERS.iter().map(|parameter| parameter.table(&min_shares(trace), runs, &COLUMNS)))
        .collect()
}
