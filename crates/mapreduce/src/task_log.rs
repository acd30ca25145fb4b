//! What a task prints: messages of its application, and the error output of programs that it runs.

use std::cell::RefCell;
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// True where all logs go to standard error.
static TO_STDERR: AtomicBool = AtomicBool::new(false);

/// Receives what is printed.
type Sink = Box<dyn FnMut(&[u8])>;

thread_local! {
    static CURRENT: RefCell<Option<Sink>> = const { RefCell::new(None) };
}

/// Adds text to the log of the task that runs in this thread, for `giveway logs`. A line end is added if it has none. Does nothing outside a task.
pub fn print(text: impl AsRef<[u8]>) {
    let text = text.as_ref();
    write(text);
    if text.last() != Some(&b'\n') {
        write(b"\n");
    }
}

/// Adds bytes to the log of the task that runs in this thread.
pub fn write(bytes: &[u8]) {
    if TO_STDERR.load(Relaxed) {
        let _ = io::stderr().write_all(bytes);
        return;
    }
    CURRENT.with_borrow_mut(|current| {
        if let Some(sink) = current {
            sink(bytes);
        }
    });
}

/// Has this process print all logs to standard error.
pub fn write_to_stderr() {
    TO_STDERR.store(true, Relaxed);
}

/// Has `sink` receive the log of the task that runs in this thread, until the result is dropped. It must not print itself.
pub fn begin(sink: impl FnMut(&[u8]) + 'static) -> CurrentTask {
    CURRENT.set(Some(Box::new(sink)));
    CurrentTask(())
}

/// While it exists, the log of this thread goes to the sink that [`begin`] was given.
#[derive(Debug)]
pub struct CurrentTask(());

impl Drop for CurrentTask {
    fn drop(&mut self) {
        CURRENT.set(None);
    }
}
