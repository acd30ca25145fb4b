//! Deterministic k-means clustering with Lloyd's algorithm (COSHH, sections 2.2 and 3.1).
//!
//! The paper does not specify the initial centroids. Random ones would consume random numbers, so the first is the point nearest to the
//! mean of all points, and each further one is the point farthest from those chosen so far. Sums are computed in the order of the points,
//! ties go to the lower index, and the number of iterations is bounded: the same points in the same order give the same clusters, bit for
//! bit.
//!
//! Distances are Euclidean, so the caller must scale features to comparable ranges (logarithms for rates).

/// The iteration ends when no point changes its cluster. The bound is for points that rounding errors move back and forth.
const ITERATIONS_MAX: usize = 100;

/// A partition of points into clusters.
#[derive(Clone, Debug, PartialEq)]
pub struct Clusters {
    /// The mean of each cluster's points. There are at most `k`, fewer if there are fewer distinct points.
    pub centroids: Vec<Vec<f64>>,
    /// For each point, the index of its cluster. Every cluster has at least one point.
    pub assignment: Vec<usize>,
}

/// Partitions points into at most `k` clusters. All points must have the same number of features.
pub fn kmeans(points: &[Vec<f64>], k: usize) -> Clusters {
    let mut clusters = Clusters { centroids: initial_centroids(points, k), assignment: vec![0; points.len()] };
    if clusters.centroids.is_empty() {
        clusters.assignment.clear();
        return clusters;
    }
    for iteration in 0..ITERATIONS_MAX {
        let assignment: Vec<usize> = points.iter().map(|point| nearest(&clusters.centroids, point).0).collect();
        let converged = iteration > 0 && assignment == clusters.assignment;
        clusters.assignment = assignment;
        fill_empty(points, &mut clusters);
        clusters.centroids = means(points, &clusters);
        if converged {
            break;
        }
    }
    clusters
}

/// The point nearest to the mean, then repeatedly the point farthest from those chosen, until there are `k` or every distinct point is
/// chosen.
fn initial_centroids(points: &[Vec<f64>], k: usize) -> Vec<Vec<f64>> {
    let Some(centre) = mean(points.iter()).filter(|_| k > 0) else { return Vec::new() };
    let first = nearest(points, &centre).0;
    let mut chosen = vec![points[first].clone()];
    let mut distances: Vec<f64> = points.iter().map(|point| distance(point, &chosen[0])).collect();
    while chosen.len() < k {
        let (farthest, apart) = largest(distances.iter().copied()).expect("there are points");
        // Zero: every distinct point is chosen. NaN: a feature is undefined, and no distance can be compared.
        if apart.is_nan() || apart <= 0.0 {
            break;
        }
        let next = points[farthest].clone();
        distances.iter_mut().zip(points).for_each(|(shortest, point)| *shortest = shortest.min(distance(point, &next)));
        chosen.push(next);
    }
    chosen
}

/// Gives every empty cluster one point: the one farthest from its centroid, among the clusters with more than one point.
fn fill_empty(points: &[Vec<f64>], clusters: &mut Clusters) {
    let mut sizes = vec![0usize; clusters.centroids.len()];
    clusters.assignment.iter().for_each(|cluster| sizes[*cluster] += 1);
    for empty in 0..sizes.len() {
        if sizes[empty] > 0 {
            continue;
        }
        let from_centroid = |(point, cluster): (&Vec<f64>, &usize)| {
            if sizes[*cluster] > 1 { distance(point, &clusters.centroids[*cluster]) } else { -1.0 }
        };
        let (moved, _) = largest(points.iter().zip(&clusters.assignment).map(from_centroid)).expect("there are points");
        sizes[clusters.assignment[moved]] -= 1;
        sizes[empty] = 1;
        clusters.assignment[moved] = empty;
        clusters.centroids[empty] = points[moved].clone();
    }
}

fn means(points: &[Vec<f64>], clusters: &Clusters) -> Vec<Vec<f64>> {
    let members = |cluster: usize| {
        points.iter().zip(&clusters.assignment).filter(move |&(_, &at)| at == cluster).map(|(point, _)| point)
    };
    (0..clusters.centroids.len()).map(|cluster| mean(members(cluster)).expect("no cluster is empty")).collect()
}

