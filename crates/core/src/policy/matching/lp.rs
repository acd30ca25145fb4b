//! COSHH's linear program (section 3.2): which classes of jobs each type of node should run.
//!
//! Jobs of class *i* arrive at rate α_i. One node of type *j* that runs only class *i* completes μ_ij of its jobs per second; there are n_j
//! such nodes. δ_ij is the fraction of its time that type *j* spends on class *i*. The program maximises the factor λ by which the load of
//! all classes could grow:
//!
//! ```text
//! maximise λ   subject to   Σ_j μ_ij n_j δ_ij ≥ λ α_i,   Σ_i δ_ij ≤ 1,   δ ≥ 0
//! ```
//!
//! The paper has one column per node. Nodes of one type share a column here: their columns are equal, so averaging their δ keeps all
//! constraints and the same λ.
//!
//! # Scaling
//!
//! Rates may differ by nine orders of magnitude, and the solver needs coefficients within six. So the solved program has other variables.
//! Let Λ be the smallest λ of a class that has the whole cluster to itself: then 1/classes ≤ λ/Λ ≤ 1. Let y_ij = μ_ij n_j δ_ij / (α_i Λ) be
//! the contribution of type *j* to class *i*, and c_ij = δ_ij / y_ij its cost. The constraints become Σ_j y_ij ≥ λ/Λ and Σ_i c_ij y_ij ≤ 1.
//! Pairs with c_ij over 10^6 are left out: such a type could contribute less than a millionth of what is needed. A c_ij below 10^-6 is
//! raised to it, so that a rare class of small jobs keeps a δ that differs from zero. Both change λ by about a millionth.
//!
//! # Determinism
//!
//! δ is not unique, but the same problem gives the same δ: the solver takes its perturbations from fixed hashes, and tests membership in
//! its one hash set without iterating over it. It reads a clock only to report its run time.

use microlp::{ComparisonOp, OptimizationDirection, Variable};

/// A δ up to this counts as zero.
pub const DELTA_ZERO: f64 = 1e-9;

/// The largest coefficient of the scaled program, and the inverse of the smallest.
const COEFFICIENT_MAX: f64 = 1e6;

/// An instance of the program. Rates are per unit of time, the same for arrivals and service.
#[derive(Clone, Copy, Debug)]
pub struct Problem<'a> {
    /// α: arrival rate of each class. A class with rate 0 gets no time.
    pub alpha: &'a [f64],
    /// μ: for each class, the service rate of one node of each type; 0 if the type cannot run the class.
    pub mu: &'a [Vec<f64>],
    /// n: number of nodes of each type.
    pub counts: &'a [f64],
}

/// A solution: how node types divide their time among classes.
#[derive(Clone, Debug, PartialEq)]
pub struct Allocation {
    /// λ: the factor by which the load could grow with this division.
    pub lambda: f64,
    /// δ: for each class and each type, the fraction (0-1) of the type's time.
    pub delta: Vec<Vec<f64>>,
}

impl Allocation {
    /// For each type, the classes suggested to it in ascending order: the sets SC_j of the paper.
    pub fn suggested(&self) -> Vec<Vec<usize>> {
        let types = self.delta.first().map_or(0, Vec::len);
        let classes = |j: usize| (0..self.delta.len()).filter(|&i| self.delta[i][j] > DELTA_ZERO).collect();
        (0..types).map(classes).collect()
    }
}

