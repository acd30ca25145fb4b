//! A custom application: the lowest and the highest reading of each weather station.
//!
//! Input lines are `STATION READING`, for example `Lisbon 19`. The mapper emits each reading with its station as the key; the combiner and the reducer
//! retain the two extremes. The output depends on the readings only and not on their order.

use giveway_mapreduce::apps::App;
use giveway_mapreduce::job::Plan;
use giveway_mapreduce::record::{AppError, Combine, Combiner, Emit, Mapper, Record, Reducer, Values};

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

    fn mapper(&self, _plan: &Plan) -> Result<Box<dyn Mapper>, AppError> {
        Ok(Box::new(Extremes))
    }

    fn reducer(&self, _plan: &Plan) -> Result<Option<Box<dyn Reducer>>, AppError> {
        Ok(Some(Box::new(Extremes)))
    }

    fn combine(&self, _plan: &Plan) -> Combine {
        Combine::With(Box::new(Extremes))
    }
}

impl Mapper for Extremes {
    fn map(&mut self, record: Record<'_>, out: &mut dyn Emit) -> Result<(), AppError> {
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
    fn reduce(&mut self, key: &[u8], values: &mut dyn Values, out: &mut dyn Emit) -> Result<(), AppError> {
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
