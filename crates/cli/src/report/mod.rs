//! The static report: one HTML page that shows what runs were like, side by side.
//!
//! The page stands alone. It loads nothing, runs no script, follows the reader's light or dark setting and fits a phone, so it can
//! be mailed, archived beside an event log or opened on a machine without a network. All its text is escaped: names of jobs, policies
//! and files come from users.
//!
//! * `chart.rs` watches a run and keeps slots in use over time, in bounded memory.
//! * `page.rs` puts the page together: head, sections, legends.
//! * `tables.rs` is figures as tables, and means as bars.
//! * `curves.rs` draws distributions, one line for each policy.
//! * `slots.rs` draws what a [`Chart`] has kept.
//! * `plots.rs` is what every drawing needs: axes, ticks, steps, a pen.
//! * `text.rs` is how numbers and names are written.
//! * `style.css` is how it all looks; colours are there and nowhere else, but for the ramps that depend on how many groups there are.
//!
//! Nothing here measures: figures are those of `giveway_sim::metrics`, and a run that came from an event log looks like one that was
//! simulated.

mod chart;
mod curves;
mod page;
pub(crate) mod plots;
mod slots;
mod tables;
pub(crate) mod text;

pub use chart::Chart;
pub(crate) use curves::stroke;
pub(crate) use page::group_colours;
pub(crate) use slots::Frame;

use giveway_sim::metrics::{JobMetrics, Summary};

/// One run of one policy, over.
pub struct Run {
    /// Its figures.
    pub summary: Summary,
    /// Its jobs that succeeded.
    pub jobs: Vec<JobMetrics>,
    /// Its slots over time.
    pub chart: Chart,
}

/// The page. `facts` stand at its top, in order (the workload, the cluster, the seed, the command that makes it again); `groups`
/// are the names of the size groups, smallest first; `runs` keep their order.
pub fn html(title: &str, facts: &[(String, String)], groups: &[String], runs: &[Run]) -> String {
    page::html(title, facts, groups, runs)
}

/// What to call each run: its policy, and its seed too where a policy ran more than once.
fn names(runs: &[Run]) -> Vec<String> {
    let policy = |run: &Run| run.summary.policy.clone();
    runs.iter()
        .map(|run| {
            let twice = runs.iter().filter(|other| policy(other) == policy(run)).count() > 1;
            if twice { format!("{}, seed {}", policy(run), run.summary.seed) } else { policy(run) }
        })
        .collect()
}
