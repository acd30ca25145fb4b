//! Tables: aligned text as wide as the terminal, and tab-separated values where there is none.
//!
//! A table that is too wide for its terminal first loses the columns that it says it can do without, one by one, and then wraps its widest column between
//! words. No word is broken, but names may be shortened, and a pipe gets every column.

use std::fmt;
use std::io::{IsTerminal, stdout};
use terminal_size::{Width, terminal_size};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

const GAP: &str = "  ";

/// The narrowest a column gets by wrapping.
const WRAPPED_MIN: usize = 16;

/// The width of a column of names that is shortened.
const SHORTENED: usize = 24;

#[derive(Debug, Default)]
pub struct TextTable {
    header: Vec<String>,
    rows: Vec<Vec<String>>,
    numbers_from: usize,
    leave_out: &'static str,
    /// The column with states, which are coloured.
    states: Option<&'static str>,
    /// True if nothing is left out or wrapped.
    wide: bool,
}

/// Where a table is printed.
#[derive(Clone, Copy)]
enum Target {
    Terminal { width: usize, colors: bool },
    Pipe,
}

impl TextTable {
    /// A table with this header, whose names may have several lines.
    pub fn new<T: Into<String>>(header: impl IntoIterator<Item = T>) -> TextTable {
        let header: Vec<String> = header.into_iter().map(Into::into).collect();
        TextTable { numbers_from: header.len(), header, ..TextTable::default() }
    }

    /// The columns from this one on are numbers, aligned to the right.
    pub fn numbers_from(self, column: usize) -> TextTable {
        TextTable { numbers_from: column, ..self }
    }

    /// The columns that are left out of a narrow terminal, in this order, separated by `|`. Their names are given in one line. One that ends in `…` is shortened instead.
    pub fn leave_out(self, columns: &'static str) -> TextTable {
        TextTable { leave_out: columns, ..self }
    }

    /// The column of this name has states, which are coloured.
    pub fn states(self, column: &'static str) -> TextTable {
        TextTable { states: Some(column), ..self }
    }

    /// Shows every column, however narrow the terminal is.
    pub fn wide(self, wide: bool) -> TextTable {
        TextTable { wide, ..self }
    }

    /// Adds a row. Missing cells at its end are empty.
    pub fn add_row<T: Into<String>>(&mut self, cells: impl IntoIterator<Item = T>) {
        self.rows.push(cells.into_iter().map(Into::into).collect());
    }

    fn render(&self, target: Target) -> String {
        match target {
            Target::Terminal { width, colors } => self.aligned(if self.wide { usize::MAX } else { width }, colors),
            Target::Pipe => self.tab_separated(),
        }
    }

    fn tab_separated(&self) -> String {
        let line = |cells: &[String]| cells.iter().map(|cell| in_one_line(cell)).collect::<Vec<_>>().join("\t");
        std::iter::once(&self.header).chain(&self.rows).map(|cells| line(cells) + "\n").collect()
    }

    fn aligned(&self, width: usize, colors: bool) -> String {
        let states = self.header.iter().position(|name| colors && self.states == Some(name.as_str()));
        let Fitting { columns, mut widths, shortened } = self.fitting_columns(width);
        let total: usize = widths.iter().sum::<usize>() + GAP.len() * widths.len().saturating_sub(1);
        if let Some(widest) = widths.iter_mut().max()
            && total > width
        {
            *widest = widest.saturating_sub(total - width).max(WRAPPED_MIN);
        }
        let mut text = String::new();
        for (number, cells) in std::iter::once(&self.header).chain(&self.rows).enumerate() {
            let cell = |column: usize| cells.get(column).map_or("", String::as_str);
            let wrapped: Vec<Vec<String>> = columns
                .iter()
                .zip(&widths)
                .map(|(&column, &width)| match shortened.contains(&column) {
                    true => vec![cut(cell(column), width)],
                    false => wrap(cell(column), width),
                })
                .collect();
            let height = wrapped.iter().map(Vec::len).max().unwrap_or(0);
            for line in 0..height {
                // The last line of a header is next to its column.
                let at = |lines: &[String]| {
                    let empty = if number == 0 { height - lines.len() } else { 0 };
                    line.checked_sub(empty).and_then(|line| lines.get(line)).cloned().unwrap_or_default()
                };
                let cells = columns.iter().zip(&widths).zip(&wrapped).map(|((&column, &width), lines)| {
                    let (cell, pad) = (at(lines), " ".repeat(width.saturating_sub(at(lines).width())));
                    let cell = if states == Some(column) && number > 0 { colored_state(&cell) } else { cell };
                    if column >= self.numbers_from { pad + &cell } else { cell + &pad }
                });
                let line = cells.collect::<Vec<_>>().join(GAP);
                text.push_str(line.trim_end());
                text.push('\n');
            }
            if number == 0 {
                text.push_str(&widths.iter().map(|&width| "-".repeat(width)).collect::<Vec<_>>().join(GAP));
                text.push('\n');
            }
        }
        text
    }