/// Solves the program. None if no class arrives, if no node can run a class that does, or if a number is negative or not finite.
pub fn solve(problem: &Problem) -> Option<Allocation> {
    let Problem { alpha, mu, counts } = *problem;
    let is_valid = |x: &f64| x.is_finite() && *x >= 0.0;
    let rectangular = mu.len() == alpha.len() && mu.iter().all(|row| row.len() == counts.len());
    if !rectangular || !alpha.iter().chain(counts).chain(mu.iter().flatten()).all(is_valid) {
        return None;
    }
    let arriving: Vec<usize> = (0..alpha.len()).filter(|&i| alpha[i] > 0.0).collect();
    // λ of one class served by one type alone; `scale` is Λ.
    let alone = |i: usize, j: usize| mu[i][j] * counts[j] / alpha[i];
    let scale =
        arriving.iter().map(|&i| (0..counts.len()).map(|j| alone(i, j)).sum::<f64>()).fold(f64::INFINITY, f64::min);
    if !(scale > 0.0 && scale.is_finite()) {
        return None;
    }

    let mut program = microlp::Problem::new(OptimizationDirection::Maximize);
    let goal = program.add_var(1.0, (0.0, 1.0));
    let mut cells: Vec<Cell> = Vec::new();
    for &i in &arriving {
        for j in 0..counts.len() {
            let cost = scale / alone(i, j);
            if cost <= COEFFICIENT_MAX {
                let cost = cost.max(1.0 / COEFFICIENT_MAX);
                // The variable is the larger of y and δ, so that no coefficient is over 1.
                let unit = cost.max(1.0);
                cells.push(Cell { i, j, cost, unit, variable: program.add_var(0.0, (0.0, f64::INFINITY)) });
            }
        }
    }
    for &i in &arriving {
        let served = cells.iter().filter(|cell| cell.i == i).map(|cell| (cell.variable, 1.0 / cell.unit));
        program.add_constraint(served.chain([(goal, -1.0)]).collect::<Vec<_>>(), ComparisonOp::Ge, 0.0);
    }
    for j in 0..counts.len() {
        let spent = cells.iter().filter(|cell| cell.j == j);
        let spent: Vec<_> = spent.map(|cell| (cell.variable, cell.cost / cell.unit)).collect();
        if !spent.is_empty() {
            program.add_constraint(spent, ComparisonOp::Le, 1.0);
        }
    }
    let solution = program.solve().ok()?.into_solution().ok()?;

    let mut delta = vec![vec![0.0; counts.len()]; alpha.len()];
    for Cell { i, j, cost, unit, variable } in cells {
        delta[i][j] = (solution.var_value(variable) / unit * cost).max(0.0);
    }
    Some(normalised(problem, delta))
}

/// A cell (i, j) of δ and its variable in the scaled program: y = variable / unit, δ = cost y.
struct Cell {
    i: usize,
    j: usize,
    cost: f64,
    unit: f64,
    variable: Variable,
}

