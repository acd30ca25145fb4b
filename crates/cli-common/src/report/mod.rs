//! The HTML report: one static page that compares several runs.
//!
//! The page is self-contained: it loads no resources, runs no script, follows the browser's light or dark setting and fits small screens. It can be
//! mailed, archived or opened offline. All text is escaped, because names of jobs, policies and files come from users.
//!
//! * `chart.rs` observes a run and records slots in use over time, in bounded memory.
//! * `page.rs` assembles the page: head, sections, legends.
//! * `tables.rs` writes tables of metrics, and mean completion times as bars.
//! * `curves.rs` draws distributions, one line per policy.
//! * `slots.rs` draws the data of a [`Chart`].
//! * `plots.rs` has the parts of every drawing: axes, ticks, step paths, labels.
//! * `text.rs` formats numbers and escapes names.
//! * `style.css` is the style sheet. It has all colours except those of the size groups, whose number varies (`page.rs`).
//!
//! Nothing here computes metrics: they come from `giveway_sim::metrics`. A run from an event log is shown like a simulated one.

mod chart;
mod curves;
mod page;
pub mod plots;
mod slots;
mod tables;
pub mod text;

pub use chart::Chart;
pub use curves::stroke;
pub use page::group_colours;
pub use slots::Frame;
pub use tables::scrolled;

use giveway_sim::metrics::{JobMetrics, Summary};

/// A finished run of one policy.
pub struct Run {
    /// Metrics of the run.
    pub summary: Summary,
    /// Metrics of each job that succeeded.
    pub jobs: Vec<JobMetrics>,
    /// Slots in use over time.
    pub chart: Chart,
}

/// Renders the page. `facts` are name-value pairs shown at the top (workload, cluster, seed, command); a value that begins with `giveway ` is set as
/// code. `groups` are the names of the size groups, smallest first. `runs` keep their order.
pub fn html(title: &str, facts: &[(String, String)], groups: &[String], runs: &[Run]) -> String {
    page::html(title, facts, groups, runs)
}

/// A self-contained page with this content, which is HTML. Colours of `groups` size groups are defined as `--g0`, `--g1` and so on.
pub fn document(title: &str, facts: &[(String, String)], groups: usize, content: &str) -> String {
    page::document(title, facts, groups, 0, content)
}

/// Display names of the runs: the policy, with the seed if the policy ran more than once.
fn names(runs: &[Run]) -> Vec<String> {
    let policy = |run: &Run| run.summary.policy.clone();
    runs.iter()
        .map(|run| {
            let repeated = runs.iter().filter(|other| policy(other) == policy(run)).count() > 1;
            if repeated { format!("{}, seed {}", policy(run), run.summary.seed) } else { policy(run) }
        })
        .collect()
}
