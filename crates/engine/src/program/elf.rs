//! Tells from its first bytes whether a file can be executed here, for an error that says what is wrong before it is tried.

use std::fs::File;
use std::io::Read;

/// Length of what is read of the header.
pub(super) const HEADER_BYTES: usize = 20;

/// Types of files that can be executed: at a fixed address, and position-independent.
const EXECUTABLE_TYPES: [u16; 2] = [2, 3];

/// What the header of an ELF file says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Header {
    /// Word size and byte order.
    class: [u8; 2],
    kind: u16,
    machine: u16,
}

fn parse(bytes: &[u8]) -> Option<Header> {
    let bytes: [u8; HEADER_BYTES] = bytes.get(..HEADER_BYTES)?.try_into().ok()?;
    if !bytes.starts_with(b"\x7fELF") {
        return None;
    }
    let [.., t0, t1, m0, m1] = bytes;
    let number = |pair: [u8; 2]| if bytes[5] == 2 { u16::from_be_bytes(pair) } else { u16::from_le_bytes(pair) };
    Some(Header { class: [bytes[4], bytes[5]], kind: number([t0, t1]), machine: number([m0, m1]) })
}

/// Checks the beginning of a program against that of this process's own executable. The error says what is wrong.
pub(super) fn check(first_bytes: &[u8]) -> Result<(), String> {
    let mut own = [0; HEADER_BYTES];
    let read = File::open("/proc/self/exe").and_then(|mut file| file.read_exact(&mut own));
    // Where programs have another format, the attempt to execute it tells.
    let Some(own) = read.ok().and_then(|()| parse(&own)) else { return Ok(()) };
    compare(first_bytes, own)
}

fn compare(first_bytes: &[u8], own: Header) -> Result<(), String> {
    let Some(header) = parse(first_bytes) else {
        return Err("it is not an executable (no ELF header); give the program that `cargo build` made".into());
    };
    if (header.class, header.machine) != (own.class, own.machine) {
        let (theirs, ours) = (machine_name(header.machine), machine_name(own.machine));
        return Err(format!("it was built for {theirs}, and this cluster runs on {ours}; build it for this machine"));
    }
    if !EXECUTABLE_TYPES.contains(&header.kind) {
        return Err("it is an object file or a core dump, not an executable; give the linked program".into());
    }
    Ok(())
}

fn machine_name(machine: u16) -> String {
    match machine {
        3 => "x86 (32 bits)".into(),
        40 => "ARM (32 bits)".into(),
        62 => "x86-64".into(),
        183 => "aarch64".into(),
        243 => "RISC-V".into(),
        other => format!("another machine (ELF machine {other})"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: Header = Header { class: [2, 1], kind: 3, machine: 62 };

    fn header(machine: u8, kind: u8) -> Vec<u8> {
        let mut bytes = b"\x7fELF\x02\x01\x01".to_vec();
        bytes.resize(16, 0);
        bytes.extend([kind, 0, machine, 0, 1, 0]);
        bytes
    }

    #[test]
    fn programs_of_this_machine_pass_and_others_are_named() {
        assert_eq!(compare(&header(62, 3), OWN), Ok(()));
        assert_eq!(compare(&header(62, 2), OWN), Ok(()));
        assert!(compare(&header(183, 3), OWN).unwrap_err().contains("built for aarch64"));
        assert!(compare(&header(62, 1), OWN).unwrap_err().contains("object file"));
        for other in [&b""[..], b"#!/bin/sh\necho hello there\n", b"\x7fELF"] {
            assert!(compare(other, OWN).unwrap_err().contains("not an executable"), "{other:?}");
        }
        // The other byte order: the same machine is another one.
        let mut big_endian = header(0, 0);
        big_endian[5] = 2;
        big_endian[16..20].copy_from_slice(&[0, 3, 0, 62]);
        assert!(compare(&big_endian, OWN).is_err());
    }
}
