//! FCS: its two tables of jobs and GridMix2 against Fair and Capacity, pausing against killing, the migration parameter, and why it was made.

use super::lab::{Case, Run, Runs, Scale};
use super::study::{Direction, Estimate, Figure, Headline, Measure, Plot, SlotsOverTime, Study};
use super::vary::{Column, DISK, GAPS, Knob, REDUCES, SPEED};
use super::watch::Watch;
use giveway_core::policy::{Migration, Policy, catalog};

const MAP: &str = "map-heavy";
const REDUCE: &str = "reduce-heavy";
const MOTIVE: &str = "motive";
const GROUPS: [&str; 10] = ["1", "2", "3", "4", "5", "6", "7", "8", "9", "10"];
const POLICIES: [&str; 3] = ["fcs", "fair", "capacity"];
/// Section 5.2.2: workloads 1 to 3, and how much pausing saved.
const KILLS: [(u32, f64); 3] = [(80, -0.113), (130, -0.218), (180, -0.257)];
/// Section 5.5.
const SCALING: [u32; 5] = [60, 120, 180, 240, 300];
/// Section 5.2.1, with the number of GridMix2 jobs it does not print.
const REFUSALS: [u32; 7] = [20, 40, 60, 80, 100, 120, 140];
const MIGRATION_JOBS: u32 = 130;
const NO_MIGRATION: &str = "fcs, no migration";
const KNOBS: [&Knob; 4] = [&SPEED, &DISK, &REDUCES, &GAPS];

/// What to run.
pub fn cases(scale: &Scale) -> Vec<Case> {
    let slots = Watch { slots: true, ..Watch::default() };
    let mut cases = vec![
        Case::new(MAP, "fcs-map-heavy", &POLICIES, scale.seeds),
        Case::new(REDUCE, "fcs-reduce-heavy", &["fcs", "fair", "capacity", "fcs-kill"], scale.seeds),
        Case::new(MOTIVE, "fcs-figure3", &["fair", "fcs"], scale.seeds).watched(slots),
        Case::new("migration", gridmix(MIGRATION_JOBS), &[], scale.seeds).and_under(migrating()),
    ];
    for (jobs, _) in KILLS {
        cases.push(Case::new(killing(jobs), gridmix(jobs), &["fcs", "fcs-kill"], scale.seeds));
    }
    for jobs in scaling(scale) {
        cases.push(Case::new(gridmix(jobs), gridmix(jobs), &["fcs", "fair"], scale.seeds));
    }
    for knob in KNOBS {
        if !scale.quick {
            cases.extend(knob.cases(MAP, "fcs-map-heavy", &["fcs", "fair"], scale.sweep_seeds));
            cases.extend(knob.cases(REDUCE, "fcs-reduce-heavy", &["fcs", "fair"], scale.sweep_seeds));
        }
    }
    cases
}

fn scaling(scale: &Scale) -> Vec<u32> {
    scale.points(&SCALING, &[60, 180, 300])
}

fn gridmix(jobs: u32) -> String {
    format!("gridmix-{jobs}")
}

fn killing(jobs: u32) -> String {
    format!("pause or kill, {jobs} jobs")
}

fn refusing(refusals: u32) -> String {
    format!("fcs, D = {refusals}")
}

/// FCS with other patience, and with none.
fn migrating() -> Vec<Policy> {
    let with = |name: String, migrate: Migration| {
        let mut policy = catalog::by_name("fcs").expect("in the catalogue");
        policy.name = name;
        policy.reduce.placement.migrate = migrate;
        policy
    };
    let mut policies: Vec<Policy> =
        REFUSALS.iter().map(|refusals| with(refusing(*refusals), Migration::AfterRefusals(*refusals))).collect();
    policies.push(with(NO_MIGRATION.into(), Migration::Never));
    policies
}

/// What came of it.
pub fn study(scale: &Scale, runs: &Runs) -> Study {
    Study {
        paper: "fcs",
        title: "FCS: preemptive reduces and fair completion",
        about: "45 nodes; 171 jobs in ten groups, map-heavy (its Table 1) and reduce-heavy (Table 3), arriving every 30 s on the mean; GridMix2 with 60 to 300 \
                jobs. The paper's execution time can only be the time from submission on: counted from the first map, Capacity, whose jobs wait in line, would \
                be the best of all. Slowdown is as the paper words it, execution over execution alone, which leaves the wait for the first map out.",
        headlines: headlines(scale, runs),
        directions: directions(runs),
        figures: figures(scale, runs),
        sensitivity: sensitivity(scale, runs),
    }
}

