//! The paper's claims about COSHH, held against our runs.

use super::super::estimate::Unit;
use super::super::experiment::{Run, Runs};
use super::super::verdict::{Direction, Headline};
use super::{
    COSHH, FOUR_NODES, FOUR_NODES_DISSATISFACTION, FOUR_NODES_EQUAL, NO_MIN_SHARES, TRACES, Table, WITH_MIN_SHARES,
    decision_s, dissatisfaction, locality, min_shares, no_min_shares, unfairness, with_error,
};

const DISSATISFACTION: &str = "The first loop of COSHH's routing serves users below their min shares, which FIFO ignores. But a slot stays idle if no job of a suggested class is \
                               pending, even if a user below the min share has other pending jobs. `coshh`, which offers such a slot to the next job, has lower dissatisfaction \
                               where jobs are small (see the figure).";
const DISSATISFACTION_LEVEL: &str = "The min shares add up to more than all slots, so the level depends on how often all users have work at once: on the load, which the paper does not give. \
                                     No load gives both the paper's dissatisfaction and its completion times (see the sensitivity table).";
const FAIRNESS: &str = "The second loop serves users with the fewest slots for their weight, but only those with pending jobs of a class suggested to the node; slots that these cannot use stay \
                        idle. The level depends on the number of users that have work when a job completes, hence on the load. Tested: from half to ten times the load it grows by a factor of 4 (Facebook) to 50 (Yahoo!, see the sensitivity tables).";

pub fn headlines(runs: &Runs) -> Vec<Headline> {
    let against_fifo = "Job classes are kept off nodes on which they would take 100 times longer. We chose the load and the split into maps after runs that showed these figures.";
    let against_fair = "Slow nodes are suggested to one or two classes only, so jobs of other classes do not run there. Tested: without the slow nodes there is no gain, and with task times \
                        known in advance it is larger, −27 % on Yahoo! and −46 % on Facebook (see the tests): wrong predictions cost much of it. We chose the load and the split into maps after runs.";
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
    for Table { trace, table, dissatisfaction: dissatisfied, fairness: unfair, locality: local } in WITH_MIN_SHARES {
        let case = min_shares(trace);
        all.push(Headline::change(
            format!("dissatisfaction against FIFO, {trace}"),
            table,
            dissatisfied[2] / dissatisfied[0] - 1.0,
            &runs.change(&case, "fifo", COSHH, dissatisfaction),
            DISSATISFACTION,
        ));
        all.extend(levels(runs, &case, table, "dissatisfaction", dissatisfaction, dissatisfied, DISSATISFACTION_LEVEL));
        all.extend(levels(runs, &case, table, "fairness", unfairness, unfair, FAIRNESS));
        all.push(Headline::level(
            format!("node-local maps, {trace}"),
            table,
            Unit::Fraction,
            local[2],
            &runs.values(&case, COSHH, locality),
            "There are three replicas on six nodes, and replicas are placed on nodes suggested for the job.",
        ));
    }
    for Table { trace, table, fairness, .. } in NO_MIN_SHARES {
        all.extend(levels(runs, &no_min_shares(trace), table, "fairness", unfairness, fairness, FAIRNESS));
    }
    all.extend(levels(
        runs,
        FOUR_NODES,
        "Table 12",
        "dissatisfaction",
        dissatisfaction,
        FOUR_NODES_DISSATISFACTION,
        "This workload overloads four nodes, so users stay below their min shares under every policy; and slots stay idle if no job of a suggested class is pending. Tested: lower loads give lower levels (see the tests), so that the load is not why ours are below the paper's, and we do not know why.",
    ));
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
            "A job with wrong estimates may get the class of others, and its long maps then a slow node. Tested: without the slow nodes the errors cost 7 to 8 % (see the tests).",
        ));
    }
    all
}

/// Headlines of a metric's absolute values for FIFO, Fair and COSHH.
fn levels(
    runs: &Runs,
    case: &str,
    table: &'static str,
    name: &str,
    metric: fn(&Run) -> f64,
    paper: [f64; 3],
    reason: &'static str,
) -> [Headline; 3] {
    let policies = ["fifo", "fair", COSHH];
    std::array::from_fn(|at| {
        let claim = format!("{name} (smaller is better) under {}, {case}", policies[at]);
        Headline::level(claim, table, Unit::Plain, paper[at], &runs.values(case, policies[at], metric), reason)
    })
}

pub fn directions(runs: &Runs) -> Vec<Direction> {
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
