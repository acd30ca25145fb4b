//! COSHH: two traces on unlike machines against FIFO and Fair, with and without min shares, with more jobs, more machines and worse estimates.

use super::lab::{Case, Run, Runs, Scale};
use super::study::{Direction, Estimate, Figure, Headline, Measure, Plot, Study, Unit};
use super::vary::{Column, Knob, times};
use super::watch::Watch;
use giveway_core::{Time, WHOLE_PPM};

/// Algorithm 2 as it is written: a slot that no job of a suggested class wants stays idle.
const OURS: &str = "coshh-strict";
/// The last one gives such a slot to the next best.
const POLICIES: [&str; 4] = ["fifo", "fair", OURS, "coshh"];
const TRACES: [&str; 2] = ["yahoo", "facebook"];
/// Jobs at which the running mean is drawn.
const UP_TO: [usize; 20] = [5, 10, 15, 20, 25, 30, 35, 40, 45, 50, 55, 60, 65, 70, 75, 80, 85, 90, 95, 100];
/// Section 6.2.1.
const JOBS: [u32; 9] = [5, 10, 20, 30, 40, 60, 80, 100, 120];
/// Section 6.2.2.
const RESOURCES: [u32; 9] = [6, 18, 30, 42, 54, 66, 78, 90, 102];
/// Section 6.3.
const ERRORS: [u32; 5] = [0, 10, 20, 30, 40];
const DISSATISFACTION: &str = "The first loop of its routing serves whoever is below the min share; FIFO knows none. But a slot that no suggested class wants stays idle \
                               beside a user who waits: `coshh`, which gives it to the next best, leaves fewer dissatisfied where jobs are small (see the figure).";
const KNOBS: [&Knob; 2] = [&LOAD, &SLOW_NODES];

/// The paper derives arrivals from traces it does not print.
const LOAD: Knob = Knob {
    name: "load",
    values: &[0.5, 1.0, 3.0, 10.0],
    show: times,
    turn: |_, workload, times| {
        workload.jobs.iter_mut().for_each(|job| job.submit = Time::from_secs_f64(job.submit.as_secs_f64() / times));
    },
};

/// In Table 3 they are a hundred times slower than the others.
const SLOW_NODES: Knob = Knob {
    name: "speed of the slow nodes",
    values: &[1.0, 10.0, 100.0],
    show: times,
    turn: |cluster, _, times| {
        for node in cluster.nodes.iter_mut().filter(|node| node.spec.speed_ppm < WHOLE_PPM) {
            node.spec.speed_ppm = ((f64::from(node.spec.speed_ppm) * times) as u32).min(WHOLE_PPM);
        }
    },
};

/// What to run.
pub fn cases(scale: &Scale) -> Vec<Case> {
    let timed = Watch { decisions: true, ..Watch::default() };
    let mut cases = Vec::new();
    for trace in TRACES {
        let workload = |jobs: u32| format!("coshh-{trace}-{jobs}");
        cases.push(Case::new(shares(trace), workload(100), &POLICIES, scale.seeds).watched(timed));
        cases.push(Case::new(even(trace), format!("coshh-{trace}-even"), &POLICIES, scale.seeds).watched(timed));
        let fast_only = Case::new(without_slow(trace), workload(100), &POLICIES, scale.sweep_seeds);
        cases.push(fast_only.with(|cluster, _| cluster.nodes.retain(|node| node.spec.speed_ppm >= WHOLE_PPM)));
        for count in jobs(scale) {
            cases
                .push(Case::new(with_jobs(trace, count), workload(count), &POLICIES, scale.sweep_seeds).watched(timed));
        }
        for count in resources(scale) {
            let case = Case::new(with_resources(trace, count), workload(100), &POLICIES, scale.sweep_seeds);
            cases.push(case.on(format!("coshh-{count}")).watched(timed));
        }
        for percent in errors(scale) {
            let case = Case::new(with_error(trace, percent), workload(100), &[OURS], replications(scale));
            cases.push(
                case.with(move |_, workload| workload.estimate_error = f64::from(percent) / 100.0).watched(timed),
            );
        }
        if !scale.quick {
            for knob in KNOBS {
                cases.extend(knob.cases(&shares(trace), &workload(100), &POLICIES, scale.sweep_seeds));
            }
        }
    }
    for (name, workload) in [(REAL, "coshh-facebook"), (REAL_EVEN, "coshh-facebook-even")] {
        cases.push(Case::new(name, workload, &POLICIES, scale.seeds).on("coshh-real").watched(timed));
    }
    cases
}

