//! Detection of a trace's format by its content.

use crate::formats::swim;
use std::fmt;

/// Formats that are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Format {
    /// SWIM: Facebook's jobs of 2009 and 2010.
    Swim,
}

impl Format {
    /// Whether the events of one job may be spread over the files of a folder, which are then read as one.
    pub(crate) fn jobs_span_files(self) -> bool {
        false
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Format::Swim => "SWIM",
        })
    }
}

/// What the beginning of a file is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Detected {
    Trace(Format),
    /// Known, but not a workload: what it is and what to do.
    Unsupported(&'static str),
    Unknown,
}

/// The format of a file that begins with these bytes.
pub(crate) fn detect(head: &[u8]) -> Detected {
    let text = String::from_utf8_lossy(head);
    let text = text.trim_start_matches('\u{feff}');
    let Some(line) = text.lines().find(|line| !line.trim().is_empty()) else { return Detected::Unknown };
    if swim::matches(line) { Detected::Trace(Format::Swim) } else { Detected::Unknown }
}
