//! Two applications of one's own: [`Extremes`], the shortest useful one, and [`CountWords`], which compares a combiner of one's own with the
//! engine's sum.

mod count_words;
mod extremes;

pub use count_words::CountWords;
pub use extremes::Extremes;

#[cfg(test)]
mod tests {
    use super::*;
    use giveway_core::{JobId, Priority};
    use giveway_mapreduce::apps::{self, App, Apps};
    use giveway_mapreduce::job::Request;
    use giveway_mapreduce::reference;

    /// The output of an application for a text, by the sequential reference.
    fn output(app: &dyn App, options: &[(&str, &str)], text: &str) -> Result<String, String> {
        let dir = tempfile::tempdir().unwrap();
        let input = dir.path().join("input");
        std::fs::write(&input, text).unwrap();
        let request = Request {
            app: app.name().to_owned(),
            options: options.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect(),
            input: vec![input.into()],
            output: dir.path().join("out"),
            reduces: Some(1),
            split_bytes: 16,
            memory_bytes: 1 << 20,
            name: "test".to_owned(),
            user: "me".to_owned(),
            pool: "default".to_owned(),
            priority: Priority::default(),
            task_timeout_ms: 60_000,
            records_per_s: None,
            compress: false,
            sync_output: false,
        };
        let plan = apps::plan(app, JobId(1), request).map_err(|error| error.to_string())?;
        let mut parts = reference::run(app, &plan).map_err(|error| error.to_string())?;
        let (name, bytes) = parts.remove(0);
        assert_eq!((name.as_str(), parts.len()), ("part-r-00000", 0));
        Ok(String::from_utf8(bytes).unwrap())
    }

    #[test]
    fn each_station_has_its_extremes() {
        let readings = "Lisbon 19\nOslo -4\nLisbon 31\n???\nNew York 7\nOslo 2\nLisbon 24\n";
        assert_eq!(output(&Extremes, &[], readings).unwrap(), "Lisbon\t19\t31\nNew York\t7\t7\nOslo\t-4\t2\n");
    }

    #[test]
    fn words_are_counted_like_by_the_built_in_application() {
        let text = "to be or not\tto be\n\nthat is the question: whether\r\n 'tis nobler in the mind to\n".repeat(50);
        let expected = output(&*Apps::builtin().find("wordcount").unwrap(), &[], &text).unwrap();
        for options in [&[][..], &[("combiner", "own")], &[("combiner", "sum")]] {
            assert_eq!(output(&CountWords, options, &text).unwrap(), expected);
        }
        let error = output(&CountWords, &[("combiner", "mine")], &text).unwrap_err();
        assert_eq!(error, "unknown combiner `mine`; use `own` or `sum`");
    }
}
