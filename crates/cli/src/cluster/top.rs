//! `giveway top`: a live view of a cluster in the terminal.

use super::args::Top;
use super::inspect::{self, Row, utc_time};
use anyhow::{Result, ensure};
use giveway_analysis::explain::duration;
use giveway_core::Span as Duration;
use giveway_engine::client::Client;
use giveway_engine::wire::NodeStatus;
use ratatui::Frame;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyModifiers};
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Cell, Paragraph, Table};
use std::io::IsTerminal;
use std::path::Path;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Width of a progress bar in characters.
const BAR_WIDTH: usize = 10;

/// `giveway top`
pub fn top(args: &Top) -> Result<()> {
    ensure!(
        std::io::stdout().is_terminal(),
        "giveway top needs a terminal; use `giveway jobs --watch` or `giveway jobs --json`"
    );
    // The first failure is an error; a later one is shown, because the coordinator may come back.
    let mut view = read(&args.cluster.dir)?;
    let mut terminal = ratatui::try_init()?;
    let ran = run(&mut terminal, args, &mut view);
    ratatui::restore();
    ran
}

fn run(terminal: &mut ratatui::DefaultTerminal, args: &Top, view: &mut View) -> Result<()> {
    let mut next_read = Instant::now() + args.interval;
    loop {
        terminal.draw(|frame| draw(frame, view))?;
        if event::poll(next_read.saturating_duration_since(Instant::now()))?
            && let Event::Key(key) = event::read()?
        {
            match action(key) {
                Some(Action::Quit) => return Ok(()),
                Some(Action::Scroll(by)) => view.scroll(by),
                None => {}
            }
        }
        if Instant::now() >= next_read {
            match read(&args.cluster.dir) {
                Ok(read) => *view = View { first: view.first, ..read },
                Err(error) => view.problem = Some(format!("{error:#}")),
            }
            view.scroll(0);
            next_read = Instant::now() + args.interval;
        }
    }
}

#[derive(Debug, PartialEq)]
enum Action {
    Quit,
    Scroll(isize),
}

fn action(key: KeyEvent) -> Option<Action> {
    match key.code {
        KeyCode::Char('q') | KeyCode::Esc => Some(Action::Quit),
        KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => Some(Action::Quit),
        KeyCode::Down | KeyCode::Char('j') => Some(Action::Scroll(1)),
        KeyCode::Up | KeyCode::Char('k') => Some(Action::Scroll(-1)),
        KeyCode::PageDown => Some(Action::Scroll(10)),
        KeyCode::PageUp => Some(Action::Scroll(-10)),
        _ => None,
    }
}

/// What is shown.
struct View {
    policy: String,
    nodes: Vec<NodeStatus>,
    /// Running jobs first, then pending ones, then those that ended, the latest first.
    jobs: Vec<Row>,
    /// Milliseconds of the Unix epoch.
    now_ms: f64,
    /// Why there is nothing newer.
    problem: Option<String>,
    /// The first job that is shown.
    first: usize,
}

impl View {
    fn scroll(&mut self, by: isize) {
        self.first = self.first.saturating_add_signed(by).min(self.jobs.len().saturating_sub(1));
    }
}

fn read(folder: &Path) -> Result<View> {
    let (mut jobs, policy) = inspect::rows(folder)?;
    let nodes = Client::connect(folder)?.nodes()?;
    jobs.sort_by_key(|job| {
        let order = match job.state {
            "running" => 0,
            "waiting" => 1,
            _ => 2,
        };
        let latest_first = if order == 2 { u32::MAX - job.job } else { job.job };
        (order, latest_first)
    });
    let now_ms = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |now| now.as_secs_f64() * 1e3);
    Ok(View { policy: policy.unwrap_or_default(), nodes, jobs, now_ms, problem: None, first: 0 })
}

const QUIET: Style = Style::new().fg(Color::DarkGray);
const BOLD: Style = Style::new().add_modifier(Modifier::BOLD);

fn draw(frame: &mut Frame<'_>, view: &View) {
    let [head, nodes, jobs, foot] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(node_lines(view.nodes.len(), frame.area().height)),
        Constraint::Min(0),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    frame.render_widget(Paragraph::new(head_line(view)), head);
    draw_nodes(frame, nodes, &view.nodes);
    draw_jobs(frame, jobs, view);
    let foot_line = match &view.problem {
        Some(problem) => Line::styled(problem.clone(), Style::new().fg(Color::Red)),
        None => Line::styled("q quit   up, down scroll   giveway explain JOB: why a job waits", QUIET),
    };
    frame.render_widget(Paragraph::new(foot_line), foot);
}

