//! Tables of rows as files, in a format by the extension of the name.

#[cfg(feature = "parquet")]
mod parquet;

use crate::files;
use anyhow::{Result, bail};
use giveway_sim::rows::{Table, Values};
use serde_json::{Map, Value};
use std::path::Path;

/// A format of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Csv,
    Tsv,
    JsonLines,
    Parquet,
}

fn format_of(file: &Path) -> Result<Format> {
    match file.extension().and_then(|extension| extension.to_str()) {
        Some("csv") => Ok(Format::Csv),
        Some("tsv") => Ok(Format::Tsv),
        Some("jsonl" | "ndjson") => Ok(Format::JsonLines),
        Some("parquet") if cfg!(feature = "parquet") => Ok(Format::Parquet),
        Some("parquet") => bail!(
            "{}: this program was built without Parquet; build it with `--features parquet`, or end the name with .csv, .tsv or .jsonl",
            file.display()
        ),
        _ => bail!("{}: unknown format of a table; end the name with .csv, .tsv, .jsonl or .parquet", file.display()),
    }
}

/// Checks that the files can be created and that their formats are known, before a long computation whose results they will hold.
pub fn check_writable<'a>(files: impl IntoIterator<Item = &'a Path>) -> Result<()> {
    files.into_iter().try_for_each(|file| format_of(file).and_then(|_| files::check_writable([file])))
}

/// Writes a table.
pub fn write(file: &Path, table: &Table) -> Result<()> {
    let bytes = match format_of(file)? {
        Format::Csv => separated(table, ',')?.into_bytes(),
        Format::Tsv => separated(table, '\t')?.into_bytes(),
        Format::JsonLines => json_lines(table).into_bytes(),
        #[cfg(feature = "parquet")]
        Format::Parquet => parquet::bytes(table)?,
        #[cfg(not(feature = "parquet"))]
        Format::Parquet => unreachable!("its name was refused"),
    };
    files::write(file, &bytes)
}

/// A header and a line for each row.
fn separated(table: &Table, separator: char) -> Result<String> {
    let mut writer = csv::WriterBuilder::new().delimiter(separator as u8).from_writer(Vec::new());
    writer.write_record(table.columns.iter().map(|column| column.name))?;
    for row in 0..table.rows() {
        writer.write_record(table.columns.iter().map(|column| match &column.values {
            Values::Text(values) => values[row].to_string(),
            Values::Integer(values) => values[row].to_string(),
            Values::Real(values) if values[row].is_nan() => String::new(),
            Values::Real(values) => values[row].to_string(),
        }))?;
    }
    Ok(String::from_utf8(writer.into_inner()?)?)
}

/// An object for each row; null where a number is missing.
fn json_lines(table: &Table) -> String {
    let mut text = String::new();
    for row in 0..table.rows() {
        let value = |values: &Values| match values {
            Values::Text(values) => Value::from(&*values[row]),
            Values::Integer(values) => Value::from(values[row]),
            Values::Real(values) => Value::from(values[row]),
        };
        let object: Map<String, Value> =
            table.columns.iter().map(|column| (column.name.to_owned(), value(&column.values))).collect();
        text.push_str(&Value::Object(object).to_string());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use giveway_sim::rows::Column;

    fn table() -> Table {
        Table {
            columns: vec![
                Column { name: "name", values: Values::Text(vec!["a,b\t\"c\"".into(), "line\nfeed".into()]) },
                Column { name: "maps", values: Values::Integer(vec![1, u64::MAX]) },
                Column { name: "wait_s", values: Values::Real(vec![0.1, f64::NAN]) },
            ],
        }
    }

    #[test]
    fn words_with_separators_are_quoted_and_missing_numbers_are_empty() {
        let csv = separated(&table(), ',').unwrap();
        assert_eq!(csv, "name,maps,wait_s\n\"a,b\t\"\"c\"\"\",1,0.1\n\"line\nfeed\",18446744073709551615,\n");
        assert!(separated(&table(), '\t').unwrap().starts_with("name\tmaps\twait_s\n"));
        let lines = json_lines(&table());
        let objects: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(objects[0]["name"], "a,b\t\"c\"");
        assert!(objects[1]["wait_s"].is_null() && objects[1]["maps"] == u64::MAX);
    }

    #[test]
    fn other_formats_are_refused_before_the_run() {
        let refused = check_writable([Path::new("jobs.xlsx")]).unwrap_err().to_string();
        assert!(refused.contains(".csv, .tsv, .jsonl or .parquet"), "{refused}");
    }
}
