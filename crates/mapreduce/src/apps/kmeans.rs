//! K-means clustering, one round per iteration.
//!
//! A point is a line of decimal numbers. Coordinates are fixed-point integers (millionths) and their sums are exact, so a mean does not depend on the
//! order of its points: the centroids are the same whatever was paused, combined or lost during the job. A mapper sums its points by cluster and
//! emits the sums once, when it finishes. The job stops before its last iteration if no centroid has moved.

use super::error::{DataError, PlanError};
use super::{App, read_output, round_output};
use crate::input;
use crate::job::Plan;
use crate::record::{AppError, Emit, Mapper, Record, Reducer, Values};
use serde::{Deserialize, Serialize};

const MILLION: i64 = 1_000_000;

/// Limit of a coordinate, in whole units, so that differences fit 64 bits and squares 128.
const COORDINATE_MAX: i64 = 1_000_000_000_000;

/// Coordinates in millionths.
type Point = Vec<i64>;

pub(super) struct Kmeans;

impl App for Kmeans {
    named!("kmeans", "cluster points (lines of numbers); write each cluster's number, size and centroid");

    fn options(&self) -> &'static [(&'static str, &'static str)] {
        &[
            ("k", "number of clusters (default 8)"),
            ("iterations", "maximum number of iterations (default 10)"),
            ("seed", "random seed for the choice of the initial centroids (default 1)"),
        ]
    }

    fn prepare(&self, plan: &mut Plan) -> Result<(), AppError> {
        let k = plan.request.number("k", 8)?.max(1) as usize;
        let mut points = Vec::new();
        input::sample_lines(plan, |line| points.extend(parse_point(line).filter(|point| !point.is_empty())))?;
        points.sort_unstable();
        points.dedup();
        if points.len() < k {
            return Err(PlanError::TooFewPoints { found: points.len(), k }.into());
        }
        choose_random(&mut points, k, plan.request.number("seed", 1)?);
        set_centroids(plan, &points);
        // The output has one line per cluster, so one reduce is enough.
        plan.reduces = plan.request.reduces.unwrap_or(1);
        if iterations(plan)? > 1 {
            plan.output = round_output(plan, 0);
        }
        Ok(())
    }

    fn mapper(&self, plan: &Plan) -> Result<Box<dyn Mapper>, AppError> {
        let centroids = centroids(plan)?;
        let sums = centroids.iter().map(|centroid| ClusterSum { points: 0, sums: vec![0; centroid.len()] }).collect();
        Ok(Box::new(AssignMapper { centroids, sums }))
    }

    fn reducer(&self, plan: &Plan) -> Result<Option<Box<dyn Reducer>>, AppError> {
        Ok(Some(Box::new(MeanReducer(centroids(plan)?))))
    }

    fn next_round(&self, plan: &Plan) -> Result<Option<Plan>, AppError> {
        if plan.output == plan.request.output {
            return Ok(None);
        }
        let before = centroids(plan)?;
        let mut now = before.clone();
        for line in read_output(&plan.output)? {
            let mut fields = line.split(|byte| *byte == b'\t');
            let cluster = fields.next().and_then(|text| std::str::from_utf8(text).ok()?.parse::<usize>().ok());
            let mean = fields.nth(1).and_then(parse_point);
            let (Some(centroid), Some(mean)) = (cluster.and_then(|cluster| now.get_mut(cluster)), mean) else {
                return Err(DataError::ForeignLine { path: plan.output.clone() }.into());
            };
            *centroid = mean;
        }
        let round = plan.round + 1;
        // If no centroid has moved, further rounds would give the same result: the next one writes the output.
        let is_last = round + 1 >= iterations(plan)? || now == before;
        let output = if is_last { plan.request.output.clone() } else { round_output(plan, round) };
        let mut next = Plan { round, output, ..plan.clone() };
        set_centroids(&mut next, &now);
        Ok(Some(next))
    }
}

fn iterations(plan: &Plan) -> Result<u32, AppError> {
    let iterations = plan.request.number("iterations", 10)?.max(1);
    Ok(u32::try_from(iterations).unwrap_or(u32::MAX))
}