const REAL: &str = "four nodes, unequal users";
const REAL_EVEN: &str = "four nodes, equal users";

fn shares(trace: &str) -> String {
    format!("{trace}, min shares")
}

fn even(trace: &str) -> String {
    format!("{trace}, no min shares")
}

fn without_slow(trace: &str) -> String {
    format!("{trace}, slow nodes off")
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

/// The paper takes thirty.
fn replications(scale: &Scale) -> u32 {
    if scale.seeds < 20 { scale.seeds } else { scale.seeds.max(30) }
}

/// What came of it.
pub fn study(scale: &Scale, runs: &Runs) -> Study {
    Study {
        paper: "coshh",
        title: "COSHH: jobs and machines that differ",
        about: "Six nodes whose speeds differ a hundredfold (its Table 3), a hundred jobs of Facebook's and Yahoo!'s classes (Table 4) from users with and without \
                min shares (Table 5). COSHH is `coshh-strict`, Algorithm 2 as it is written; `coshh` does not leave slots idle that no suggested class wants. Scheduling time is what our core takes for all decisions of a run, replayed with nothing between them on the machine that \
                made this page; it is never charged to the jobs. Errors of the estimates are drawn thirty times, as in the paper.",
        headlines: headlines(runs),
        directions: directions(runs),
        figures: figures(scale, runs),
        sensitivity: sensitivity(scale, runs),
    }
}

fn dissatisfaction(run: &Run) -> f64 {
    run.summary.dissatisfaction.unwrap_or(f64::NAN)
}

fn unfairness(run: &Run) -> f64 {
    run.summary.fairness.unwrap_or(f64::NAN)
}

fn locality(run: &Run) -> f64 {
    run.summary.key_metrics.locality_node.unwrap_or(f64::NAN)
}

fn decided(run: &Run) -> f64 {
    run.decided_s.last().copied().unwrap_or(f64::NAN)
}

fn headlines(runs: &Runs) -> Vec<Headline> {
    let completion = "Classes of jobs are kept from machines on which they would take a hundred times longer. Load and the cut into maps were chosen after runs, \
                      with these figures in view.";
    let against_fair = "Slow nodes are suggested to one or two classes only, so the other jobs are never caught there. That is the whole gain: with the slow nodes \
                        switched off, Fair does better still (see the figures). Load and the cut into maps were chosen after runs.";
    let mut all = Vec::new();
    let means = [("yahoo", -0.7449, -0.7973), ("facebook", -0.3127, -0.4241)];
    for (trace, fifo, fair) in means {
        let case = shares(trace);
        let of = |from: &str| runs.change(&case, from, OURS, Run::completion);
        all.push(Headline::change(
            format!("mean completion against FIFO, {trace}"),
            "5.3",
            fifo,
            &of("fifo"),
            completion,
        ));
        all.push(Headline::change(
            format!("mean completion against Fair, {trace}"),
            "5.3",
            fair,
            &of("fair"),
            against_fair,
        ));
    }
    for (trace, fair_over_fifo, fair) in [("yahoo", -0.3772, -0.7592), ("facebook", -0.2642, -0.4297)] {
        let case = even(trace);
        all.push(Headline::change(
            format!("mean completion, no min shares, Fair against FIFO, {trace}"),
            "6.1",
            fair_over_fifo,
            &runs.change(&case, "fifo", "fair", Run::completion),
            "Small jobs no longer stand behind large ones. The load was set to where these two stand about as in the paper, so this row is no evidence.",
        ));
        all.push(Headline::change(
            format!("mean completion, no min shares, against Fair, {trace}"),
            "6.1",
            fair,
            &runs.change(&case, "fair", OURS, Run::completion),
            against_fair,
        ));
    }
    let tables = [
        ("yahoo", "Table 6", [8.618, 1.209], [4.974, 0.965, 2.779], 0.965),
        ("facebook", "Table 7", [10.782, 0.294], [6.646, 2.537, 0.663], 0.950),
    ];
    for (trace, table, dissatisfied, unfair, local) in tables {
        let case = shares(trace);
        all.push(Headline::change(
            format!("dissatisfaction against FIFO, {trace}"),
            table,
            dissatisfied[1] / dissatisfied[0] - 1.0,
            &runs.change(&case, "fifo", OURS, dissatisfaction),
            DISSATISFACTION,
        ));
        all.push(Headline::rises(
            format!("dissatisfaction against Fair, where the paper's is all but zero, {trace}"),
            table,
            &runs.change(&case, "fair", OURS, dissatisfaction),
            "Our Fair serves pools in proportion to their min shares, of which there are more than slots, and does not take slots back: its users are not all satisfied.",
        ));
        all.extend(fairness(runs, &case, table, unfair));
        all.push(Headline::level(
            format!("maps near their data, {trace}"),
            table,
            Unit::Part,
            local,
            &runs.each(&case, OURS, locality),
            "Three replicas on six nodes, and replicas go where the jobs are suggested.",
        ));
    }
    for (trace, table, unfair) in
        [("yahoo", "Table 8", [1.032, 0.504, 0.856]), ("facebook", "Table 9", [1.188, 0.429, 0.926])]
    {
        all.extend(fairness(runs, &even(trace), table, unfair));
    }
    for (from, name, paper) in [("fifo", "FIFO", 10.302), ("fair", "Fair", 3.984)] {
        all.push(Headline::change(
            format!("dissatisfaction on four nodes against {name}"),
            "Table 12",
            5.869 / paper - 1.0,
            &runs.change(REAL, from, OURS, dissatisfaction),
            "This workload overloads four nodes, so users wait below their min shares whoever schedules; and slots that no suggested class wants stay idle.",
        ));
    }
    for case in [shares("yahoo"), shares("facebook"), REAL.to_owned()] {
        let part = |run: &Run| decided(run) / run.completion();
        all.push(Headline::hardly(
            format!("all decisions of a run are nothing beside the mean completion of a job, {case}"),
            "5.3, 7",
            f64::NAN,
            &runs.each(&case, OURS, part),
            0.001,
            "Classes and programs are made anew only when a job fits none, and nodes of one type share a column.",
        ));
    }
    for trace in TRACES {
        let (exact, worst) = (with_error(trace, 0), with_error(trace, 40));
        let values: Vec<f64> = runs
            .each(&worst, OURS, Run::completion)
            .iter()
            .zip(runs.each(&exact, OURS, Run::completion))
            .map(|(worst, exact)| worst / exact - 1.0)
            .collect();
        all.push(Headline::hardly(
            format!("40 % error of estimates hardly matters, {trace}"),
            "6.3",
            f64::NAN,
            &values,
            0.15,
            "Estimates only decide which class a job is in, and most classes differ by more than errors do.",
        ));
    }
    all
}

/// A table's fairness of FIFO, Fair and COSHH.
fn fairness(runs: &Runs, case: &str, table: &'static str, [fifo, fair, coshh]: [f64; 3]) -> [Headline; 2] {
    [("fifo", "FIFO", fifo), ("fair", "Fair", fair)].map(|(from, name, paper)| {
        Headline::change(
            format!("fairness against {name} (less is fairer), {case}"),
            table,
            coshh / paper - 1.0,
            &runs.change(case, from, OURS, unfairness),
            "The second loop serves users with the fewest slots for their weight, but only those whose class was suggested to the node: what these cannot use \
             stays idle. By this measure Fair itself differs little from FIFO here.",
        )
    })
}

fn directions(runs: &Runs) -> Vec<Direction> {
    let mut all = Vec::new();
    for case in [shares("yahoo"), shares("facebook"), even("yahoo"), even("facebook")] {
        for from in ["fifo", "fair"] {
            let values = runs.change(&case, from, OURS, Run::completion);
            let direction = Direction::down(format!("{OURS} is ahead of {from}, {case}"), &values);
            all.push(direction.unless(
                "A job of a few long maps lasts for days if one of them is caught on a slow node, and a hundred jobs have few of those: whoever is luckier with them is ahead.",
            ));
        }
    }
    for case in [REAL, REAL_EVEN] {
        for from in ["fifo", "fair"] {
            let values = runs.change(case, from, OURS, Run::completion);
            let direction = Direction::down(format!("{OURS} is ahead of {from}, {case}"), &values);
            all.push(direction.unless(
                "The paper prints no figure for it. This workload overloads the four nodes, and a slot that no suggested class wants stays idle beside those who wait.",
            ));
        }
    }
    for trace in TRACES {
        let values = runs.change(&shares(trace), "fifo", OURS, dissatisfaction);
        let claim = format!("users are less dissatisfied under {OURS} than under fifo, {trace}");
        all.push(Direction::down(claim, &values).unless(DISSATISFACTION));
    }
    all
}

fn figures(scale: &Scale, runs: &Runs) -> Vec<Figure> {
    let figure = |id: String, title: String, answers: String, plot: Plot| Figure { id, title, answers, plot };
    let mut all = Vec::new();
    for (case, numbers) in [
        (shares("facebook"), [5, 8]),
        (shares("yahoo"), [6, 7]),
        (even("facebook"), [9, 12]),
        (even("yahoo"), [10, 11]),
    ] {
        let at: Vec<f64> = UP_TO.iter().map(|jobs| *jobs as f64).collect();
        let running = |policy: &str| {
            UP_TO.iter().map(|jobs| Estimate::of(&runs.each(&case, policy, |run| mean_of_first(run, *jobs)))).collect()
        };
        let spent = |policy: &str| {
            UP_TO.iter().map(|jobs| Estimate::of(&runs.each(&case, policy, |run| run.decided_s[*jobs] * 1e3))).collect()
        };
        all.push(figure(
            format!("coshh-{}", numbers[0]),
            format!("Mean completion of the jobs so far, {case}"),
            format!("its Fig. {}", numbers[0]),
            lines("jobs submitted", Measure::seconds("mean completion time"), &at, running),
        ));
        all.push(figure(
            format!("coshh-{}", numbers[1]),
            format!("Scheduling time so far, {case}"),
            format!("its Fig. {}", numbers[1]),
            lines("jobs submitted", Measure::plain("milliseconds"), &at, spent),
        ));
    }
    all.extend(tables(runs));
    let control =
        ["yahoo", "facebook"].iter().flat_map(|trace| [shares(trace), without_slow(trace)]).collect::<Vec<_>>();
    let table = (
        "coshh-control",
        "What if the slow nodes were switched off?",
        Measure::seconds("mean completion time"),
        Run::completion as fn(&Run) -> f64,
    );
    all.push(by_case(runs, table, "not in the paper", &control));
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
            all.extend(sweep.draw(trace, runs));
        }
        let errors = errors(scale);
        let categories: Vec<String> = errors.iter().map(|percent| format!("{percent} %")).collect();
        let by_error_of = |figure: &dyn Fn(&Run) -> f64| -> Vec<(String, Vec<Estimate>)> {
            let of = |percent: &u32| Estimate::of(&runs.each(&with_error(trace, *percent), OURS, figure));
            vec![(OURS.into(), errors.iter().map(of).collect())]
        };
        // What knows no estimates is the same at every error.
        let without = |policy: &str| {
            let one = Estimate::of(&runs.each(&shares(trace), policy, Run::completion));
            (policy.to_owned(), vec![one; errors.len()])
        };
        let mut completion = vec![without("fifo"), without("fair")];
        completion.extend(by_error_of(&Run::completion));
        all.push(figure(
            format!("coshh-{by_error}"),
            format!("Mean completion by error of the estimates, {trace}"),
            format!("its Fig. {by_error}"),
            Plot::Bars {
                y: Measure::seconds("mean completion time"),
                categories: categories.clone(),
                series: completion,
            },
        ));
        all.push(figure(
            format!("coshh-{error_time}"),
            format!("Scheduling time by error of the estimates, {trace}"),
            format!("its Fig. {error_time}"),
            Plot::Bars {
                y: Measure::plain("milliseconds"),
                categories,
                series: by_error_of(&|run| decided(run) * 1e3),
            },
        ));
    }
    all.extend(four_nodes(runs));
    all
}

