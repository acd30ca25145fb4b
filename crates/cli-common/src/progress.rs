//! Progress bars on standard error, shown only if it is a terminal.

use giveway_core::{Action, Event, Time};
use giveway_sim::Observer;
use indicatif::{ProgressBar, ProgressStyle};
use std::io::IsTerminal;
use std::time::Duration;

/// Creates a bar with a label that counts `unit`s up to `total`; hidden if standard error is not a terminal.
pub fn bar(total: u64, label: &str, unit: &str) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let template = format!("{{msg}} {{bar:32}} {{pos}}/{{len}} {unit}, {{eta}} left");
    let style = ProgressStyle::with_template(&template).expect("valid template");
    let bar = ProgressBar::new(total).with_style(style).with_message(label.to_owned());
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

/// Advances a bar by one for each job that ends.
pub struct JobsDone<'a>(pub &'a ProgressBar);

impl Observer for JobsDone<'_> {
    fn observe(&mut self, _: Time, _: &Event, _: &[Action]) {}

    fn on_job_closed(&mut self, _: Time, _: usize, _: usize) {
        self.0.inc(1);
    }
}
