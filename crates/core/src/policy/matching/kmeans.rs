//! k-means clustering, the same on every machine and every day (COSHH, sections 2.2 and 3.1).
//!
//! The paper does not say how its clusters begin. Random beginnings would make a run depend on more than its seed, so
//! here the first centroid is the point nearest to the mean of all, and each further one is the point farthest from
//! those chosen. Sums run in the order of the points, ties go to the lower index, and the number of rounds is bounded:
//! the same points in the same order give the same clusters, bit for bit.
//!
//! Distances are Euclidean, so features must be comparable: the caller scales them (logarithms for rates), or asks
//! [`standardised`] to.

/// Lloyd's rounds end when no point moves; this bounds them should rounding make a point swing for ever.
const ROUNDS_MAX: usize = 100;

/// Points in groups.
#[derive(Clone, Debug, PartialEq)]
pub struct Clusters {
    /// The mean of each cluster's points. There are at most `k`, fewer if the points have fewer distinct places.
    pub centroids: Vec<Vec<f64>>,
    /// For each point, the index of its cluster. Every cluster has at least one point.
    pub assignment: Vec<usize>,
}

/// Groups points into at most `k` clusters. All points must have the same number of features.
pub fn kmeans(points: &[Vec<f64>], k: usize) -> Clusters {
    let mut clusters = Clusters { centroids: beginnings(points, k), assignment: vec![0; points.len()] };
    if clusters.centroids.is_empty() {
        clusters.assignment.clear();
        return clusters;
    }
    for round in 0..ROUNDS_MAX {
        let assignment: Vec<usize> = points.iter().map(|point| nearest(&clusters.centroids, point).0).collect();
        let settled = round > 0 && assignment == clusters.assignment;
        clusters.assignment = assignment;
        fill_empty(points, &mut clusters);
        clusters.centroids = means(points, &clusters);
        if settled {
            break;
        }
    }
    clusters
}

/// Each feature shifted and scaled to mean 0 and variance 1. A feature that never varies becomes 0: it tells no points
/// apart.
pub fn standardised(points: &[Vec<f64>]) -> Vec<Vec<f64>> {
    let Some(centre) = mean(points.iter()) else { return Vec::new() };
    let mut spread = vec![0.0; centre.len()];
    for point in points {
        spread.iter_mut().zip(point).zip(&centre).for_each(|((sum, x), mean)| *sum += (x - mean) * (x - mean));
    }
    spread.iter_mut().for_each(|sum| *sum = (*sum / points.len() as f64).sqrt());
    let scaled = |((x, mean), spread): ((&f64, &f64), &f64)| if *spread > 0.0 { (x - mean) / spread } else { 0.0 };
    points.iter().map(|point| point.iter().zip(&centre).zip(&spread).map(scaled).collect()).collect()
}

/// The first centroids: nearest to the mean, then farthest from the chosen, until there are `k` or all places are
/// taken.
fn beginnings(points: &[Vec<f64>], k: usize) -> Vec<Vec<f64>> {
    let Some(centre) = mean(points.iter()).filter(|_| k > 0) else { return Vec::new() };
    let first = nearest(points, &centre).0;
    let mut chosen = vec![points[first].clone()];
    let mut gaps: Vec<f64> = points.iter().map(|point| distance(point, &chosen[0])).collect();
    while chosen.len() < k {
        let (farthest, gap) = highest(gaps.iter().copied()).expect("there are points");
        // An undefined feature would make every gap undefined, and the search endless.
        if gap.is_nan() || gap <= 0.0 {
            break;
        }
        let next = points[farthest].clone();
        gaps.iter_mut().zip(points).for_each(|(gap, point)| *gap = gap.min(distance(point, &next)));
        chosen.push(next);
    }
    chosen
}

