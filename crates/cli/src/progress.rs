//! A bar on a terminal while something long runs; nothing anywhere else.

use giveway_core::{Action, Event, Time};
use giveway_sim::Observer;
use indicatif::{ProgressBar, ProgressStyle};
use std::io::IsTerminal;
use std::time::Duration;

/// A bar that counts things up to `total`, on standard error, if that is a terminal.
pub fn bar(total: u64, what: &str, things: &str) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let template = format!("{{msg}} {{bar:32}} {{pos}}/{{len}} {things}, {{eta}} left");
    let style = ProgressStyle::with_template(&template).expect("a sound template");
    let bar = ProgressBar::new(total).with_style(style).with_message(what.to_owned());
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

/// Moves a bar with each job that is over.
pub struct JobsDone<'a>(pub &'a ProgressBar);

impl Observer for JobsDone<'_> {
    fn observe(&mut self, _: Time, _: &Event, _: &[Action]) {}

    fn on_job_closed(&mut self, _: Time, _: usize, _: usize) {
        self.0.inc(1);
    }
}
