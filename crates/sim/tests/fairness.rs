//! What the policy `giveway` promises (docs/giveway.md), against simulated `fair`, job by job and user by user.

use giveway_core::policy::catalog;
use giveway_sim::fairness::{Delays, random_scenario, scenarios};

fn delays(with_outages: bool) -> Vec<(String, Delays)> {
    let policy = catalog::by_name("giveway").unwrap();
    let chosen = scenarios().into_iter().filter(|scenario| scenario.name.contains("outages") == with_outages);
    chosen.map(|scenario| (scenario.name.clone(), scenario.delays(&policy, 1))).collect()
}

#[test]
fn no_job_takes_twice_as_long_as_under_fair_and_no_user_much_longer() {
    for (name, delays) in delays(false) {
        assert!(delays.worst_job_less_a_task <= 2.0, "{name}: {delays:?}");
        assert!(delays.worst_user <= 1.4, "{name}: {delays:?}");
        assert!(delays.mean <= 1.0, "{name}: {delays:?}");
    }
}

#[test]
fn outages_delay_a_job_by_a_small_factor() {
    for (name, delays) in delays(true) {
        assert!(delays.worst_job <= 2.5 && delays.worst_user <= 1.5, "{name}: {delays:?}");
    }
}

#[test]
fn random_workloads_are_rarely_slower_than_under_fair() {
    let policy = catalog::by_name("giveway").unwrap();
    let runs: Vec<Delays> = (1..=40).map(|number| random_scenario(number).delays(&policy, 1)).collect();
    let quantile = |of: fn(&Delays) -> f64, part: f64| {
        let mut values: Vec<f64> = runs.iter().map(of).collect();
        values.sort_by(f64::total_cmp);
        values[(part * values.len() as f64) as usize]
    };
    assert!(quantile(|run| run.worst_job_less_a_task, 0.9) <= 2.5, "{runs:#?}");
    assert!(quantile(|run| run.worst_user, 0.9) <= 1.5, "{runs:#?}");
    assert!(quantile(|run| run.mean, 0.9) <= 1.02, "{runs:#?}");
}
