//! The engine's runs beside their forecasts, as tables, figures and a page.

use super::super::figures::{SvgFigure, render};
use super::super::study::{Figure, Measure, Plot};
use super::FORECAST_RUNS;
use super::experiments::{CHRONOS, CLUSTER, CONTENTION, HSRTF, RECORDS_PER_S};
use crate::estimate::{Estimate, Unit};
use crate::text_table::TextTable;
use giveway_sim::metrics::Summary;
use serde::Serialize;

/// The engine's runs with their forecasts.
#[derive(Serialize)]
pub struct ForecastReport {
    /// One entry per experiment and policy.
    pub runs: Vec<RunComparison>,
}

/// The runs under one policy and their forecast.
#[derive(Serialize)]
pub struct RunComparison {
    pub(super) experiment: &'static str,
    pub(super) policy: String,
    /// In order of submission.
    pub(super) jobs: Vec<JobComparison>,
    pub(super) real: RecoveryFigures,
    pub(super) forecast: RecoveryFigures,
}

/// Completion time of one job, measured and forecast.
#[derive(Serialize)]
pub struct JobComparison {
    pub(super) group: String,
    pub(super) runs_s: Vec<f64>,
    /// The mean of the runs.
    pub(super) real_s: f64,
    /// The mean of the simulated runs.
    pub(super) forecast_s: f64,
    pub(super) forecast_median_s: f64,
}

/// Figures of the lost tasks that were launched again; `None` if there were none.
#[derive(Serialize)]
pub(super) struct RecoveryFigures {
    /// Mean wait from the detection of the loss to the launch.
    wait_s: Option<f64>,
    /// Fraction of the maps that were node-local.
    node_local: Option<f64>,
}

impl RecoveryFigures {
    pub(super) fn of(summary: &Summary) -> RecoveryFigures {
        RecoveryFigures { wait_s: summary.details.recovery_wait_s, node_local: summary.details.recovery_locality }
    }

    pub(super) fn mean(all: impl Iterator<Item = RecoveryFigures> + Clone) -> RecoveryFigures {
        let mean = |figure: fn(RecoveryFigures) -> Option<f64>| {
            let values: Vec<f64> = all.clone().filter_map(figure).collect();
            (!values.is_empty()).then(|| self::mean(&values))
        };
        RecoveryFigures { wait_s: mean(|recovery| recovery.wait_s), node_local: mean(|recovery| recovery.node_local) }
    }
}

impl JobComparison {
    /// Relative error of the forecast, without its sign.
    fn error(&self) -> f64 {
        relative_error(self.forecast_s, self.real_s)
    }

    /// Relative error of the median of the simulated runs for the median of the runs, without its sign.
    fn median_error(&self) -> f64 {
        relative_error(self.forecast_median_s, median(self.runs_s.clone()))
    }

    /// How much each run differs from the mean of the others: the error of a forecast that is itself a real run. Empty for a single run.
    fn run_differences(&self) -> impl Iterator<Item = f64> {
        let others = |number: usize| {
            let others = self.runs_s.iter().enumerate().filter(move |&(other, _)| other != number);
            others.map(|(_, &completion_s)| completion_s).collect::<Vec<f64>>()
        };
        let difference = move |(number, &completion_s)| relative_error(completion_s, mean(&others(number)));
        self.runs_s.iter().enumerate().filter(|_| self.runs_s.len() > 1).map(difference)
    }
}

/// Relative difference, without its sign.
fn relative_error(forecast: f64, real: f64) -> f64 {
    (forecast / real - 1.0).abs()
}

/// Median and 90th percentile.
struct Spread {
    median: f64,
    ninetieth: f64,
}

impl Spread {
    fn of(mut values: Vec<f64>) -> Spread {
        values.sort_by(f64::total_cmp);
        let ninetieth = values.get(values.len() * 9 / 10).copied().unwrap_or(f64::NAN);
        Spread { median: median(values), ninetieth }
    }
}

impl std::fmt::Display for Spread {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [median, ninetieth] = [self.median, self.ninetieth].map(|error| Unit::Fraction.show(error));
        write!(f, "{median}, 90th percentile {ninetieth}")
    }
}

impl RunComparison {
    fn median_error(&self) -> f64 {
        median(self.jobs.iter().map(JobComparison::error).collect())
    }

    /// The median difference of a run from the others; NaN for a single run.
    fn median_difference(&self) -> f64 {
        median(self.jobs.iter().flat_map(JobComparison::run_differences).collect())
    }

    /// Number of runs of the engine.
    fn rounds(&self) -> usize {
        self.jobs.first().map_or(0, |job| job.runs_s.len())
    }

    fn groups(&self) -> Vec<&str> {
        let mut groups: Vec<&str> = Vec::new();
        for job in &self.jobs {
            if !groups.contains(&job.group.as_str()) {
                groups.push(&job.group);
            }
        }
        groups
    }