/// A cluster that lost all its points takes the one that lies farthest from its own centroid, from a cluster that can
/// spare it.
fn fill_empty(points: &[Vec<f64>], clusters: &mut Clusters) {
    let mut sizes = vec![0usize; clusters.centroids.len()];
    clusters.assignment.iter().for_each(|cluster| sizes[*cluster] += 1);
    for empty in 0..sizes.len() {
        if sizes[empty] > 0 {
            continue;
        }
        let gap = |(point, cluster): (&Vec<f64>, &usize)| {
            if sizes[*cluster] > 1 { distance(point, &clusters.centroids[*cluster]) } else { -1.0 }
        };
        let (taken, _) = highest(points.iter().zip(&clusters.assignment).map(gap)).expect("there are points");
        sizes[clusters.assignment[taken]] -= 1;
        sizes[empty] = 1;
        clusters.assignment[taken] = empty;
        clusters.centroids[empty] = points[taken].clone();
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

/// The place nearest to a point, and how far it is; the first of equals.
fn nearest(places: &[Vec<f64>], point: &[f64]) -> (usize, f64) {
    let gaps = places.iter().map(|place| distance(place, point)).enumerate();
    gaps.min_by(|a, b| a.1.total_cmp(&b.1)).expect("there is a place")
}

/// The first of the highest values.
fn highest(values: impl Iterator<Item = f64>) -> Option<(usize, f64)> {
    values.enumerate().reduce(|best, value| if value.1 > best.1 { value } else { best })
}

/// The square of the Euclidean distance: it orders as the distance does.
fn distance(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| (a - b) * (a - b)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn line(xs: &[f64]) -> Vec<Vec<f64>> {
        xs.iter().map(|x| vec![*x]).collect()
    }

    #[test]
    fn groups_that_lie_apart_are_found() {
        let clusters = kmeans(&line(&[1.0, 50.0, 2.0, 51.0, 3.0, 99.0]), 3);
        assert_eq!(clusters.assignment, [1, 0, 1, 0, 1, 2]);
        assert_eq!(clusters.centroids, line(&[50.5, 2.0, 99.0]));
    }

    #[test]
    fn fewer_places_than_clusters_give_fewer_clusters() {
        let clusters = kmeans(&line(&[7.0, 7.0, 9.0]), 5);
        assert_eq!(clusters.centroids.len(), 2);
        assert_eq!(clusters.assignment[0], clusters.assignment[1]);
    }

    #[test]
    fn nothing_gives_nothing() {
        assert_eq!(kmeans(&[], 3), Clusters { centroids: vec![], assignment: vec![] });
        assert_eq!(kmeans(&line(&[1.0]), 0), Clusters { centroids: vec![], assignment: vec![] });
        assert!(standardised(&[]).is_empty());
    }

    #[test]
    fn undefined_features_end_too() {
        let clusters = kmeans(&[vec![f64::NAN], vec![1.0], vec![f64::INFINITY]], 2);
        assert_eq!(clusters.assignment.len(), 3);
    }

    #[test]
    fn an_empty_cluster_takes_the_farthest_point() {
        let points = line(&[0.0, 1.0, 2.0, 9.0]);
        let mut clusters = Clusters { centroids: line(&[1.0, 100.0]), assignment: vec![0; 4] };
        fill_empty(&points, &mut clusters);
        assert_eq!(clusters.assignment, [0, 0, 0, 1]);
        assert_eq!(clusters.centroids[1], [9.0]);
    }

    #[test]
    fn standardised_features_weigh_the_same() {
        let points = standardised(&[vec![1.0, 1000.0, 5.0], vec![3.0, 3000.0, 5.0]]);
        assert_eq!(points, [[-1.0, -1.0, 0.0], [1.0, 1.0, 0.0]]);
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
                let gap = distance(&clusters.centroids[cluster], point);
                prop_assert!(gap <= nearest(&clusters.centroids, point).1 + 1e-9);
            }
            for cluster in 0..clusters.centroids.len() {
                prop_assert!(clusters.assignment.contains(&cluster));
            }
            prop_assert_eq!(clusters, kmeans(&points, k));
        }
    }
}
