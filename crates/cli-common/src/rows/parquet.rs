//! Tables as Parquet files.

use anyhow::Result;
use giveway_sim::rows::{Table, Values};
use parquet::basic::{Compression, LogicalType, Repetition, Type as Physical, ZstdLevel};
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::Type;
use std::sync::Arc;

/// Rows of a row group.
const GROUP_ROWS: usize = 1 << 20;

/// The bytes of a file.
pub fn bytes(table: &Table) -> Result<Vec<u8>> {
    let schema = Arc::new(schema(table)?);
    let compression = Compression::ZSTD(ZstdLevel::default());
    let properties = Arc::new(WriterProperties::builder().set_compression(compression).build());
    let mut file = SerializedFileWriter::new(Vec::new(), schema, properties)?;
    for begin in (0..table.rows()).step_by(GROUP_ROWS) {
        let rows = begin..(begin + GROUP_ROWS).min(table.rows());
        let mut group = file.next_row_group()?;
        for column in &table.columns {
            let mut writer = group.next_column()?.expect("the schema has every column of the table");
            match &column.values {
                Values::Text(values) => {
                    let values: Vec<ByteArray> = values[rows.clone()].iter().map(|value| (&**value).into()).collect();
                    writer.typed::<ByteArrayType>().write_batch(&values, None, None)?;
                }
                Values::Integer(values) => {
                    // The same bits: the schema says that they are unsigned.
                    let values: Vec<i64> = values[rows.clone()].iter().map(|&value| value.cast_signed()).collect();
                    writer.typed::<Int64Type>().write_batch(&values, None, None)?;
                }
                Values::Real(values) => {
                    let values = &values[rows.clone()];
                    let known: Vec<f64> = values.iter().copied().filter(|value| !value.is_nan()).collect();
                    let levels: Vec<i16> = values.iter().map(|value| i16::from(!value.is_nan())).collect();
                    writer.typed::<DoubleType>().write_batch(&known, Some(&levels), None)?;
                }
            }
            writer.close()?;
        }
        group.close()?;
    }
    Ok(file.into_inner()?)
}

fn schema(table: &Table) -> Result<Type> {
    let columns = table.columns.iter().map(|column| {
        let of = |physical, logical, repetition| {
            let builder = Type::primitive_type_builder(column.name, physical);
            builder.with_logical_type(logical).with_repetition(repetition).build().map(Arc::new)
        };
        match column.values {
            Values::Text(_) => of(Physical::BYTE_ARRAY, Some(LogicalType::String), Repetition::REQUIRED),
            Values::Integer(_) => of(Physical::INT64, Some(LogicalType::integer(64, false)), Repetition::REQUIRED),
            Values::Real(_) => of(Physical::DOUBLE, None, Repetition::OPTIONAL),
        }
    });
    let columns = columns.collect::<Result<Vec<_>, _>>()?;
    Ok(Type::group_type_builder("table").with_fields(columns).build()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use giveway_sim::rows::Column;
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use std::io::Write;

    #[test]
    fn a_file_has_the_values_of_its_table() {
        let columns = vec![
            Column { name: "name", values: Values::Text(vec!["é".into(), "b".into()]) },
            Column { name: "maps", values: Values::Integer(vec![1, u64::MAX]) },
            Column { name: "wait_s", values: Values::Real(vec![0.1, f64::NAN]) },
        ];
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&bytes(&Table { columns }).unwrap()).unwrap();
        let reader = SerializedFileReader::new(file).unwrap();
        let rows: Vec<String> = reader.get_row_iter(None).unwrap().map(|row| row.unwrap().to_string()).collect();
        assert_eq!(
            rows,
            ["{name: \"é\", maps: 1, wait_s: 0.1}", "{name: \"b\", maps: 18446744073709551615, wait_s: null}"]
        );
    }
}