    fn fitting_columns(&self, width: usize) -> Fitting {
        let content_width = |column: usize| {
            let cells = std::iter::once(&self.header).chain(&self.rows).filter_map(|cells| cells.get(column));
            cells.flat_map(|cell| cell.lines()).map(UnicodeWidthStr::width).max().unwrap_or(0)
        };
        let mut columns: Vec<usize> = (0..self.header.len()).collect();
        let mut widths: Vec<usize> = columns.iter().map(|&column| content_width(column)).collect();
        let mut shortened = Vec::new();
        for name in self.leave_out.split('|').filter(|name| !name.is_empty()) {
            if widths.iter().sum::<usize>() + GAP.len() * widths.len().saturating_sub(1) <= width {
                break;
            }
            let at = |name: &str| columns.iter().position(|&column| in_one_line(&self.header[column]) == name);
            if let Some(at) = name.strip_suffix('…').and_then(at) {
                widths[at] = widths[at].min(SHORTENED);
                shortened.push(columns[at]);
            } else if let Some(at) = at(name) {
                columns.remove(at);
                widths.remove(at);
            }
        }
        Fitting { columns, widths, shortened }
    }
}

impl fmt::Display for TextTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let target = terminal_width().map_or(Target::Pipe, |width| Target::Terminal { width, colors: has_colors() });
        f.write_str(self.render(target).trim_end_matches('\n'))
    }
}

/// The columns of standard output; none if it is no terminal.
fn terminal_width() -> Option<usize> {
    stdout().is_terminal().then(|| terminal_size().map_or(80, |(Width(columns), _)| usize::from(columns)))
}

/// Text for standard output: on a terminal, lines that are too long are broken between words and continue indented.
pub fn prose(text: &str) -> String {
    terminal_width().map_or_else(|| text.to_owned(), |width| broken(text, width))
}

fn broken(text: &str, width: usize) -> String {
    let mut out = String::new();
    for line in text.split_inclusive('\n') {
        let content = line.trim_start_matches(' ');
        let (indent, end) = (" ".repeat(line.len() - content.len()), if line.ends_with('\n') { "\n" } else { "" });
        let lines = wrap(content.trim_end_matches('\n'), width.saturating_sub(indent.len() + 2).max(WRAPPED_MIN));
        if line.trim_end().width() <= width {
            out.push_str(line);
        } else {
            out.push_str(&format!("{indent}{}{end}", lines.join(&format!("\n{indent}  "))));
        }
    }
    out
}