    /// Mean completion time of a group in seconds, measured and forecast.
    fn means(&self, group: &str) -> (f64, f64) {
        let jobs: Vec<&JobComparison> = self.jobs.iter().filter(|job| job.group == group).collect();
        let mean = |time_s: fn(&JobComparison) -> f64| mean(&jobs.iter().map(|job| time_s(job)).collect::<Vec<f64>>());
        (mean(|job| job.real_s), mean(|job| job.forecast_s))
    }
}

/// The mean; NaN without values.
pub(super) fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// The median; NaN without values.
pub(super) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let (low, high) = (values.len().saturating_sub(1) / 2, values.len() / 2);
    match (values.get(low), values.get(high)) {
        (Some(low), Some(high)) => (low + high) / 2.0,
        _ => f64::NAN,
    }
}

impl ForecastReport {
    /// The result in a few sentences.
    pub fn summary(&self) -> String {
        let jobs = || self.runs.iter().flat_map(|run| &run.jobs);
        let group_errors = self.runs.iter().flat_map(|run| {
            run.groups().into_iter().map(|group| {
                let (real, forecast) = run.means(group);
                relative_error(forecast, real)
            })
        });
        let mut text = format!(
            "{} runs with {} jobs on the engine: median error of the forecast completion time of a job {}; of the mean of a size group {}.",
            self.runs.iter().map(RunComparison::rounds).sum::<usize>(),
            self.runs.iter().map(|run| run.rounds() * run.jobs.len()).sum::<usize>(),
            Spread::of(jobs().map(JobComparison::error).collect()),
            Spread::of(group_errors.collect())
        );
        let differences: Vec<f64> = jobs().flat_map(JobComparison::run_differences).collect();
        if !differences.is_empty() {
            text += &format!(
                " These are means over the runs; with medians instead, the error of a job is {}. For comparison, the same job in one run and in the mean of the other runs: {}.",
                Spread::of(jobs().map(JobComparison::median_error).collect()),
                Spread::of(differences)
            );
        }
        text
    }

    /// Number of rounds of each experiment, in words.
    fn rounds_by_experiment(&self) -> String {
        let mut rounds: Vec<String> = Vec::new();
        for run in self.runs.chunk_by(|a, b| a.experiment == b.experiment).filter_map(<[_]>::first) {
            let unit = if run.rounds() == 1 { "round" } else { "rounds" };
            rounds.push(format!("{} {unit} ({})", run.rounds(), run.experiment));
        }
        rounds.join(", ")
    }

    /// A table for the terminal.
    pub fn terminal(&self) -> String {
        let header =
            ["experiment", "policy", "mean completion by group:\nreal (forecast), s", "median error\nof a job"];
        let mut table = TextTable::new(header).numbers_from(3);
        for run in &self.runs {
            let cell = |group: &&str| {
                let (real, forecast) = run.means(group);
                format!("{group} {real:.2} ({forecast:.2})")
            };
            let groups: Vec<String> = run.groups().iter().map(cell).collect();
            table.add_row([
                run.experiment.into(),
                run.policy.clone(),
                groups.join(", "),
                Unit::Fraction.show(run.median_error()),
            ]);
        }
        format!("{table}\n{}", self.summary())
    }

    /// The figures: mean completion time by policy, measured and forecast, one figure per experiment and group.
    pub fn figures(&self) -> Vec<SvgFigure> {
        let mut figures = Vec::new();
        for experiment in [&HSRTF, &CHRONOS, &CONTENTION] {
            let runs: Vec<&RunComparison> = self.runs.iter().filter(|run| run.experiment == experiment.name).collect();
            for job_type in experiment.job_types.iter().filter(|_| !runs.is_empty()) {
                let series = |side: fn((f64, f64)) -> f64| -> Vec<Estimate> {
                    runs.iter().map(|run| Estimate::single(side(run.means(job_type.name)))).collect()
                };
                figures.push(Figure {
                    id: format!("engine-{}-{}", experiment.name.to_lowercase().replace(' ', "-"), job_type.name),
                    title: format!(
                        "{}: mean completion of the {} jobs, real and forecast",
                        experiment.name, job_type.name
                    ),
                    counterpart: String::new(),
                    paper: Vec::new(),
                    plot: Plot::Bars {
                        y: Measure::seconds("mean completion time"),
                        categories: runs.iter().map(|run| run.policy.clone()).collect(),
                        series: vec![
                            ("real".into(), series(|(real, _)| real)),
                            ("forecast".into(), series(|(_, forecast)| forecast)),
                        ],
                    },
                });
            }
        }
        figures.iter().flat_map(render).collect()
    }

