//! The options of commands that write tables.

use anyhow::{Result, ensure};
use clap::Args;
use giveway_cli_common::rows;
use giveway_sim::rows::Table;
use std::collections::HashSet;
use std::path::PathBuf;

/// Which tables a command writes.
#[derive(Clone, Debug, Default, Args)]
pub struct TableFiles {
    /// Write a table of jobs: CSV, tab-separated, JSON lines or, if it was built with that, Parquet, as the extension says (.csv, .tsv, .jsonl, .parquet; docs/rows.md lists the columns).
    #[arg(long, value_name = "FILE")]
    pub jobs: Option<PathBuf>,
    /// Write a table of attempts, in the same formats.
    #[arg(long, value_name = "FILE")]
    pub attempts: Option<PathBuf>,
    /// Write a table of the slots in use over time, in the same formats.
    #[arg(long, value_name = "FILE")]
    pub slots: Option<PathBuf>,
}

impl TableFiles {
    /// Checks that the files can be created, before a long computation.
    pub fn check_writable(&self) -> Result<()> {
        let mut files = HashSet::new();
        for file in [&self.jobs, &self.attempts, &self.slots].into_iter().flatten() {
            ensure!(files.insert(file), "two tables would be written to {}; give each its own file", file.display());
            rows::check_writable([file.as_path()])?;
        }
        Ok(())
    }

    /// Writes the jobs, if they are wanted.
    pub fn write_jobs(&self, table: &Table) -> Result<()> {
        self.jobs.as_deref().map_or(Ok(()), |file| rows::write(file, table))
    }

    /// Writes the attempts, if they are wanted.
    pub fn write_attempts(&self, table: &Table) -> Result<()> {
        self.attempts.as_deref().map_or(Ok(()), |file| rows::write(file, table))
    }

    /// Writes the slots, if they are wanted.
    pub fn write_slots(&self, table: &Table) -> Result<()> {
        self.slots.as_deref().map_or(Ok(()), |file| rows::write(file, table))
    }
}
