//! Our counterparts of the paper's figures and tables about COSHH.

use super::super::estimate::Estimate;
use super::super::experiment::{Run, Runs, Scale};
use super::super::study::{Figure, Measure, PaperValue, Plot};
use super::{
    COSHH, FOUR_NODES, FOUR_NODES_DISSATISFACTION, FOUR_NODES_EQUAL, JOBS_SUBMITTED, NO_MIN_SHARES, POLICIES, TRACES,
    Table, WITH_MIN_SHARES, decision_s, dissatisfaction, errors, fast_nodes_only, jobs, locality, min_shares,
    no_min_shares, resources, unfairness, with_error, with_jobs, with_resources,
};

pub fn figures(scale: &Scale, runs: &Runs) -> Vec<Figure> {
    let figure = |id: String, title: String, counterpart: String, plot: Plot| Figure {
        id,
        title,
        counterpart,
        paper: Vec::new(),
        plot,
    };
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
                .map(|jobs| {
                    Estimate::of(
                        &runs.values(&case, policy, |run| run.decision_s.get(*jobs).copied().unwrap_or(f64::NAN) * 1e3),
                    )
                })
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
            paper: Vec::new(),
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
        paper: Vec::new(),
        plot: Plot::Bars {
            y,
            categories: cases.into(),
            series: POLICIES.map(|policy| (policy.to_owned(), bars(policy))).into(),
        },
    }
}

/// The paper's values of a table row for FIFO, Fair and COSHH.
fn papers_values(tables: &[Table], case: fn(&str) -> String, row: fn(&Table) -> [f64; 3]) -> Vec<PaperValue> {
    let values = |table: &Table| {
        let case = case(table.trace);
        ["fifo", "fair", COSHH]
            .into_iter()
            .zip(row(table))
            .map(move |(policy, value)| PaperValue::new(policy, &case, value))
    };
    tables.iter().flat_map(values).collect()
}

fn tables(runs: &Runs) -> Vec<Figure> {
    let unequal = TRACES.map(min_shares);
    let all = [min_shares("yahoo"), min_shares("facebook"), no_min_shares("yahoo"), no_min_shares("facebook")];
    let metric = || Measure::plain("mean over completions, smaller is better");
    let of_all = |row: fn(&Table) -> [f64; 3]| {
        let mut values = papers_values(&WITH_MIN_SHARES, min_shares, row);
        values.extend(papers_values(&NO_MIN_SHARES, no_min_shares, row));
        values
    };
    let mut dissatisfied = by_case(
        runs,
        ("coshh-dissatisfaction", "Dissatisfaction", metric(), dissatisfaction),
        "paper: Tables 6 and 7",
        &unequal,
    );
    dissatisfied.paper = papers_values(&WITH_MIN_SHARES, min_shares, |table| table.dissatisfaction);
    let mut unfair = by_case(runs, ("coshh-fairness", "Fairness", metric(), unfairness), "paper: Tables 6 to 9", &all);
    unfair.paper = of_all(|table| table.fairness);
    let mut local = by_case(
        runs,
        ("coshh-locality", "Node-local maps", Measure::fraction("fraction of map launches"), locality),
        "paper: Tables 6 to 9",
        &all,
    );
    local.paper = of_all(|table| table.locality);
    vec![dissatisfied, unfair, local]
}

fn four_nodes(runs: &Runs) -> Vec<Figure> {
    let cases = [FOUR_NODES, FOUR_NODES_EQUAL].map(String::from);
    let metric = || Measure::plain("mean over completions, smaller is better");
    let mut dissatisfied = by_case(
        runs,
        ("coshh-table12", "Dissatisfaction on four nodes", metric(), dissatisfaction),
        "paper: Table 12",
        &cases[..1],
    );
    let policies = ["fifo", "fair", COSHH].into_iter().zip(FOUR_NODES_DISSATISFACTION);
    dissatisfied.paper = policies.map(|(policy, value)| PaperValue::new(policy, FOUR_NODES, value)).collect();
    vec![
        dissatisfied,
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