/// More and more of something: its figures in the paper (completion, scheduling time), and for each number of it a case.
struct Sweep {
    x: &'static str,
    figures: [u32; 2],
    points: Vec<(f64, String)>,
}

impl Sweep {
    fn draw(&self, trace: &str, runs: &Runs) -> [Figure; 2] {
        let at: Vec<f64> = self.points.iter().map(|(at, _)| *at).collect();
        let of = |policy: &str, figure: fn(&Run) -> f64| -> Vec<Estimate> {
            self.points.iter().map(|(_, case)| Estimate::of(&runs.each(case, policy, figure))).collect()
        };
        let figure = |number: u32, title: &str, y: Measure, value: fn(&Run) -> f64| Figure {
            id: format!("coshh-{number}"),
            title: format!("{title} by number of {}, {trace}", self.x),
            answers: format!("its Fig. {number}"),
            plot: lines(self.x, y, &at, |policy| of(policy, value)),
        };
        let [completion, time] = self.figures;
        [
            figure(completion, "Mean completion", Measure::seconds("mean completion time"), Run::completion),
            figure(time, "Scheduling time", Measure::plain("milliseconds"), |run| decided(run) * 1e3),
        ]
    }
}

fn lines(x: &str, y: Measure, at: &[f64], of: impl Fn(&str) -> Vec<Estimate>) -> Plot {
    let series = POLICIES.map(|policy| (policy.to_owned(), of(policy))).into();
    Plot::Lines { x: x.into(), y, at: at.into(), series }
}

