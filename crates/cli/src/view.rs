//! `giveway view`: the dashboard over recorded event logs.

use crate::args::View;
use crate::signals;
use crate::terminal::dashboard_address;
use anyhow::Result;
use giveway_web::server::Server;
use std::io::Write;
use std::sync::mpsc;

/// `giveway view`
pub fn run(args: &View) -> Result<()> {
    let server = match (args.follow, args.event_logs.as_slice()) {
        (true, [log]) => {
            if !log.exists() {
                eprintln!("waiting for {}, which does not exist yet", log.display());
            }
            Server::follow(log, args.http)?
        }
        (true, _) => anyhow::bail!("--follow shows one event log; leave out the other"),
        (false, logs) => Server::view(logs, args.http)?,
    };
    let mut out = std::io::stdout();
    if let Some(log) = args.event_logs.first() {
        writeln!(out, "Dashboard: {}", dashboard_address(&server, log, &out)?)?;
    }
    writeln!(out, "Stop with Ctrl-C.")?;
    out.flush()?;
    let (stop, stopped) = mpsc::channel();
    signals::on_stop(move || {
        let _ = stop.send(());
    })?;
    let _ = stopped.recv();
    Ok(())
}
