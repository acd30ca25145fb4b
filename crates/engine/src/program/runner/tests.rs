//! Shell scripts in the place of programs.

use super::*;
use std::fs;
use std::os::unix::fs::PermissionsExt;

/// A cluster directory with a shell script in the place of a program.
fn folder(script: &str) -> (tempfile::TempDir, ProgramId) {
    let folder = tempfile::tempdir().unwrap();
    let (program, _) = ProgramId::of(script.as_bytes()).unwrap();
    let path = ProgramStore::path(folder.path(), program);
    fs::create_dir(path.parent().unwrap()).unwrap();
    fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
    (folder, program)
}

fn error(script: &str) -> String {
    let (folder, program) = folder(script);
    Runner::start(folder.path(), program).map(drop).unwrap_err().to_string()
}

/// A message as a shell command that sends it on the socket.
fn send(message: &FromRunner) -> String {
    let mut frame = Vec::new();
    wire::send(&mut frame, message).unwrap();
    let octal: String = frame.iter().map(|byte| format!("\\{byte:03o}")).collect();
    format!("printf '{octal}' >&0")
}

#[test]
fn a_program_of_another_release_is_refused_in_one_line() {
    let mut theirs = Version::own();
    theirs.release = "9.8.7".into();
    let text = error(&format!("{}; sleep 600", send(&FromRunner::Hello(theirs))));
    assert!(text.contains("was built with engine 9.8.7") && text.contains("build it with the cluster's"), "{text}");
    assert!(!text.contains('\n'), "{text}");
}

#[test]
fn a_program_that_is_no_task_runner_is_refused_with_what_it_printed() {
    let text = error("echo unexpected argument >&2; exit 3");
    assert!(text.contains("ended with exit status 3") && text.ends_with("unexpected argument"), "{text}");
    assert!(error("printf 'xxxxyyyyzzzzzzzz' >&0; sleep 600").contains("does not answer as a Giveway program"));
    let progress = FromRunner::Progress { ticks: 1, progress_ppm: 1 };
    assert!(error(&format!("{}; sleep 600", send(&progress))).contains("its first message is another one"));
}

#[test]
fn a_file_that_cannot_be_executed_is_an_error_with_a_remedy() {
    let (folder, program) = folder("exit 0");
    let path = ProgramStore::path(folder.path(), program);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    let error = Runner::start(folder.path(), program).map(drop).unwrap_err();
    assert!(error.is_permanent() && error.to_string().contains("mode 0700"), "{error}");
    fs::remove_file(&path).unwrap();
    let error = Runner::start(folder.path(), program).map(drop).unwrap_err();
    assert!(error.is_permanent() && error.to_string().contains("submit the job again"), "{error}");
}

/// What is printed before a message is received before it, and children of the process end with it.
#[test]
fn a_runner_is_read_in_order_and_killed_with_its_children() {
    let ended = FromRunner::OutputLost { map: giveway_core::AttemptId::new(JobId(1), giveway_core::Kind::Map, 0, 0) };
    let hello = send(&FromRunner::Hello(Version::own()));
    let script = format!("{hello}; head -c 1 >/dev/null; sleep 600 & echo $!; {}; wait", send(&ended));
    let (folder, program) = folder(&script);
    let mut runner = Runner::start(folder.path(), program).unwrap();
    runner.send(&ToRunner::CloseJob { job: JobId(1) }).unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    let mut printed = Vec::new();
    loop {
        match runner.receive(deadline).unwrap() {
            Received::Printed(bytes) => printed.extend(bytes),
            Received::Message(FromRunner::OutputLost { .. }) => break,
            other => panic!("{other:?}"),
        }
    }
    let child: u32 = String::from_utf8(printed).unwrap().trim().parse().unwrap();
    drop(runner);
    let stat = format!("/proc/{child}/stat");
    while fs::read_to_string(&stat).is_ok_and(|stat| !stat.contains(") Z ")) {
        thread::yield_now();
    }
}