    /// The Markdown page with the times of every job.
    pub fn page(&self, command: &str) -> String {
        let mut text = format!(
            "# Engine runs and their forecasts\n\nGenerated by `{command}`. {}\n\nThe workload of hSRTF's Table 2 and the failure experiment of Chronos (section V-A), scaled to {} worker \
             processes with {} map and {} reduce slots each. Tasks read {RECORDS_PER_S} records per second, so that the results depend on the schedule and not on the number of cores. \
             In the third experiment tasks run as fast as they can on one worker with twice as many map slots as there are cores, and the simulated ones contend for the cores. \
             At the start of each round, each type of job ran alone on the idle cluster. In the third experiment several jobs of the same type ran at a time, because tasks that share cores take more processor time for the same work, \
             and again after each run, because the speed of a machine may change from minute to minute: a run is forecast from the profiles right before and right after it. \
             The simulator's input is how long each of their maps and reduces took (in the third experiment, the time on a core of its own), when the jobs of the run were submitted, and \
             10 ms as the cost of stopping a task; nothing was fitted to the runs that are forecast. Which job gets a slot may depend on a millisecond, so means over {} are compared. \
             The simulator repeats each run of the engine {FORECAST_RUNS} times, every job with task times drawn from these profiles (with a limited rate, without those that took over 2 % longer than the median: the machine had stood still). \
             Every output was equal to that of a sequential run.\n\n",
            self.summary(),
            CLUSTER.nodes,
            CLUSTER.map_slots,
            CLUSTER.reduce_slots,
            self.rounds_by_experiment()
        );
        text += "| experiment | policy | median error of a job | median difference of a run from the others | recovery wait: real, forecast | node-local recovery maps: real, forecast |\n|---|---|---|---|---|---|\n";
        let both = |figure: &dyn Fn(&RecoveryFigures) -> Option<f64>, unit: Unit, run: &RunComparison| match (
            figure(&run.real),
            figure(&run.forecast),
        ) {
            (Some(real), Some(forecast)) => format!("{}, {}", unit.show(real), unit.show(forecast)),
            _ => String::new(),
        };
        for run in &self.runs {
            text += &format!(
                "| {} | {} | {} | {} | {} | {} |\n",
                run.experiment,
                run.policy,
                Unit::Fraction.show(run.median_error()),
                if run.rounds() > 1 { Unit::Fraction.show(run.median_difference()) } else { String::new() },
                both(&|recovery| recovery.wait_s, Unit::Seconds, run),
                both(&|recovery| recovery.node_local, Unit::Fraction, run)
            );
        }
        text.push('\n');
        for figure in self.figures() {
            text += &format!("![{}](figures/{})\n\n", figure.title, figure.file_name);
        }
        for run in &self.runs {
            text += &format!(
                "## {}, {}\n\n| job | group | real | forecast | error |\n|---|---|---|---|---|\n",
                run.experiment, run.policy
            );
            for (number, job) in run.jobs.iter().enumerate() {
                text += &format!(
                    "| {} | {} | {:.2} s | {:.2} s | {} |\n",
                    number + 1,
                    job.group,
                    job.real_s,
                    job.forecast_s,
                    Unit::Change.show(job.forecast_s / job.real_s - 1.0)
                );
            }
            text.push('\n');
        }
        text.trim_end().to_owned() + "\n"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(runs_s: &[f64], forecast_s: f64) -> JobComparison {
        JobComparison {
            group: "small".into(),
            real_s: mean(runs_s),
            runs_s: runs_s.into(),
            forecast_s,
            forecast_median_s: forecast_s,
        }
    }

    #[test]
    fn each_run_is_compared_with_the_mean_of_the_others() {
        let compared = job(&[1.0, 2.0, 4.0], 2.0);
        let per_mille: Vec<f64> = compared.run_differences().map(|difference| (difference * 1e3).round()).collect();
        assert_eq!(per_mille, [667.0, 200.0, 1667.0], "1 against 3, 2 against 2.5, 4 against 1.5");
        assert_eq!(job(&[1.0], 1.0).run_differences().count(), 0);
    }

    #[test]
    fn the_summary_has_errors_of_jobs_and_of_groups_and_how_much_runs_differ() {
        let none = || RecoveryFigures { wait_s: None, node_local: None };
        let jobs = vec![job(&[1.0, 1.0], 1.5), job(&[2.0, 2.0], 1.5)];
        let run =
            |jobs| RunComparison { experiment: "mix", policy: "fair".into(), jobs, real: none(), forecast: none() };
        let report = ForecastReport { runs: vec![run(jobs)] };
        assert_eq!(
            report.summary(),
            "2 runs with 4 jobs on the engine: median error of the forecast completion time of a job 37.5 %, 90th percentile 50.0 %; of the mean of a size \
             group 0.0 %, 90th percentile 0.0 %. These are means over the runs; with medians instead, the error of a job is 37.5 %, 90th percentile 50.0 %. For \
             comparison, the same job in one run and in the mean of the other runs: 0.0 %, 90th percentile 0.0 %."
        );
        let single = ForecastReport { runs: vec![run(vec![job(&[1.0], 1.1)])] };
        assert!(!single.summary().contains("For comparison"));
    }
}
