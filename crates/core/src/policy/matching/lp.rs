//! COSHH's linear program (section 3.2): which classes of jobs each type of node should work for.
//!
//! Classes *i* arrive at rate α_i; one node of type *j*, working for class *i* alone, does μ_ij of its jobs per second;
//! there are n_j such nodes. The program shares each type's time among the classes so that the load could grow as much
//! as possible in all classes alike:
//!
//! ```text
//! maximise λ   subject to   Σ_j μ_ij n_j δ_ij ≥ λ α_i,   Σ_i δ_ij ≤ 1,   δ ≥ 0
//! ```
//!
//! The paper has a column for each node. Nodes of one type can share one: their columns are equal, so the average of
//! their δ is as good as any, and λ is the same.
//!
//! Rates may lie nine orders of magnitude apart, and the solver wants coefficients within six. So the program that is
//! solved has other unknowns. Let Λ be the most that the class hardest to serve could get from the whole cluster: then
//! 1/classes ≤ λ/Λ ≤ 1. Let y_ij = μ_ij n_j δ_ij / (α_i Λ) be what type *j* does for class *i* in these terms, and
//! c_ij = δ_ij / y_ij what that costs. Then Σ_j y_ij ≥ λ/Λ and Σ_i c_ij y_ij ≤ 1. A type with c_ij over 10^6 is left
//! out for that class: it could do less than a millionth of what is asked. A c_ij below 10^-6 is raised to that: a rare
//! class of light jobs so keeps a share that can be told from zero. Either changes λ by about a millionth.
//!
//! δ is not unique, but the same problem gives the same δ: the solver draws its perturbations from fixed hashes and
//! keeps one hash set, to ask whether a basis was visited, never to walk through it. It reads a clock only to report
//! how long it took.

use microlp::{ComparisonOp, OptimizationDirection, Variable};

/// A share of a type's time this small is none.
pub const NOTHING: f64 = 1e-9;

/// How far coefficients may lie apart.
const RANGE: f64 = 1e6;

/// Rates and counts.
#[derive(Clone, Copy, Debug)]
pub struct Problem<'a> {
    /// For each class, its arrivals in a unit of time. A class that never arrives is given nothing.
    pub alpha: &'a [f64],
    /// For each class and type, what one node does in a unit of time; zero if it cannot.
    pub mu: &'a [Vec<f64>],
    /// For each type, how many nodes.
    pub counts: &'a [f64],
}

/// How the types share their time among the classes.
#[derive(Clone, Debug, PartialEq)]
pub struct Allocation {
    /// How many times over the load could be served with these shares.
    pub lambda: f64,
    /// For each class and type, the part of the type's time.
    pub delta: Vec<Vec<f64>>,
}

impl Allocation {
    /// For each type, the classes suggested to it, lowest first: the sets SC_j of the paper.
    pub fn suggested(&self) -> Vec<Vec<usize>> {
        let types = self.delta.first().map_or(0, Vec::len);
        let classes = |j: usize| (0..self.delta.len()).filter(|&i| self.delta[i][j] > NOTHING).collect();
        (0..types).map(classes).collect()
    }
}

/// Solves the program. None if no class arrives, if nobody can serve one that does, or if a number makes no sense.
pub fn solve(problem: &Problem) -> Option<Allocation> {
    let Problem { alpha, mu, counts } = *problem;
    let sane = |x: &f64| x.is_finite() && *x >= 0.0;
    let rectangular = mu.len() == alpha.len() && mu.iter().all(|row| row.len() == counts.len());
    if !rectangular || !alpha.iter().chain(counts).chain(mu.iter().flatten()).all(sane) {
        return None;
    }
    let arriving: Vec<usize> = (0..alpha.len()).filter(|&i| alpha[i] > 0.0).collect();
    // How many times over each class could be served by one type, and by all together, if no other class came.
    let alone = |i: usize, j: usize| mu[i][j] * counts[j] / alpha[i];
    let scale =
        arriving.iter().map(|&i| (0..counts.len()).map(|j| alone(i, j)).sum::<f64>()).fold(f64::INFINITY, f64::min);
    if !(scale > 0.0 && scale.is_finite()) {
        return None;
    }

    let mut program = microlp::Problem::new(OptimizationDirection::Maximize);
    let goal = program.add_var(1.0, (0.0, 1.0));
    let mut unknowns: Vec<Unknown> = Vec::new();
    for &i in &arriving {
        for j in 0..counts.len() {
            let cost = scale / alone(i, j);
            if cost <= RANGE {
                let cost = cost.max(1.0 / RANGE);
                // Whichever of y and δ is larger, so that no coefficient is over 1.
                let unit = cost.max(1.0);
                unknowns.push(Unknown { i, j, cost, unit, variable: program.add_var(0.0, (0.0, f64::INFINITY)) });
            }
        }
    }
    for &i in &arriving {
        let served =
            unknowns.iter().filter(|unknown| unknown.i == i).map(|unknown| (unknown.variable, 1.0 / unknown.unit));
        program.add_constraint(served.chain([(goal, -1.0)]).collect::<Vec<_>>(), ComparisonOp::Ge, 0.0);
    }
    for j in 0..counts.len() {
        let spent = unknowns.iter().filter(|unknown| unknown.j == j);
        let spent: Vec<_> = spent.map(|unknown| (unknown.variable, unknown.cost / unknown.unit)).collect();
        if !spent.is_empty() {
            program.add_constraint(spent, ComparisonOp::Le, 1.0);
        }
    }
    let solution = program.solve().ok()?.into_solution().ok()?;

    let mut delta = vec![vec![0.0; counts.len()]; alpha.len()];
    for Unknown { i, j, cost, unit, variable } in unknowns {
        delta[i][j] = (solution.var_value(variable) / unit * cost).max(0.0);
    }
    Some(tidied(problem, delta))
}