/// Mean completion of the jobs that came first.
fn mean_of_first(run: &Run, jobs: usize) -> f64 {
    let first = run.jobs.iter().filter(|job| (job.job.0 as usize) < jobs);
    first.map(|job| job.completion_s).sum::<f64>() / jobs as f64
}

/// A table of the paper as bars.
type Table = (&'static str, &'static str, Measure, fn(&Run) -> f64);

fn by_case(runs: &Runs, (id, title, y, of): Table, answers: &str, cases: &[String]) -> Figure {
    let bars = |policy: &str| cases.iter().map(|case| Estimate::of(&runs.each(case, policy, of))).collect();
    Figure {
        id: id.into(),
        title: title.into(),
        answers: answers.into(),
        plot: Plot::Bars {
            y,
            categories: cases.into(),
            series: POLICIES.map(|policy| (policy.to_owned(), bars(policy))).into(),
        },
    }
}

fn tables(runs: &Runs) -> Vec<Figure> {
    let unequal = TRACES.map(shares);
    let all = [shares("yahoo"), shares("facebook"), even("yahoo"), even("facebook")];
    let sum = || Measure::plain("averaged over the run, less is better");
    vec![
        by_case(
            runs,
            ("coshh-dissatisfaction", "Dissatisfaction", sum(), dissatisfaction),
            "its Tables 6 and 7",
            &unequal,
        ),
        by_case(runs, ("coshh-fairness", "Fairness", sum(), unfairness), "its Tables 6 to 9", &all),
        by_case(
            runs,
            ("coshh-locality", "Maps near their data", Measure::part("part of all map launches"), locality),
            "its Tables 6 to 9",
            &all,
        ),
    ]
}