fn mean<'a>(points: impl Iterator<Item = &'a Vec<f64>>) -> Option<Vec<f64>> {
    let mut count = 0.0;
    let mut sum: Option<Vec<f64>> = None;
    for point in points {
        count += 1.0;
        match &mut sum {
            None => sum = Some(point.clone()),
            Some(sum) => sum.iter_mut().zip(point).for_each(|(sum, x)| *sum += x),
        }
    }
    sum.map(|sum| sum.into_iter().map(|sum| sum / count).collect())
}

/// The index of the centroid nearest to a point, the first of equals, and its squared distance.
fn nearest(centroids: &[Vec<f64>], point: &[f64]) -> (usize, f64) {
    let distances = centroids.iter().map(|centroid| distance(centroid, point)).enumerate();
    distances.min_by(|a, b| a.1.total_cmp(&b.1)).expect("there is a centroid")
}

/// The index of the largest value, the first of equals, and the value.
fn largest(values: impl Iterator<Item = f64>) -> Option<(usize, f64)> {
    values.enumerate().reduce(|best, value| if value.1 > best.1 { value } else { best })
}

/// The squared Euclidean distance: it has the same order as the distance.
fn distance(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| (a - b) * (a - b)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn points(xs: &[f64]) -> Vec<Vec<f64>> {
        xs.iter().map(|x| vec![*x]).collect()
    }

    #[test]
    fn separate_groups_become_clusters() {
        let clusters = kmeans(&points(&[1.0, 50.0, 2.0, 51.0, 3.0, 99.0]), 3);
        assert_eq!(clusters.assignment, [1, 0, 1, 0, 1, 2]);
        assert_eq!(clusters.centroids, points(&[50.5, 2.0, 99.0]));
    }

    #[test]
    fn there_are_no_more_clusters_than_distinct_points() {
        let clusters = kmeans(&points(&[7.0, 7.0, 9.0]), 5);
        assert_eq!(clusters.centroids.len(), 2);
        assert_eq!(clusters.assignment[0], clusters.assignment[1]);
    }

    #[test]
    fn no_points_or_no_clusters_give_an_empty_result() {
        assert_eq!(kmeans(&[], 3), Clusters { centroids: vec![], assignment: vec![] });
        assert_eq!(kmeans(&points(&[1.0]), 0), Clusters { centroids: vec![], assignment: vec![] });
    }

    #[test]
    fn undefined_features_do_not_prevent_termination() {
        let clusters = kmeans(&[vec![f64::NAN], vec![1.0], vec![f64::INFINITY]], 2);
        assert_eq!(clusters.assignment.len(), 3);
    }

    #[test]
    fn an_empty_cluster_gets_the_farthest_point() {
        let all = points(&[0.0, 1.0, 2.0, 9.0]);
        let mut clusters = Clusters { centroids: points(&[1.0, 100.0]), assignment: vec![0; 4] };
        fill_empty(&all, &mut clusters);
        assert_eq!(clusters.assignment, [0, 0, 0, 1]);
        assert_eq!(clusters.centroids[1], [9.0]);
    }

    proptest! {
        #[test]
        fn every_point_is_with_its_nearest_centroid_and_no_cluster_is_empty(
            points in prop::collection::vec(prop::collection::vec(-9i8..9, 2), 1..40),
            k in 1usize..8,
        ) {
            let points: Vec<Vec<f64>> = points.iter().map(|p| p.iter().map(|x| f64::from(*x)).collect()).collect();
            let clusters = kmeans(&points, k);
            prop_assert!(clusters.centroids.len() <= k);
            prop_assert_eq!(clusters.assignment.len(), points.len());
            for (point, &cluster) in points.iter().zip(&clusters.assignment) {
                let own = distance(&clusters.centroids[cluster], point);
                prop_assert!(own <= nearest(&clusters.centroids, point).1 + 1e-9);
            }
            for cluster in 0..clusters.centroids.len() {
                prop_assert!(clusters.assignment.contains(&cluster));
            }
            prop_assert_eq!(clusters, kmeans(&points, k));
        }
    }
}