/// A place in δ and how the solver knows it.
struct Unknown {
    i: usize,
    j: usize,
    cost: f64,
    unit: f64,
    variable: Variable,
}

/// The solver keeps its promises within a tolerance. This keeps them exactly: no type spends more than all its time,
/// and λ is what the shares truly reach.
fn tidied(problem: &Problem, mut delta: Vec<Vec<f64>>) -> Allocation {
    let Problem { alpha, mu, counts } = *problem;
    for j in 0..counts.len() {
        let spent: f64 = delta.iter().map(|row| row[j]).sum();
        for row in &mut delta {
            row[j] = if row[j] <= NOTHING { 0.0 } else { row[j] / spent.max(1.0) };
        }
    }
    let reached = |i: usize| (0..counts.len()).map(|j| mu[i][j] * counts[j] * delta[i][j]).sum::<f64>() / alpha[i];
    let lambda = (0..alpha.len()).filter(|&i| alpha[i] > 0.0).map(reached).fold(f64::INFINITY, f64::min);
    Allocation { lambda, delta }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn close(a: f64, b: f64, tolerance: f64) -> bool {
        (a - b).abs() <= tolerance * b.abs().max(1.0)
    }

    /// The example of section 3.2: the fast node leaves the class it is fastest for to the other one.
    #[test]
    fn the_worked_instance_of_coshh_comes_out() {
        let mu = [vec![9.0, 5.0], vec![2.0, 1.0]];
        let allocation = solve(&Problem { alpha: &[2.45, 2.45], mu: &mu, counts: &[1.0, 1.0] }).unwrap();
        assert!(close(allocation.lambda, 1.0204, 1e-4), "{}", allocation.lambda);
        for (row, expected) in allocation.delta.iter().zip([[0.0, 0.5], [1.0, 0.5]]) {
            assert!(row.iter().zip(expected).all(|(a, b)| close(*a, b, 1e-6)), "{:?}", allocation.delta);
        }
        assert_eq!(allocation.suggested(), [vec![1], vec![0, 1]]);
    }

    #[test]
    fn rates_nine_orders_apart_are_served_and_told_from_zero() {
        let mu = [vec![1e2, 3e-7], vec![1e-7, 2e-7]];
        let allocation = solve(&Problem { alpha: &[1e-6, 1e-4], mu: &mu, counts: &[50.0, 50.0] }).unwrap();
        assert!(close(allocation.lambda, 0.15, 1e-4), "{}", allocation.lambda);
        let suggested = allocation.suggested();
        assert!((0..2).all(|class| suggested.iter().any(|classes| classes.contains(&class))), "{:?}", allocation.delta);
    }

    #[test]
    fn a_class_nobody_can_serve_has_no_answer() {
        let mu = [vec![1.0, 1.0], vec![0.0, 5.0]];
        assert_eq!(solve(&Problem { alpha: &[1.0, 1.0], mu: &mu, counts: &[1.0, 0.0] }), None);
        assert_eq!(solve(&Problem { alpha: &[0.0], mu: &[vec![1.0]], counts: &[1.0] }), None);
        assert_eq!(solve(&Problem { alpha: &[], mu: &[], counts: &[1.0] }), None);
        assert_eq!(solve(&Problem { alpha: &[f64::NAN], mu: &[vec![1.0]], counts: &[1.0] }), None);
        assert_eq!(solve(&Problem { alpha: &[1.0], mu: &[vec![1.0, 2.0]], counts: &[1.0] }), None);
    }

    #[test]
    fn a_class_that_never_arrives_gets_nothing() {
        let mu = [vec![1.0], vec![1.0]];
        let allocation = solve(&Problem { alpha: &[0.0, 1.0], mu: &mu, counts: &[4.0] }).unwrap();
        assert_eq!(allocation.suggested(), [[1]]);
        assert!(close(allocation.lambda, 4.0, 1e-6));
    }

    /// So many classes, and up to seven types of up to eight nodes, with rates over nine orders of magnitude.
    fn problem(classes: std::ops::Range<usize>) -> impl Strategy<Value = (Vec<f64>, Vec<Vec<f64>>, Vec<u8>)> {
        let rate = || (-7.0f64..2.0).prop_map(|power| 10f64.powf(power));
        (classes, 1usize..8).prop_flat_map(move |(classes, types)| {
            let alpha = prop::collection::vec(rate(), classes);
            let mu = prop::collection::vec(prop::collection::vec(rate(), types), classes);
            (alpha, mu, prop::collection::vec(1u8..9, types))
        })
    }

    /// With two classes the best shares are known: in the order of their relative talent for the first class, types
    /// work for it until both classes are served equally well. An independent twin of the solver.
    fn swept(problem: &Problem) -> f64 {
        let alone = |i: usize, j: usize| problem.mu[i][j] * problem.counts[j] / problem.alpha[i];
        let mut types: Vec<usize> = (0..problem.counts.len()).collect();
        types.sort_by(|&a, &b| (alone(0, b) / alone(1, b)).total_cmp(&(alone(0, a) / alone(1, a))));
        let (mut one, mut two) = (0.0, types.iter().map(|&j| alone(1, j)).sum::<f64>());
        for j in types {
            let (gain, loss) = (alone(0, j), alone(1, j));
            two -= loss;
            if one + gain >= two {
                // This type works for both: for the first during a part x of its time, so that one + x gain is two +
                // (1 - x) loss.
                return (one * loss + two.max(0.0) * gain + gain * loss) / (gain + loss);
            }
            one += gain;
        }
        unreachable!("with all types its own, the first class is served better than the second")
    }

    proptest! {
        #[test]
        fn shares_are_feasible_and_no_simple_share_is_better((alpha, mu, counts) in problem(1..6)) {
            let counts: Vec<f64> = counts.iter().map(|count| f64::from(*count)).collect();
            let problem = Problem { alpha: &alpha, mu: &mu, counts: &counts };
            let Allocation { lambda, delta } = solve(&problem).unwrap();
            prop_assert!(delta.iter().flatten().all(|share| *share >= 0.0));
            for j in 0..counts.len() {
                prop_assert!(delta.iter().map(|row| row[j]).sum::<f64>() <= 1.0 + 1e-12);
            }
            for i in 0..alpha.len() {
                let served: f64 = (0..counts.len()).map(|j| mu[i][j] * counts[j] * delta[i][j]).sum();
                prop_assert!(served >= lambda * alpha[i] * (1.0 - 1e-12));
                // At most what the class could get if it were alone.
                let alone: f64 = (0..counts.len()).map(|j| mu[i][j] * counts[j]).sum();
                prop_assert!(lambda <= alone / alpha[i] * (1.0 + 1e-9));
            }
            // Equal shares of every type for every class are feasible.
            let equal = tidied(&problem, vec![vec![1.0 / alpha.len() as f64; counts.len()]; alpha.len()]);
            prop_assert!(lambda >= equal.lambda * (1.0 - 1e-4), "{} {}", lambda, equal.lambda);
            prop_assert_eq!(Some(Allocation { lambda, delta }), solve(&problem));
        }

        #[test]
        fn two_classes_get_what_an_exact_sweep_gives_them((alpha, mu, counts) in problem(2..3)) {
            let counts: Vec<f64> = counts.iter().map(|count| f64::from(*count)).collect();
            let problem = Problem { alpha: &alpha, mu: &mu, counts: &counts };
            let (solved, swept) = (solve(&problem).unwrap().lambda, swept(&problem));
            prop_assert!((solved / swept - 1.0).abs() < 1e-4, "{} {}", solved, swept);
        }

        #[test]
        fn nodes_of_one_type_can_share_a_column((alpha, mu, counts) in problem(1..6)) {
            let spread = |row: &Vec<f64>| -> Vec<f64> {
                row.iter().zip(&counts).flat_map(|(x, count)| vec![*x; usize::from(*count)]).collect()
            };
            let each: Vec<Vec<f64>> = mu.iter().map(spread).collect();
            let ones = spread(&vec![1.0; counts.len()]);
            let merged: Vec<f64> = counts.iter().map(|count| f64::from(*count)).collect();
            let merged = solve(&Problem { alpha: &alpha, mu: &mu, counts: &merged }).unwrap().lambda;
            let each = solve(&Problem { alpha: &alpha, mu: &each, counts: &ones }).unwrap().lambda;
            prop_assert!((merged / each - 1.0).abs() < 2e-4, "{} {}", merged, each);
        }
    }
}
