//! Kmeans: points in k clusters around their means, a round for each iteration.
//!
//! A point is a line of decimal numbers. Coordinates are integers of millionths and their sums are exact, so a mean does not depend on the
//! order of its points, and the centroids are the same whatever was paused, combined or lost on the way. A mapper adds up its
//! points by cluster and speaks once, at its end. The rounds stop early when no centroid has moved.

use super::{App, output_lines, round_output};
use crate::input::{self, Stored};
use crate::job::Plan;
use crate::record::{Emit, Failure, Mapper, Record, Reducer, Values};
use serde::{Deserialize, Serialize};

const MILLION: i64 = 1_000_000;

/// Coordinates stay below this, in whole units, so that differences fit 64 bits and squares 128.
const LARGEST: i64 = 1_000_000_000_000;

/// In millionths.
type Point = Vec<i64>;

pub(super) struct Kmeans;

impl App for Kmeans {
    fn name(&self) -> &'static str {
        "kmeans"
    }

    fn about(&self) -> &'static str {
        "clusters points (lines of numbers); writes each cluster's number, size and centroid"
    }

    fn options(&self) -> &'static [(&'static str, &'static str)] {
        &[
            ("k", "how many clusters (8)"),
            ("iterations", "how many rounds at most (10)"),
            ("seed", "chooses the points that are the first centroids (1)"),
        ]
    }

    fn prepare(&self, plan: &mut Plan, stored: &dyn Stored) -> Result<(), Failure> {
        let k = plan.request.number("k", 8)?.max(1) as usize;
        let mut points = Vec::new();
        input::sample(plan, stored, |line| points.extend(point(line).filter(|point| !point.is_empty())))?;
        points.sort_unstable();
        points.dedup();
        if points.len() < k {
            let found = points.len();
            return Err(Failure(format!(
                "kmeans found {found} distinct points where k={k} asks for more; choose a smaller k, and check that the input is lines of numbers"
            )));
        }
        choose(&mut points, k, plan.request.number("seed", 1)?);
        set_centroids(plan, &points);
        // One line for each cluster: there is nothing to divide.
        plan.reduces = plan.request.reduces.unwrap_or(1);
        if iterations(plan)? > 1 {
            plan.output = round_output(plan, 0);
        }
        Ok(())
    }

    fn mapper(&self, plan: &Plan) -> Result<Box<dyn Mapper>, Failure> {
        let centroids = centroids(plan)?;
        let shares = centroids.iter().map(|centroid| Share { points: 0, sums: vec![0; centroid.len()] }).collect();
        Ok(Box::new(Nearest { centroids, shares }))
    }

    fn reducer(&self, plan: &Plan) -> Result<Option<Box<dyn Reducer>>, Failure> {
        Ok(Some(Box::new(Means(centroids(plan)?))))
    }

    fn next_round(&self, plan: &Plan) -> Result<Option<Plan>, Failure> {
        if plan.output == plan.request.output {
            return Ok(None);
        }
        let before = centroids(plan)?;
        let mut now = before.clone();
        for line in output_lines(&plan.output)? {
            let mut fields = line.split(|byte| *byte == b'\t');
            let cluster = fields.next().and_then(|text| std::str::from_utf8(text).ok()?.parse::<usize>().ok());
            let mean = fields.nth(1).and_then(point);
            let (Some(place), Some(mean)) = (cluster.and_then(|cluster| now.get_mut(cluster)), mean) else {
                return Err(Failure(format!("{} holds a line that kmeans did not write", plan.output.display())));
            };
            *place = mean;
        }
        let round = plan.round + 1;
        // Rounds that move nothing are all alike: the next one may write the result.
        let is_last = round + 1 >= iterations(plan)? || now == before;
        let output = if is_last { plan.request.output.clone() } else { round_output(plan, round) };
        let mut next = Plan { round, output, ..plan.clone() };
        set_centroids(&mut next, &now);
        Ok(Some(next))
    }
}

fn iterations(plan: &Plan) -> Result<u32, Failure> {
    let iterations = plan.request.number("iterations", 10)?.max(1);
    Ok(u32::try_from(iterations).unwrap_or(u32::MAX))
}

fn set_centroids(plan: &mut Plan, centroids: &[Point]) {
    plan.app_data = postcard::to_allocvec(centroids).expect("memory takes all");
}

fn centroids(plan: &Plan) -> Result<Vec<Point>, Failure> {
    postcard::from_bytes(&plan.app_data)
        .map_err(|error| Failure(format!("the centroids in the plan cannot be read: {error}")))
}