fn set_centroids(plan: &mut Plan, centroids: &[Point]) {
    plan.app_data = postcard::to_allocvec(centroids).expect("writing to memory succeeds");
}

fn centroids(plan: &Plan) -> Result<Vec<Point>, DataError> {
    Ok(postcard::from_bytes(&plan.app_data)?)
}

/// Keeps `k` random points (Fisher-Yates shuffle with splitmix64).
fn choose_random(points: &mut Vec<Point>, k: usize, seed: u64) {
    let mut state = seed;
    for at in 0..k {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        let left = (points.len() - at) as u64;
        points.swap(at, at + (mixed % left) as usize);
    }
    points.truncate(k);
}

/// Sum of a cluster's points in one map.
#[derive(Serialize, Deserialize)]
struct ClusterSum {
    points: u64,
    sums: Vec<i128>,
}

/// Assigns each point to its nearest centroid.
struct AssignMapper {
    centroids: Vec<Point>,
    sums: Vec<ClusterSum>,
}

impl Mapper for AssignMapper {
    fn map(&mut self, record: Record<'_>, _out: &mut dyn Emit) -> Result<(), AppError> {
        let (file, offset) = (record.file, record.offset);
        let point = parse_point(record.line).ok_or_else(|| DataError::NotAPoint {
            file: file.to_string_lossy().into_owned(),
            offset,
            limit: COORDINATE_MAX,
        })?;
        if point.is_empty() {
            return Ok(());
        }
        let dimensions = self.centroids[0].len();
        if point.len() != dimensions {
            let file = file.to_string_lossy().into_owned();
            return Err(DataError::Dimensions { file, offset, found: point.len(), expected: dimensions }.into());
        }
        // The first of equally near centroids.
        let nearest = (0..self.centroids.len())
            .min_by_key(|cluster| squared_distance(&self.centroids[*cluster], &point))
            .unwrap_or(0);
        let cluster = &mut self.sums[nearest];
        cluster.points += 1;
        for (sum, coordinate) in cluster.sums.iter_mut().zip(&point) {
            *sum += i128::from(*coordinate);
        }
        Ok(())
    }

    fn finish(&mut self, out: &mut dyn Emit) -> Result<(), AppError> {
        // Empty sums are emitted, too, so that a cluster without points has a line in the output.
        for (sum, cluster) in self.sums.iter_mut().zip(0_u32..) {
            out.emit(&cluster.to_be_bytes(), &postcard::to_allocvec(sum).expect("writing to memory succeeds"));
            sum.points = 0;
            sum.sums.fill(0);
        }
        Ok(())
    }
}

/// Square of the Euclidean distance; saturates.
fn squared_distance(a: &[i64], b: &[i64]) -> u128 {
    a.iter().zip(b).fold(0, |sum: u128, (a, b)| {
        let difference = u128::from((a - b).unsigned_abs());
        sum.saturating_add(difference * difference)
    })
}

/// Computes the new centroids. Contains the present ones, which clusters without points retain.
struct MeanReducer(Vec<Point>);

impl Reducer for MeanReducer {
    fn reduce(&mut self, key: &[u8], values: &mut dyn Values, out: &mut dyn Emit) -> Result<(), AppError> {
        let cluster = u32::from_be_bytes(key.try_into().expect("keys are cluster numbers"));
        let centroid = &mut self.0[cluster as usize];
        let mut points = 0;
        let mut sums = vec![0; centroid.len()];
        while let Some(value) = values.next() {
            let part: ClusterSum = postcard::from_bytes(value).expect("values are cluster sums");
            points += part.points;
            for (sum, more) in sums.iter_mut().zip(part.sums) {
                *sum += more;
            }
        }
        if points > 0 {
            for (coordinate, sum) in centroid.iter_mut().zip(sums) {
                *coordinate = divide_rounded(sum, i128::from(points));
            }
        }
        let mean: Vec<String> = centroid.iter().map(|coordinate| decimal(*coordinate)).collect();
        out.emit(cluster.to_string().as_bytes(), format!("{points}\t{}", mean.join(",")).as_bytes());
        Ok(())
    }
}

