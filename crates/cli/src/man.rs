//! `giveway man`: the man pages, one for the program and one for each subcommand.

use crate::args::Args;
use anyhow::{Context, Result};
use clap::{Command, CommandFactory};
use std::path::Path;

/// Writes `giveway.1`, `giveway-sim.1` and so on.
pub fn write(dir: &Path) -> Result<()> {
    let mut command = Args::command();
    // Completes the arguments and the help of subcommands.
    command.build();
    write_page(&command, "giveway".into(), dir)
}

fn write_page(command: &Command, name: String, dir: &Path) -> Result<()> {
    let page = clap_mangen::Man::new(command.clone());
    let mut text = Vec::new();
    page.render(&mut text)?;
    let file = dir.join(format!("{name}.1"));
    std::fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))?;
    let shown = |sub: &&Command| !sub.is_hide_set() && sub.get_name() != "help";
    command
        .get_subcommands()
        .filter(shown)
        .try_for_each(|sub| write_page(sub, format!("{name}-{}", sub.get_name()), dir))
}