/// Lines for nodes, with their heading and an empty line: at most a third of the screen.
fn node_lines(nodes: usize, height: u16) -> u16 {
    let all = u16::try_from(nodes).unwrap_or(u16::MAX).saturating_add(2);
    all.min((height / 3).max(3))
}

fn head_line(view: &View) -> Line<'static> {
    let slots = |of: fn(&NodeStatus) -> (u16, u16)| {
        let up = view.nodes.iter().filter(|node| node.up).map(of);
        up.fold((0_u32, 0_u32), |(all, used), (a, u)| (all + u32::from(a), used + u32::from(u)))
    };
    let ((maps, maps_used), (reduces, reduces_used)) = (slots(|node| node.map_slots), slots(|node| node.reduce_slots));
    let count = |state: &str| view.jobs.iter().filter(|job| job.state == state).count();
    Line::from(vec![
        Span::styled(format!("{} UTC  ", utc_time(view.now_ms)), BOLD),
        Span::raw(format!("policy {}  ", view.policy)),
        Span::raw(format!("slots: map {maps_used}/{maps}, reduce {reduces_used}/{reduces}  ")),
        Span::raw(format!("{} running, {} waiting", count("running"), count("waiting"))),
    ])
}

fn draw_nodes(frame: &mut Frame<'_>, area: Rect, nodes: &[NodeStatus]) {
    // One line for the heading, one empty one below.
    let room = usize::from(area.height).saturating_sub(2);
    let mut lines =
        vec![Line::styled(format!("{:<16} {:<20} {:<20} STATE", "NODE", "MAP SLOTS", "REDUCE SLOTS"), BOLD)];
    let shown = if nodes.len() > room { room.saturating_sub(1) } else { nodes.len() };
    lines.extend(nodes.iter().take(shown).map(node_line));
    if nodes.len() > shown {
        lines.push(Line::styled(format!("and {} more nodes", nodes.len() - shown), QUIET));
    }
    frame.render_widget(Paragraph::new(lines), area);
}

fn node_line(node: &NodeStatus) -> Line<'static> {
    let state = inspect::node_state(node);
    // The word is enough here.
    let state = state.split(':').next().unwrap_or_default().to_owned();
    let style = match state.as_str() {
        "up" => Style::new(),
        _ if node.up => Style::new().fg(Color::Yellow),
        _ => Style::new().fg(Color::Red),
    };
    let paused = if node.paused > 0 { format!(", {} paused", node.paused) } else { String::new() };
    Line::from(vec![
        Span::raw(format!("{:<16.16} ", node.name)),
        Span::styled(format!("{:<20} ", slots(node.map_slots)), Style::new().fg(Color::Cyan)),
        Span::styled(format!("{:<20} ", slots(node.reduce_slots)), Style::new().fg(Color::Magenta)),
        Span::styled(format!("{state}{paused}"), style),
    ])
}

/// Slots as `##-- 2/4`, one character each if there is room.
fn slots((all, used): (u16, u16)) -> String {
    let width = usize::from(all).min(12);
    let filled = bar_cells(f64::from(used), f64::from(all), width);
    format!("{}{} {used}/{all}", "#".repeat(filled), "-".repeat(width - filled))
}

fn bar_cells(part: f64, whole: f64, width: usize) -> usize {
    if whole <= 0.0 { 0 } else { ((part / whole).clamp(0.0, 1.0) * width as f64).round() as usize }
}

fn draw_jobs(frame: &mut Frame<'_>, area: Rect, view: &View) {
    let header = ["JOB", "NAME", "USER", "STATE", "DONE", "MAPS", "REDUCES", "ELAPSED", "LEFT"];
    let rows = view.jobs.iter().skip(view.first).take(usize::from(area.height)).map(|job| job_row(job, view.now_ms));
    let widths = [
        Constraint::Length(5),
        Constraint::Fill(1),
        Constraint::Length(8),
        Constraint::Length(9),
        Constraint::Length(BAR_WIDTH as u16),
        Constraint::Length(7),
        Constraint::Length(7),
        Constraint::Length(7),
        Constraint::Length(7),
    ];
    let table = Table::new(rows, widths).header(ratatui::widgets::Row::new(header).style(BOLD)).column_spacing(1);
    frame.render_widget(table, area);
}

