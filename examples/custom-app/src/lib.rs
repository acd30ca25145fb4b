//! A custom application: the lowest and the highest reading of each weather station.
//!
//! Input lines are `STATION READING`, for example `Lisbon 19`. The mapper emits each reading with its station as the key; the combiner and the reducer
//! retain the two extremes. The output depends on the readings only and not on their order.

use giveway_engine::apps::App;
use giveway_engine::job::Plan;
use giveway_engine::record::{Combine, Combiner, Emit, Failure, Mapper, Record, Reducer, Values};

/// The application `extremes`. It is its own mapper, combiner and reducer.
#[derive(Clone, Copy, Debug)]
pub struct Extremes;

impl App for Extremes {
    fn name(&self) -> &'static str {
        "extremes"
    }

    fn about(&self) -> &'static str {
        "find the lowest and the highest reading of each station"
    }

    fn mapper(&self, _plan: &Plan) -> Result<Box<dyn Mapper>, Failure> {
        Ok(Box::new(Extremes))
    }

    fn reducer(&self, _plan: &Plan) -> Result<Option<Box<dyn Reducer>>, Failure> {
        Ok(Some(Box::new(Extremes)))
    }

    fn combine(&self, _plan: &Plan) -> Combine {
        Combine::With(Box::new(Extremes))
    }
}

impl Mapper for Extremes {
    fn map(&mut self, record: Record<'_>, out: &mut dyn Emit) -> Result<(), Failure> {
        let line = String::from_utf8_lossy(record.line);
        match line.rsplit_once(' ').map(|(station, reading)| (station, reading.parse::<i64>())) {
            Some((station, Ok(reading))) => out.emit(station.as_bytes(), &reading.to_le_bytes()),
            // Malformed lines do not fail the job; they are counted, and `giveway job` shows the counter.
            _ => out.count("lines without a reading", 1),
        }
        Ok(())
    }
}

impl Combiner for Extremes {
    fn combine(&mut self, _key: &[u8], values: &mut dyn Values, out: &mut dyn FnMut(&[u8])) {
        let (low, high) = extremes(values);
        out(&low.to_le_bytes());
        out(&high.to_le_bytes());
    }
}

impl Reducer for Extremes {
    fn reduce(&mut self, key: &[u8], values: &mut dyn Values, out: &mut dyn Emit) -> Result<(), Failure> {
        let (low, high) = extremes(values);
        out.emit(key, format!("{low}\t{high}").as_bytes());
        Ok(())
    }
}

fn extremes(values: &mut dyn Values) -> (i64, i64) {
    let (mut low, mut high) = (i64::MAX, i64::MIN);
    while let Some(value) = values.next() {
        let reading = i64::from_le_bytes(value.try_into().expect("the mapper emits eight bytes"));
        (low, high) = (low.min(reading), high.max(reading));
    }
    (low, high)
}

#[cfg(test)]
mod tests {
    use super::*;
    use giveway_core::{JobId, Priority};
    use giveway_engine::input::LocalOnly;
    use giveway_engine::job::Request;
    use giveway_engine::{apps, reference};

    #[test]
    fn each_station_has_its_extremes() {
        let dir = tempfile::tempdir().unwrap();
        let input = dir.path().join("readings");
        std::fs::write(&input, "Lisbon 19\nOslo -4\nLisbon 31\n???\nNew York 7\nOslo 2\nLisbon 24\n").unwrap();
        let request = Request {
            app: "extremes".to_owned(),
            options: [].into(),
            input: vec![input.clone().into()],
            output: dir.path().join("out"),
            reduces: Some(1),
            split_bytes: 16,
            memory_bytes: 1 << 20,
            name: "extremes".to_owned(),
            user: "me".to_owned(),
            pool: "default".to_owned(),
            priority: Priority::default(),
            task_timeout_ms: 60_000,
            records_per_s: None,
            compress: false,
            sync_output: false,
        };
        let plan = apps::plan(&Extremes, JobId(1), request, &LocalOnly).unwrap();
        let parts = reference::run(&Extremes, &plan, &LocalOnly).unwrap();
        assert_eq!(parts, [("part-r-00000".to_owned(), b"Lisbon\t19\t31\nNew York\t7\t7\nOslo\t-4\t2\n".to_vec())]);
    }
}