fn four_nodes(runs: &Runs) -> Vec<Figure> {
    let cases = [REAL, REAL_EVEN].map(String::from);
    let sum = || Measure::plain("averaged over the run, less is better");
    vec![
        by_case(
            runs,
            ("coshh-table12", "Dissatisfaction on four nodes", sum(), dissatisfaction),
            "its Table 12",
            &cases[..1],
        ),
        by_case(
            runs,
            ("coshh-25", "Mean completion on four nodes", Measure::seconds("mean completion time"), Run::completion),
            "its Fig. 25",
            &cases,
        ),
        by_case(runs, ("coshh-26", "Fairness on four nodes", sum(), unfairness), "its Fig. 26", &cases),
        by_case(
            runs,
            ("coshh-27", "Maps near their data on four nodes", Measure::part("part of all map launches"), locality),
            "its Fig. 27",
            &cases,
        ),
        by_case(
            runs,
            ("coshh-28", "Scheduling time on four nodes", Measure::plain("milliseconds"), |run| decided(run) * 1e3),
            "its Fig. 28",
            &cases,
        ),
    ]
}

fn sensitivity(scale: &Scale, runs: &Runs) -> Vec<super::study::Sensitivity> {
    const COLUMNS: [Column; 2] = [
        Column { name: "against FIFO", of: |runs, case| runs.change(case, "fifo", OURS, Run::completion) },
        Column { name: "against Fair", of: |runs, case| runs.change(case, "fair", OURS, Run::completion) },
    ];
    if scale.quick {
        return Vec::new();
    }
    TRACES.iter().flat_map(|trace| KNOBS.iter().map(|knob| knob.table(&shares(trace), runs, &COLUMNS))).collect()
}