fn max_slowdown(run: &Run) -> f64 {
    run.summary.key_metrics.max_slowdown.unwrap_or(f64::NAN)
}

/// How long reduces waited for a slot after the last map of their job.
fn reduce_wait(run: &Run) -> f64 {
    run.summary.details.mean_reduce_wait_s.unwrap_or(f64::NAN)
}

/// By how much the largest slowdown of the groups changes from Fair to FCS, seed by seed.
fn slowdown_changes(runs: &Runs, case: &str, over_groups: fn(&[f64]) -> f64) -> Vec<f64> {
    let by_group: Vec<Vec<f64>> =
        GROUPS.iter().map(|group| runs.change(case, "fair", "fcs", |run| slowest(run, group))).collect();
    seed_by_seed(&by_group, over_groups)
}

fn slowest(run: &Run, group: &str) -> f64 {
    run.group(group).key_metrics.max_slowdown.unwrap_or(f64::NAN)
}

/// One figure a seed out of several.
fn seed_by_seed(columns: &[Vec<f64>], fold: fn(&[f64]) -> f64) -> Vec<f64> {
    let of_seed = |seed: usize| -> Vec<f64> { columns.iter().map(|column| column[seed]).collect() };
    (0..columns.first().map_or(0, Vec::len)).map(|seed| fold(&of_seed(seed))).collect()
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn headlines(scale: &Scale, runs: &Runs) -> Vec<Headline> {
    let fair = "Small jobs no longer wait for reduce slots that reduces of large jobs hold while they wait for maps.";
    let capacity = "With one queue Capacity is FIFO: everybody waits for the largest job, in both systems.";
    let change = |case: &str, from: &str| runs.change(case, from, "fcs", Run::completion);
    let mut all = vec![
        Headline::change(
            "all jobs against Fair, map-heavy (247 against 359 s)",
            "Table 2",
            247.0 / 359.0 - 1.0,
            &change(MAP, "fair"),
            fair,
        ),
        Headline::change(
            "all jobs against Capacity, map-heavy (1061 s)",
            "Table 2",
            247.0 / 1061.0 - 1.0,
            &change(MAP, "capacity"),
            capacity,
        ),
        Headline::change(
            "all jobs against Fair, reduce-heavy (978 against 1364 s)",
            "Table 4",
            978.0 / 1364.0 - 1.0,
            &change(REDUCE, "fair"),
            fair,
        ),
        Headline::change(
            "all jobs against Capacity, reduce-heavy (8829 s)",
            "Table 4",
            978.0 / 8829.0 - 1.0,
            &change(REDUCE, "capacity"),
            capacity,
        ),
        Headline::change(
            "largest slowdown of a group against Fair, best group, map-heavy: fairness",
            "abstract, Fig. 11",
            -0.667,
            &slowdown_changes(runs, MAP, |groups| groups.iter().copied().fold(f64::INFINITY, f64::min)),
            "The largest slowdown under Fair is a small job's that waited for a reduce slot.",
        ),
        Headline::change(
            "largest slowdown of a group against Fair, mean of the groups, reduce-heavy: fairness",
            "5.4, Fig. 14",
            -0.352,
            &slowdown_changes(runs, REDUCE, mean),
            "Small jobs no longer wait for reduce slots; in the groups of large jobs little changes.",
        ),
    ];
    let over_all: Vec<Vec<f64>> =
        scaling(scale).iter().map(|jobs| runs.change(&gridmix(*jobs), "fair", "fcs", Run::completion)).collect();
    all.push(Headline::change(
        "GridMix2 against Fair, 60 to 300 jobs",
        "abstract, 5.5",
        -0.397,
        &seed_by_seed(&over_all, mean),
        "The abstract and 5.5 say 39.7 % on average; the same section also says that it rises from 10 to 28 %. The mix and its load are not printed.",
    ));
    for (jobs, paper) in KILLS {
        all.push(Headline::change(
            format!("pausing against killing, GridMix2 with {jobs} jobs"),
            "5.2.2, Fig. 7",
            paper,
            &runs.change(&killing(jobs), "fcs-kill", "fcs", Run::completion),
            "What killing costs is what the killed reduces had done; how much that is depends on the mix, which the paper does not print.",
        ));
    }
    let best = |runs: &Runs| -> Vec<f64> { runs.change("migration", NO_MIGRATION, &refusing(60), Run::completion) };
    all.push(Headline::change(
        "migration after D = 60 refusals against none",
        "5.2.1, Fig. 6",
        -0.096,
        &best(runs),
        "A paused reduce finds its own node free again soon when reduce slots turn over as fast as they do here.",
    ));
    all.push(Headline::change(
        "reduce wait of group 5 against Fair, map-heavy (32.2 times less)",
        "5.3, Fig. 9",
        1.0 / 32.2 - 1.0,
        &runs.change(MAP, "fair", "fcs", |run| run.group("5").details.mean_reduce_wait_s.unwrap_or(f64::NAN)),
        "Reduces of jobs with less work left take slots from those of the largest jobs, which then wait a little longer.",
    ));
    all
}

fn directions(runs: &Runs) -> Vec<Direction> {
    let mut all = Vec::new();
    for case in [MAP, REDUCE] {
        for from in ["fair", "capacity"] {
            let values = runs.change(case, from, "fcs", Run::completion);
            all.push(Direction::down(format!("fcs is ahead of {from}, {case}"), &values));
        }
        let values = runs.change(case, "fair", "fcs", max_slowdown);
        all.push(Direction::down(
            format!("the largest slowdown is smaller under fcs than under fair, {case}"),
            &values,
        ));
        let values = runs.change(case, "fair", "fcs", reduce_wait);
        all.push(Direction::down(format!("reduces wait less under fcs than under fair, {case}"), &values));
    }
    for (jobs, _) in KILLS {
        let values = runs.change(&killing(jobs), "fcs-kill", "fcs", Run::completion);
        all.push(Direction::down(format!("pausing beats killing, GridMix2 with {jobs} jobs"), &values));
    }
    let values = runs.change(REDUCE, "fcs-kill", "fcs", Run::completion);
    all.push(Direction::down(format!("pausing beats killing, {REDUCE}"), &values));
    let waiting = |run: &Run| run.group_completion("small");
    all.push(Direction::down(
        "small jobs behind a large one finish sooner under fcs than under fair (Fig. 3)",
        &runs.change(MOTIVE, "fair", "fcs", waiting),
    ));
    all
}

fn figures(scale: &Scale, runs: &Runs) -> Vec<Figure> {
    let by_group = |id: &str,
                    title: &str,
                    answers: &str,
                    y: Measure,
                    case: &str,
                    policies: &[&str],
                    figure: &dyn Fn(&Run, &str) -> f64| {
        let of = |policy: &str| {
            GROUPS.iter().map(|group| Estimate::of(&runs.each(case, policy, |run| figure(run, group)))).collect()
        };
        Figure {
            id: id.into(),
            title: title.into(),
            answers: answers.into(),
            plot: Plot::Bars {
                y,
                categories: GROUPS.map(|group| format!("group {group}")).into(),
                series: policies.iter().map(|policy| ((*policy).to_owned(), of(policy))).collect(),
            },
        }
    };
    let completion = |run: &Run, group: &str| run.group_completion(group);
    let wait = |run: &Run, group: &str| run.group(group).details.mean_reduce_wait_s.unwrap_or(f64::NAN);
    let pauses =
        |run: &Run, group: &str| run.group(group).key_metrics.pauses as f64 / run.group(group).jobs.max(1) as f64;
    let mean_slowdown = |run: &Run, group: &str| run.group(group).key_metrics.mean_slowdown.unwrap_or(f64::NAN);
    let two = ["fcs", "fair"];
    let time = || Measure::seconds("mean completion time");
    let mut figures = vec![
        by_group(
            "fcs-1",
            "Mean slowdown under Fair",
            "its Fig. 1",
            Measure::plain("execution over execution alone"),
            MAP,
            &["fair"],
            &mean_slowdown,
        ),
        motive(runs),
        migration(runs),
        Figure {
            id: "fcs-7".into(),
            title: "Pausing against killing, GridMix2".into(),
            answers: "its Fig. 7".into(),
            plot: Plot::Bars {
                y: time(),
                categories: KILLS.map(|(jobs, _)| format!("{jobs} jobs")).into(),
                series: ["fcs", "fcs-kill"]
                    .map(|policy| {
                        let of =
                            |(jobs, _): (u32, f64)| Estimate::of(&runs.each(&killing(jobs), policy, Run::completion));
                        (policy.to_owned(), KILLS.map(of).into())
                    })
                    .into(),
            },
        },
        tables(runs),
    ];
    for (case, numbers) in
        [(MAP, ["fcs-8", "fcs-9", "fcs-10", "fcs-11"]), (REDUCE, ["fcs-12", "fcs-13", "fcs-13b", "fcs-14"])]
    {
        let answers = |number: &str| format!("its Fig. {}", number.trim_start_matches("fcs-").trim_end_matches('b'));
        figures.extend([
            by_group(
                numbers[0],
                &format!("Mean completion by group, {case}"),
                &answers(numbers[0]),
                time(),
                case,
                &two,
                &completion,
            ),
            by_group(
                numbers[1],
                &format!("Mean wait of reduces after the maps, {case}"),
                &answers(numbers[1]),
                Measure::seconds("mean reduce wait"),
                case,
                &two,
                &wait,
            ),
            by_group(
                numbers[2],
                &format!("Pauses per job, {case}"),
                if case == MAP { "its Fig. 10" } else { "not printed for this workload" },
                Measure::plain("pauses of a job's reduces"),
                case,
                &["fcs"],
                &pauses,
            ),
            by_group(
                numbers[3],
                &format!("Largest slowdown by group, {case}"),
                &answers(numbers[3]),
                Measure::plain("execution over execution alone"),
                case,
                &two,
                &slowest,
            ),
        ]);
    }
    let jobs = scaling(scale);
    figures.push(Figure {
        id: "fcs-15".into(),
        title: "GridMix2 with ever more jobs".into(),
        answers: "its Fig. 15".into(),
        plot: Plot::Lines {
            x: "jobs".into(),
            y: time(),
            at: jobs.iter().map(|jobs| f64::from(*jobs)).collect(),
            series: two
                .map(|policy| {
                    let of = |jobs: &u32| Estimate::of(&runs.each(&gridmix(*jobs), policy, Run::completion));
                    (policy.to_owned(), jobs.iter().map(of).collect())
                })
                .into(),
        },
    });
    figures
}

/// Slots over time, of the first seed.
fn motive(runs: &Runs) -> Figure {
    let of = |policy: &str| {
        let chart = runs.get(MOTIVE, policy)[0].watched.chart().clone();
        (policy.to_owned(), SlotsOverTime { chart, holders: (1..=8).map(|job| format!("job {job}")).collect() })
    };
    Figure {
        id: "fcs-3".into(),
        title: "Who holds map and reduce slots; job 3 is large".into(),
        answers: "its Fig. 3".into(),
        plot: Plot::Slots(["fair", "fcs"].map(of).into()),
    }
}

fn migration(runs: &Runs) -> Figure {
    let at = |policy: &str| Estimate::of(&runs.each("migration", policy, Run::completion));
    let never = at(NO_MIGRATION);
    Figure {
        id: "fcs-6".into(),
        title: format!("Patience before a paused reduce moves, GridMix2 with {MIGRATION_JOBS} jobs"),
        answers: "its Fig. 6".into(),
        plot: Plot::Lines {
            x: "D: refusals before it moves".into(),
            y: Measure::seconds("mean completion time"),
            at: REFUSALS.map(f64::from).into(),
            series: vec![
                ("with migration".into(), REFUSALS.iter().map(|refusals| at(&refusing(*refusals))).collect()),
                ("without".into(), vec![never; REFUSALS.len()]),
            ],
        },
    }
}

fn tables(runs: &Runs) -> Figure {
    let of = |policy: &str| [MAP, REDUCE].map(|case| Estimate::of(&runs.each(case, policy, Run::completion))).to_vec();
    Figure {
        id: "fcs-tables".into(),
        title: "Mean completion of all jobs".into(),
        answers: "its Tables 2 and 4".into(),
        plot: Plot::Bars {
            y: Measure::seconds("mean completion time"),
            categories: [MAP, REDUCE].map(String::from).into(),
            series: POLICIES.map(|policy| (policy.to_owned(), of(policy))).into(),
        },
    }
}

fn sensitivity(scale: &Scale, runs: &Runs) -> Vec<super::study::Sensitivity> {
    const COLUMNS: [Column; 2] = [
        Column {
            name: "all jobs, FCS against Fair",
            of: |runs, case| runs.change(case, "fair", "fcs", Run::completion),
        },
        Column {
            name: "largest slowdown, FCS against Fair",
            of: |runs, case| runs.change(case, "fair", "fcs", max_slowdown),
        },
    ];
    if scale.quick {
        return Vec::new();
    }
    [MAP, REDUCE].iter().flat_map(|case| KNOBS.iter().map(|knob| knob.table(case, runs, &COLUMNS))).collect()
}