fn job_row(job: &Row, now_ms: f64) -> ratatui::widgets::Row<'static> {
    let (done, all) = (job.maps_done + job.reduces_done, job.maps + job.reduces);
    let filled = bar_cells(f64::from(done), f64::from(all), BAR_WIDTH);
    let left =
        job.expected_end_ms.map(|[_, middle, _]| duration(Duration::from_secs_f64((middle - now_ms).max(0.0) / 1e3)));
    let style = match job.state {
        "running" => Style::new(),
        "failed" => Style::new().fg(Color::Red),
        _ => QUIET,
    };
    let paused =
        if job.paused > 0 { format!("{}+{}p", job.reduces_done, job.paused) } else { job.reduces_done.to_string() };
    ratatui::widgets::Row::new(vec![
        Cell::new(job.job.to_string()),
        Cell::new(job.name.clone()),
        Cell::new(job.user.clone()),
        Cell::new(job.state),
        Cell::new(format!("{}{}", "#".repeat(filled), "-".repeat(BAR_WIDTH - filled))),
        Cell::new(format!("{}/{}", job.maps_done, job.maps)),
        Cell::new(format!("{paused}/{}", job.reduces)),
        Cell::new(duration(Duration::from_secs_f64(job.elapsed_s))),
        Cell::new(left.unwrap_or_default()),
    ])
    .style(style)
}

#[cfg(test)]
mod tests {
    use super::*;
    use giveway_core::NodeId;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    fn view() -> View {
        let node = |index: u32| NodeStatus {
            node: NodeId(index),
            name: format!("node-{index}"),
            pid: Some(7),
            up: index != 1,
            map_slots: (4, 3),
            reduce_slots: (2, 1),
            paused: index,
            drained: false,
            excluded: None,
        };
        let job = |job: u32, state: &'static str| Row {
            job,
            name: "count the words of all books".into(),
            app: "wordcount".into(),
            user: "ann".into(),
            pool: "default".into(),
            priority: giveway_core::Priority::Normal,
            state,
            submitted_ms: Some(0.0),
            wait_s: 0.0,
            elapsed_s: 83.0,
            maps: 8,
            maps_done: 4,
            reduces: 2,
            reduces_done: 1,
            running: 3,
            paused: 1,
            pauses: 1,
            early_ends: 0,
            kills: 0,
            expected_end_ms: Some([50e3, 60e3, 70e3]),
        };
        View {
            policy: "giveway".into(),
            nodes: (0..3).map(node).collect(),
            jobs: vec![job(3, "running"), job(4, "waiting"), job(2, "failed")],
            now_ms: 30e3,
            problem: None,
            first: 0,
        }
    }

    fn drawn(view: &View, width: u16, height: u16) -> Vec<String> {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| draw(frame, view)).unwrap();
        let buffer = terminal.backend().buffer();
        (0..height)
            .map(|y| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>().trim_end().to_owned())
            .collect()
    }

    #[test]
    fn a_screen_of_80_by_24_shows_slots_progress_and_the_time_left() {
        let lines = drawn(&view(), 80, 24);
        assert!(lines[0].contains("policy giveway  slots: map 6/8, reduce 2/4  1 running, 1 waiting"), "{lines:#?}");
        assert!(
            lines[2].starts_with("node-0") && lines[2].contains("###- 3/4") && lines[2].ends_with("up"),
            "{lines:#?}"
        );
        assert!(lines[3].ends_with("lost, 1 paused"), "{lines:#?}");
        let job = lines.iter().find(|line| line.starts_with("3 ")).unwrap();
        assert!(job.contains("#####-----") && job.contains("4/8") && job.contains("1+1p/2"), "{job}");
        assert!(job.ends_with("30 s"), "{job}");
        assert!(lines[23].starts_with("q quit"), "{lines:#?}");
    }

    #[test]
    fn small_screens_and_many_nodes_are_drawn() {
        let mut view = view();
        let node = view.nodes[0].clone();
        view.nodes = vec![node; 500];
        assert!(drawn(&view, 80, 24).iter().any(|line| line.starts_with("and 495 more nodes")));
        view.problem = Some("no cluster is running".into());
        for (width, height) in [(1, 1), (10, 3), (40, 10), (300, 100)] {
            drawn(&view, width, height);
        }
        view.scroll(-5);
        assert_eq!(view.first, 0);
        view.scroll(100);
        assert_eq!(view.first, 2, "the last job stays visible");
        view.jobs.clear();
        view.scroll(1);
        assert_eq!(view.first, 0);
    }

    #[test]
    fn keys() {
        let key = |code, modifiers| action(KeyEvent::new(code, modifiers));
        assert_eq!(key(KeyCode::Char('q'), KeyModifiers::NONE), Some(Action::Quit));
        assert_eq!(key(KeyCode::Char('c'), KeyModifiers::CONTROL), Some(Action::Quit));
        assert_eq!(key(KeyCode::Char('c'), KeyModifiers::NONE), None);
        assert_eq!(key(KeyCode::Up, KeyModifiers::NONE), Some(Action::Scroll(-1)));
    }
}