/// True if standard output is a terminal that shows colours, and the user has not turned them off (`NO_COLOR`).
fn has_colors() -> bool {
    let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    stdout().is_terminal() && !is_set("NO_COLOR") && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

/// The state of a job or node in its colour: red where something is wrong, yellow where something waits or is degraded, green while it runs.
fn colored_state(text: &str) -> String {
    let code = match text.split([':', ' ']).next().unwrap_or_default() {
        "failed" | "killed" | "lost" => 31,
        "waiting" | "excluded" | "drained" | "draining" | "disconnected" => 33,
        "running" | "up" => 32,
        _ => return text.to_owned(),
    };
    format!("\x1b[{code}m{text}\x1b[0m")
}

/// What is shown of a table.
struct Fitting {
    columns: Vec<usize>,
    /// Of each of these columns.
    widths: Vec<usize>,
    /// The columns whose cells are cut to their width.
    shortened: Vec<usize>,
}

/// A cell in at most this width.
fn cut(cell: &str, width: usize) -> String {
    if cell.width() <= width {
        return cell.to_owned();
    }
    let mut left = width.saturating_sub(1);
    let fits = |char: &char| {
        let fits = char.width().unwrap_or(0) <= left;
        left = left.saturating_sub(char.width().unwrap_or(0));
        fits
    };
    cell.chars().take_while(fits).chain(['…']).collect()
}

/// A name of several lines in one: `slow-` and `down` are `slow-down`.
fn in_one_line(text: &str) -> String {
    text.replace("-\n", "-").replace(['\n', '\t'], " ")
}

/// The lines of a cell, none wider than `width` unless a word is.
fn wrap(cell: &str, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    for line in cell.split('\n') {
        let mut current = String::new();
        for word in line.split(' ') {
            if !current.is_empty() && current.width() + 1 + word.width() > width {
                lines.push(std::mem::take(&mut current));
            } else if !current.is_empty() {
                current.push(' ');
            }
            current.push_str(word);
        }
        lines.push(current);
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn jobs() -> TextTable {
        let mut table = TextTable::new(["job", "name", "pool", "mean\n(s)", "slow-\ndown"]).numbers_from(3);
        table.add_row(["1", "sort of the day", "adhoc", "12.5", "1.1"]);
        table.add_row(["12", "wörter", "production", "1.25", "10.2"]);
        table.leave_out("slow-down|pool")
    }

    fn terminal(width: usize) -> Target {
        Target::Terminal { width, colors: false }
    }

    #[test]
    fn names_are_shortened_where_other_columns_would_be_left_out() {
        let mut table = TextTable::new(["job", "name", "state"]).leave_out("name…|state");
        table.add_row(["1", "the-long-name-of-a-job-of-every-day", "running"]);
        table.add_row(["2", "wörter wörter wörter wörter", "waiting"]);
        let lines = |width| table.render(terminal(width)).lines().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(lines(60)[2], "1    the-long-name-of-a-job-of-every-day  running");
        assert_eq!(
            lines(40)[2..],
            ["1    the-long-name-of-a-job-…  running", "2    wörter wörter wörter wö…  waiting"]
        );
        assert_eq!(lines(30)[2], "1    the-long-name-of-a-job-…");
    }

    #[test]
    fn long_lines_are_broken_between_words() {
        let text = "short\n  2. a longer line of words\nend";
        assert_eq!(broken(text, 20), "short\n  2. a longer line\n    of words\nend");
        assert_eq!(broken(text, 80), text);
    }

    #[test]
    fn every_column_is_shown_on_request_and_states_have_colors_on_a_terminal_only() {
        let table = || {
            let mut table = TextTable::new(["job", "state", "submitted"]).leave_out("submitted").states("state");
            table.add_row(["1", "failed", "2026-11-18 14:05:07"]);
            table
        };
        let narrow = Target::Terminal { width: 20, colors: true };
        assert_eq!(table().render(narrow), "job  state\n---  ------\n1    \x1b[31mfailed\x1b[0m\n");
        assert!(table().wide(true).render(narrow).contains("2026-11-18 14:05:07"));
        assert_eq!(table().render(Target::Pipe), "job\tstate\tsubmitted\n1\tfailed\t2026-11-18 14:05:07\n");
    }

    #[test]
    fn a_wide_terminal_shows_all_columns() {
        let expected = "
                                  mean  slow-
job  name             pool         (s)   down
---  ---------------  ----------  ----  -----
1    sort of the day  adhoc       12.5    1.1
12   wörter           production  1.25   10.2
";
        assert_eq!(format!("\n{}", jobs().render(terminal(80))), expected);
    }

    #[test]
    fn a_narrow_terminal_loses_columns_in_their_order_and_then_wraps_between_words() {
        let header = |width: usize| {
            let text = jobs().render(terminal(width));
            assert!(text.lines().all(|line| line.width() <= width.max(WRAPPED_MIN + 11)), "{width}: {text}");
            text.lines().nth(1).unwrap_or_default().split_whitespace().count()
        };
        assert_eq!([44, 40, 30].map(header), [4, 4, 3]);
        let mut long = TextTable::new(["claim", "value"]).numbers_from(1);
        long.add_row(["small jobs finish sooner than under fair sharing", "yes"]);
        assert_eq!(
            long.render(terminal(30)),
            "claim                    value\n-----------------------  -----\nsmall jobs finish          yes\nsooner than under fair\nsharing\n"
        );
    }

    #[test]
    fn a_pipe_gets_every_column_as_plain_text() {
        let text = jobs().render(Target::Pipe);
        assert_eq!(text.lines().next(), Some("job\tname\tpool\tmean (s)\tslow-down"));
        assert_eq!(text.lines().nth(1), Some("1\tsort of the day\tadhoc\t12.5\t1.1"));
        assert!(text.chars().all(|character| !('\u{2500}'..='\u{257f}').contains(&character)));
    }
}