/// Brings `k` points, chosen by the seed, to the front and drops the rest (Fisher and Yates, with splitmix64).
fn choose(points: &mut Vec<Point>, k: usize, seed: u64) {
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

/// The part of a cluster that one map saw.
#[derive(Serialize, Deserialize)]
struct Share {
    points: u64,
    sums: Vec<i128>,
}

struct Nearest {
    centroids: Vec<Point>,
    shares: Vec<Share>,
}

impl Mapper for Nearest {
    fn map(&mut self, record: Record<'_>, _out: &mut dyn Emit) -> Result<(), Failure> {
        let wrong = |what: String| Failure(format!("{}: the line at byte {} {what}", record.file, record.offset));
        let point = point(record.line).ok_or_else(|| {
            wrong(format!("is not a point; write decimal numbers below {LARGEST}, separated by commas or blanks"))
        })?;
        if point.is_empty() {
            return Ok(());
        }
        let dimensions = self.centroids[0].len();
        if point.len() != dimensions {
            return Err(wrong(format!("has {} numbers where others have {dimensions}", point.len())));
        }
        // Of equally near ones, the first.
        let nearest =
            (0..self.centroids.len()).min_by_key(|cluster| distance(&self.centroids[*cluster], &point)).unwrap_or(0);
        let share = &mut self.shares[nearest];
        share.points += 1;
        for (sum, coordinate) in share.sums.iter_mut().zip(&point) {
            *sum += i128::from(*coordinate);
        }
        Ok(())
    }

    fn finish(&mut self, out: &mut dyn Emit) -> Result<(), Failure> {
        // Empty shares are sent too, so that a cluster without points keeps its line.
        for (share, cluster) in self.shares.iter_mut().zip(0_u32..) {
            out.emit(&cluster.to_be_bytes(), &postcard::to_allocvec(share).expect("memory takes all"));
            share.points = 0;
            share.sums.fill(0);
        }
        Ok(())
    }
}

/// The square of the distance.
fn distance(a: &[i64], b: &[i64]) -> u128 {
    a.iter().zip(b).fold(0, |sum: u128, (a, b)| {
        let difference = u128::from((a - b).unsigned_abs());
        sum.saturating_add(difference * difference)
    })
}

/// Makes shares into means; holds the centroids so far, for clusters without points.
struct Means(Vec<Point>);

impl Reducer for Means {
    fn reduce(&mut self, key: &[u8], values: &mut dyn Values, out: &mut dyn Emit) -> Result<(), Failure> {
        let cluster = u32::from_be_bytes(key.try_into().expect("a key is a cluster's number"));
        let centroid = &mut self.0[cluster as usize];
        let mut points = 0;
        let mut sums = vec![0; centroid.len()];
        while let Some(value) = values.next() {
            let share: Share = postcard::from_bytes(value).expect("a value is a share");
            points += share.points;
            for (sum, more) in sums.iter_mut().zip(share.sums) {
                *sum += more;
            }
        }
        if points > 0 {
            for (coordinate, sum) in centroid.iter_mut().zip(sums) {
                *coordinate = rounded(sum, i128::from(points));
            }
        }
        let mean: Vec<String> = centroid.iter().map(|coordinate| decimal(*coordinate)).collect();
        out.emit(cluster.to_string().as_bytes(), format!("{points}\t{}", mean.join(",")).as_bytes());
        Ok(())
    }
}

/// The quotient, to the nearest integer; halves go up.
fn rounded(sum: i128, by: i128) -> i64 {
    (2 * sum + by).div_euclid(2 * by) as i64
}

/// The point on a line, without coordinates if the line is blank; `None` if it is something else.
fn point(line: &[u8]) -> Option<Point> {
    line.split(|byte| *byte == b',' || *byte <= b' ').filter(|text| !text.is_empty()).map(millionths).collect()
}

/// A decimal number in millionths. Further digits are dropped.
fn millionths(text: &[u8]) -> Option<i64> {
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
        if number >= LARGEST {
            return None;
        }
    }
    for place in 0..6 {
        number = number * 10 + part.get(place).map_or(0, |digit| i64::from(digit - b'0'));
    }
    Some(if is_negative { -number } else { number })
}

/// Millionths as a decimal number, without zeros at its end.
fn decimal(number: i64) -> String {
    let sign = if number < 0 { "-" } else { "" };
    let (whole, part) = (number.abs() / MILLION, number.abs() % MILLION);
    let text = format!("{sign}{whole}.{part:06}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::apps::tests::{Try, check, refused};

    #[test]
    fn points_gather_around_their_means() {
        let files = [("x", "0,0\n0 1\n10 10\n"), ("y", "10,12\n\n-1 0.5\n")];
        let lines = Try::new("kmeans", &[("k", "2"), ("iterations", "10")], &files).text();
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
    fn what_is_no_point_is_refused() {
        assert!(
            refused("kmeans", &[("k", "3")], "1 2\n1 2\n")
                .starts_with("kmeans found 1 distinct points where k=3 asks for more;")
        );
        let mixed = Try::new("kmeans", &[("k", "1")], &[("x", "1 2\n1 two\n")]).failure();
        assert!(mixed.contains("x: the line at byte 4 is not a point;"), "{mixed}");
        let uneven = Try::new("kmeans", &[("k", "1")], &[("x", "1 2\n1 2 3\n")]).failure();
        assert!(uneven.contains("numbers where others have"), "{uneven}");
    }

    #[test]
    fn numbers_are_millionths() {
        let there_and_back = |text: &str| millionths(text.as_bytes()).map(decimal);
        for text in ["0", "12", "-3.25", "0.000001", "999999999999.999999"] {
            assert_eq!(there_and_back(text).as_deref(), Some(text));
        }
        assert_eq!(there_and_back("+.5000009").as_deref(), Some("0.5"));
        for text in ["", "-", ".", "1e5", "1.2.3", "--1", "1000000000000", "x"] {
            assert_eq!(there_and_back(text), None, "{text}");
        }
        assert_eq!([rounded(7, 2), rounded(-7, 2), rounded(-1, 3), rounded(2, 3)], [4, -3, 0, 1]);
    }
}