/// The solver satisfies constraints within a tolerance. This makes them exact: no type spends more than all its time, and λ is computed
/// from δ.
fn normalised(problem: &Problem, mut delta: Vec<Vec<f64>>) -> Allocation {
    let Problem { alpha, mu, counts } = *problem;
    for j in 0..counts.len() {
        let spent: f64 = delta.iter().map(|row| row[j]).sum();
        for row in &mut delta {
            row[j] = if row[j] <= DELTA_ZERO { 0.0 } else { row[j] / spent.max(1.0) };
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

    /// The example of section 3.2: the node that is faster for both classes runs only the second.
    #[test]
    fn the_worked_example_of_coshh_is_reproduced() {
        let mu = [vec![9.0, 5.0], vec![2.0, 1.0]];
        let allocation = solve(&Problem { alpha: &[2.45, 2.45], mu: &mu, counts: &[1.0, 1.0] }).unwrap();
        assert!(close(allocation.lambda, 1.0204, 1e-4), "{}", allocation.lambda);
        for (row, expected) in allocation.delta.iter().zip([[0.0, 0.5], [1.0, 0.5]]) {
            assert!(row.iter().zip(expected).all(|(a, b)| close(*a, b, 1e-6)), "{:?}", allocation.delta);
        }
        assert_eq!(allocation.suggested(), [vec![1], vec![0, 1]]);
    }

    #[test]
    fn every_class_is_suggested_somewhere_with_rates_nine_orders_of_magnitude_apart() {
        let mu = [vec![1e2, 3e-7], vec![1e-7, 2e-7]];
        let allocation = solve(&Problem { alpha: &[1e-6, 1e-4], mu: &mu, counts: &[50.0, 50.0] }).unwrap();
        assert!(close(allocation.lambda, 0.15, 1e-4), "{}", allocation.lambda);
        let suggested = allocation.suggested();
        assert!((0..2).all(|class| suggested.iter().any(|classes| classes.contains(&class))), "{:?}", allocation.delta);
    }

    #[test]
    fn an_infeasible_or_invalid_problem_has_no_solution() {
        let mu = [vec![1.0, 1.0], vec![0.0, 5.0]];
        assert_eq!(solve(&Problem { alpha: &[1.0, 1.0], mu: &mu, counts: &[1.0, 0.0] }), None);
        assert_eq!(solve(&Problem { alpha: &[0.0], mu: &[vec![1.0]], counts: &[1.0] }), None);
        assert_eq!(solve(&Problem { alpha: &[], mu: &[], counts: &[1.0] }), None);
        assert_eq!(solve(&Problem { alpha: &[f64::NAN], mu: &[vec![1.0]], counts: &[1.0] }), None);
        assert_eq!(solve(&Problem { alpha: &[1.0], mu: &[vec![1.0, 2.0]], counts: &[1.0] }), None);
    }

    #[test]
    fn a_class_that_never_arrives_is_not_suggested() {
        let mu = [vec![1.0], vec![1.0]];
        let allocation = solve(&Problem { alpha: &[0.0, 1.0], mu: &mu, counts: &[4.0] }).unwrap();
        assert_eq!(allocation.suggested(), [[1]]);
        assert!(close(allocation.lambda, 4.0, 1e-6));
    }

    /// Problems with this many classes, up to seven types of up to eight nodes each, and rates over nine orders of magnitude.
    fn problem(classes: std::ops::Range<usize>) -> impl Strategy<Value = (Vec<f64>, Vec<Vec<f64>>, Vec<u8>)> {
        let rate = || (-7.0f64..2.0).prop_map(|power| 10f64.powf(power));
        (classes, 1usize..8).prop_flat_map(move |(classes, types)| {
            let alpha = prop::collection::vec(rate(), classes);
            let mu = prop::collection::vec(prop::collection::vec(rate(), types), classes);
            (alpha, mu, prop::collection::vec(1u8..9, types))
        })
    }

    /// The reference implementation for two classes: types run the first class in the order of their relative speed for it, until both
    /// classes have the same λ.
    fn sweep(problem: &Problem) -> f64 {
        let alone = |i: usize, j: usize| problem.mu[i][j] * problem.counts[j] / problem.alpha[i];
        let mut types: Vec<usize> = (0..problem.counts.len()).collect();
        types.sort_by(|&a, &b| (alone(0, b) / alone(1, b)).total_cmp(&(alone(0, a) / alone(1, a))));
        let (mut one, mut two) = (0.0, types.iter().map(|&j| alone(1, j)).sum::<f64>());
        for j in types {
            let (gain, loss) = (alone(0, j), alone(1, j));
            two -= loss;
            if one + gain >= two {
                // This type runs the first class for a fraction x of its time, where one + x gain = two + (1 - x) loss.
                return (one * loss + two.max(0.0) * gain + gain * loss) / (gain + loss);
            }
            one += gain;
        }
        unreachable!("with all types, the first class has a larger lambda than the second, which has none")
    }

    proptest! {
        #[test]
        fn the_solution_is_feasible_and_not_worse_than_equal_shares((alpha, mu, counts) in problem(1..6)) {
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
                // At most the lambda of the class alone.
                let alone: f64 = (0..counts.len()).map(|j| mu[i][j] * counts[j]).sum();
                prop_assert!(lambda <= alone / alpha[i] * (1.0 + 1e-9));
            }
            // Equal shares of every type for every class are feasible.
            let equal = normalised(&problem, vec![vec![1.0 / alpha.len() as f64; counts.len()]; alpha.len()]);
            prop_assert!(lambda >= equal.lambda * (1.0 - 1e-4), "{} {}", lambda, equal.lambda);
            prop_assert_eq!(Some(Allocation { lambda, delta }), solve(&problem));
        }

        #[test]
        fn two_classes_agree_with_the_reference_implementation((alpha, mu, counts) in problem(2..3)) {
            let counts: Vec<f64> = counts.iter().map(|count| f64::from(*count)).collect();
            let problem = Problem { alpha: &alpha, mu: &mu, counts: &counts };
            let (solved, expected) = (solve(&problem).unwrap().lambda, sweep(&problem));
            prop_assert!((solved / expected - 1.0).abs() < 1e-4, "{} {}", solved, expected);
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
