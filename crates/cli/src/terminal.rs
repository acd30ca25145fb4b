//! What goes to a terminal: text of others made harmless, and output that is drawn again.

use anyhow::{Context, Result};
use giveway_web::server::Server;
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, IsTerminal, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Clears the terminal and moves to its top left corner.
const CLEAR: &str = "\x1b[2J\x1b[3J\x1b[H";

/// Text that cannot change what a terminal shows beside it: control characters, also those that reorder text, are written as escapes such as `\x1b`.
pub fn printable(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\n' | '\t' => safe.push(character),
            '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {
                safe.extend(character.escape_unicode());
            }
            _ if character.is_control() => safe.push_str(&format!("\\x{:02x}", u32::from(character))),
            _ => safe.push(character),
        }
    }
    safe
}

/// Writes bytes that a program printed to a terminal. Bytes that are not UTF-8 are written as `\xff`; a carriage return before a line end is left out.
pub fn write_printable(bytes: &[u8], out: &mut impl Write) -> io::Result<()> {
    for chunk in bytes.utf8_chunks() {
        out.write_all(printable(&chunk.valid().replace("\r\n", "\n")).as_bytes())?;
        for byte in chunk.invalid() {
            write!(out, "\\x{byte:02x}")?;
        }
    }
    Ok(())
}

/// The address of the dashboard over an event log, as it is printed to `out`. The link that opens it has a token. So it is printed to whoever has started the
/// program, and where somebody else keeps what is printed, a file or the system's journal, written to a file beside the event log.
pub fn dashboard_address(server: &Server, event_log: &Path, out: impl AsFd) -> Result<String> {
    let (Some(address), Some(link)) = (server.address(), server.link()?) else { return Ok(String::new()) };
    if !is_kept(out.as_fd()) {
        return Ok(link);
    }
    let mut path = OsString::from(event_log);
    path.push(".link");
    let path = PathBuf::from(path);
    write_private(&path, &link).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(format!("http://{address}/ - the link that opens it is in {}", path.display()))
}

/// False for a terminal and a pipe.
fn is_kept(out: BorrowedFd<'_>) -> bool {
    let is_pipe = || Ok::<_, io::Error>(File::from(out.try_clone_to_owned()?).metadata()?.file_type().is_fifo());
    !out.is_terminal() && !is_pipe().unwrap_or(false)
}

/// Replaces a file by one that only its owner can read.
fn write_private(path: &Path, text: &str) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    writeln!(file, "{text}")
}

/// Prints what `render` returns, and with an interval again and again: over the previous output on a terminal, after it elsewhere. The first failure ends the
/// program; a later one is shown, and the next attempt may succeed.
pub fn watch(interval: Option<Duration>, mut render: impl FnMut() -> Result<String>) -> Result<()> {
    let mut out = io::stdout();
    let first = render()?;
    let Some(interval) = interval else {
        out.write_all(first.as_bytes())?;
        return Ok(());
    };
    let clear = if out.is_terminal() { CLEAR } else { "" };
    let mut text = first;
    loop {
        out.write_all(format!("{clear}{text}").as_bytes())?;
        out.flush()?;
        std::thread::sleep(interval);
        text = match render() {
            Ok(text) => text,
            Err(error) => format!("{error:#}; trying again every {}\n", humantime::format_duration(interval)),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escape_sequences_and_bytes_that_are_no_text_are_neutralised() {
        let mut out = Vec::new();
        write_printable(b"plain \xc3\xa9\n\x1b[2Jred\x07 a\rb\r\n\xff\xfe\xe2\x80\xaex \xc2\x9b31m", &mut out).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "plain é\n\\x1b[2Jred\\x07 a\\x0db\n\\xff\\xfe\\u{202e}x \\x9b31m");
    }
}