/// The quotient, rounded to the nearest integer; halves are rounded up.
fn divide_rounded(sum: i128, by: i128) -> i64 {
    (2 * sum + by).div_euclid(2 * by) as i64
}

/// Parses a point; it has no coordinates if the line is blank. `None` if the line is not a point.
fn parse_point(line: &[u8]) -> Option<Point> {
    line.split(|byte| *byte == b',' || *byte <= b' ').filter(|text| !text.is_empty()).map(parse_millionths).collect()
}

/// Parses a decimal number into millionths. Further digits are ignored.
fn parse_millionths(text: &[u8]) -> Option<i64> {
    let (is_negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    let point = memchr::memchr(b'.', digits).unwrap_or(digits.len());
    let (whole, part) = (&digits[..point], digits.get(point + 1..).unwrap_or_default());
    if whole.len() + part.len() == 0 || whole.iter().chain(part).any(|digit| !digit.is_ascii_digit()) {
        return None;
    }
    let mut number = 0_i64;
    for digit in whole {
        number = number * 10 + i64::from(digit - b'0');
        if number >= COORDINATE_MAX {
            return None;
        }
    }
    for place in 0..6 {
        number = number * 10 + part.get(place).map_or(0, |digit| i64::from(digit - b'0'));
    }
    Some(if is_negative { -number } else { number })
}

/// Formats millionths as a decimal number without trailing zeros.
fn decimal(number: i64) -> String {
    let sign = if number < 0 { "-" } else { "" };
    let (whole, part) = (number.abs() / MILLION, number.abs() % MILLION);
    let text = format!("{sign}{whole}.{part:06}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::apps::tests::{TestJob, check, plan_error};

    #[test]
    fn clusters_converge_to_their_means() {
        let files = [("x", "0,0\n0 1\n10 10\n"), ("y", "10,12\n\n-1 0.5\n")];
        let lines = TestJob::new("kmeans", &[("k", "2"), ("iterations", "10")], &files).text();
        let mut lines: Vec<&str> = lines.lines().map(|line| &line[2..]).collect();
        lines.sort_unstable();
        assert_eq!(lines, ["2\t10,11", "3\t-0.333333,0.5"]);
    }

    #[test]
    fn one_iteration_and_one_cluster_give_the_mean_of_all() {
        check("kmeans", &[("k", "1"), ("iterations", "1")], &[("x", "1\n2\n6\n")], "0\t3\t3\n");
        check("kmeans", &[("k", "1"), ("iterations", "3")], &[("x", "1\n2\n6\n")], "0\t3\t3\n");
    }

    #[test]
    fn invalid_points_are_refused() {
        assert!(
            plan_error("kmeans", &[("k", "3")], "1 2\n1 2\n")
                .starts_with("kmeans needs k=3 distinct points and found 1;")
        );
        let mixed = TestJob::new("kmeans", &[("k", "1")], &[("x", "1 2\n1 two\n")]).run_error();
        assert!(mixed.contains("x: the line at byte 4 is not a point;"), "{mixed}");
        let uneven = TestJob::new("kmeans", &[("k", "1")], &[("x", "1 2\n1 2 3\n")]).run_error();
        assert!(uneven.contains("numbers and others have"), "{uneven}");
    }

    #[test]
    fn numbers_are_fixed_point_millionths() {
        let round_trip = |text: &str| parse_millionths(text.as_bytes()).map(decimal);
        for text in ["0", "12", "-3.25", "0.000001", "999999999999.999999"] {
            assert_eq!(round_trip(text).as_deref(), Some(text));
        }
        assert_eq!(round_trip("+.5000009").as_deref(), Some("0.5"));
        for text in ["", "-", ".", "1e5", "1.2.3", "--1", "1000000000000", "x"] {
            assert_eq!(round_trip(text), None, "{text}");
        }
        assert_eq!(
            [divide_rounded(7, 2), divide_rounded(-7, 2), divide_rounded(-1, 3), divide_rounded(2, 3)],
            [4, -3, 0, 1]
        );
    }
}
