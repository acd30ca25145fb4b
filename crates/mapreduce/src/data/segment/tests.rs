//! Round trips of records, and detection of every corruption.

use super::*;
use proptest::collection::vec;
use proptest::prelude::*;
use std::io::Write as _;

type Records = Vec<(Vec<u8>, Vec<u8>)>;

fn write(records: &[(Vec<u8>, Vec<u8>)], compression: Compression) -> (Vec<u8>, SegmentInfo) {
    let mut writer = SegmentWriter::new(Vec::new(), compression);
    for (key, value) in records {
        writer.push(key, value).expect("writes to memory");
    }
    let (bytes, info) = writer.finish().expect("writes to memory");
    assert_eq!(info.stored_bytes, bytes.len() as u64);
    assert_eq!(info.records, records.len() as u64);
    (bytes, info)
}

fn read(source: Source) -> Result<Records, SegmentError> {
    read_on(SegmentReader::open(source)?)
}

fn read_on(mut reader: SegmentReader) -> Result<Records, SegmentError> {
    let mut records = Vec::new();
    while !reader.is_done() {
        records.push((reader.key().to_vec(), reader.value().to_vec()));
        reader.advance()?;
    }
    assert!(reader.position().is_end());
    reader.advance()?;
    assert!(reader.is_done() && reader.key().is_empty() && reader.value().is_empty());
    Ok(records)
}

#[test]
fn the_remaining_bytes_decrease_with_every_record_down_to_zero() {
    // A single block, and many.
    let few: Records = (0..100_u32).map(|n| (n.to_string().into_bytes(), vec![b'v'; 20])).collect();
    for records in [few, many_records(true), many_records(false)] {
        let (bytes, info) = write(&records, Compression::Auto);
        let mut reader = SegmentReader::open(Source::from(bytes)).unwrap();
        assert_eq!(reader.remaining_bytes(), info.stored_bytes);
        let mut last = u64::MAX;
        let mut decreases = 0;
        while !reader.is_done() {
            assert!(reader.remaining_bytes() <= last);
            decreases += usize::from(reader.remaining_bytes() < last);
            last = reader.remaining_bytes();
            reader.advance().unwrap();
        }
        assert_eq!(reader.remaining_bytes(), 0);
        // Many records of a compressed block may share a stored byte.
        assert!(decreases > records.len() / 2, "{decreases} of {}", records.len());
    }
}

/// Records, compressible or not, a few of them larger than a block.
fn many_records(compressible: bool) -> Records {
    let mut state = 1_u64;
    let mut noise = move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        if compressible { b'x' } else { (state >> 56) as u8 }
    };
    let mut records: Records = (0..3000_usize)
        .map(|n| {
            let value_bytes = if n % 1000 == 7 { 3 * BLOCK_BYTES } else { n % 150 };
            (n.to_string().into_bytes(), (0..value_bytes).map(|_| noise()).collect())
        })
        .collect();
    records.push((vec![b'k'; 200], Vec::new()));
    records.push((Vec::new(), Vec::new()));
    records
}

#[test]
fn records_round_trip_in_memory_and_in_a_file() {
    for compression in [Compression::Lz4, Compression::Auto, Compression::None] {
        for compressible in [false, true] {
            let records = many_records(compressible);
            let (bytes, info) = write(&records, compression);
            let is_smaller = info.stored_bytes < info.raw_bytes / 2;
            assert_eq!(is_smaller, compressible && compression != Compression::None, "{compression:?} {info:?}");

            let mut file = tempfile::tempfile().expect("a temporary file");
            file.write_all(b"before").and_then(|()| file.write_all(&bytes)).expect("writes");
            file.write_all(b"after").expect("writes");
            let file = Source::File { file: Arc::new(file), offset: 6, bytes: info.stored_bytes };
            assert_eq!(read(file).expect("valid"), records);
            assert_eq!(read(bytes.into()).expect("valid"), records);
        }
    }
}

#[test]
fn an_empty_segment_is_zero_bytes() {
    let (bytes, info) = write(&[], Compression::Auto);
    assert!(bytes.is_empty());
    assert_eq!(info, SegmentInfo::default());
    assert!(read(bytes.into()).expect("valid").is_empty());
}

#[test]
fn a_reader_opens_at_the_position_of_another() {
    let records = many_records(true);
    let (bytes, _) = write(&records, Compression::Lz4);
    let source = Source::from(bytes);
    let mut reader = SegmentReader::open(source.clone()).expect("valid");
    for (n, record) in records.iter().enumerate() {
        if n % 37 == 0 || record.1.len() > BLOCK_BYTES {
            let again = SegmentReader::open_at(source.clone(), reader.position()).expect("valid");
            assert_eq!((again.key(), again.value()), (record.0.as_slice(), record.1.as_slice()));
            assert_eq!(again.position(), reader.position());
        }
        reader.advance().expect("valid");
    }
    assert!(SegmentReader::open_at(source, reader.position()).expect("valid").is_done());
}

#[test]
fn invalid_positions_are_rejected() {
    let (bytes, _) = write(&many_records(true), Compression::None);
    let source = Source::from(bytes);
    for (block, record) in [(1, 0), (0, u32::MAX), (source.bytes(), 0), (u64::MAX - 1, 0), (u64::MAX, 1)] {
        let opened = SegmentReader::open_at(source.clone(), Position { block, record });
        assert!(matches!(opened, Err(SegmentError::Corrupt { .. })), "{block} {record}");
    }
}

/// A segment of several blocks, small enough to try every byte.
fn few_blocks() -> (Records, Vec<u8>) {
    let records: Records = (0..40_u8).map(|n| (vec![n; 3], vec![n; usize::from(n)])).collect();
    let mut bytes = Vec::new();
    for (n, part) in records.chunks(10).enumerate() {
        // Blocks of ten records instead of 64 KiB, all but the last marked as not the last.
        let mut writer = SegmentWriter::new(Vec::new(), if n % 2 == 0 { Compression::Lz4 } else { Compression::None });
        for (key, value) in part {
            writer.push(key, value).expect("writes to memory");
        }
        writer.write_block(n == 3).expect("writes to memory");
        bytes.extend_from_slice(&writer.out);
    }
    (records, bytes)
}

#[test]
fn corruption_of_any_byte_is_detected() {
    let (records, bytes) = few_blocks();
    assert_eq!(read(bytes.clone().into()).expect("valid"), records);
    for at in 0..bytes.len() {
        for flip in [1, 0x80, 0xff] {
            let mut corrupt = bytes.clone();
            corrupt[at] ^= flip;
            assert!(matches!(read(corrupt.into()), Err(SegmentError::Corrupt { .. })), "byte {at} ^ {flip:#x}");
        }
    }
    for length in 1..bytes.len() {
        let cut = bytes[..length].to_vec();
        assert!(matches!(read(cut.into()), Err(SegmentError::Corrupt { .. })), "truncated to {length}");
    }
    let mut longer = bytes.clone();
    longer.push(0);
    assert!(matches!(read(longer.into()), Err(SegmentError::Corrupt { .. })));
}

#[test]
fn a_truncated_file_is_corrupt() {
    let (_, bytes) = few_blocks();
    let mut file = tempfile::tempfile().expect("a temporary file");
    file.write_all(&bytes[..bytes.len() - 1]).expect("writes");
    let source = Source::File { file: Arc::new(file), offset: 0, bytes: bytes.len() as u64 };
    assert!(matches!(read(source), Err(SegmentError::Corrupt { .. })));
}

/// A block with arbitrary lengths and a matching checksum.
fn forged(codec: u8, stored: &[u8], stored_bytes: u32, raw_bytes: u32) -> Vec<u8> {
    let mut bytes = header(codec, true, stored, raw_bytes as usize).to_vec();
    bytes[4..8].copy_from_slice(&stored_bytes.to_le_bytes());
    let crc = crc32c::crc32c_append(crc32c::crc32c(&bytes[..12]), stored);
    bytes[12..].copy_from_slice(&crc.to_le_bytes());
    bytes.extend_from_slice(stored);
    bytes
}

#[test]
fn forged_lengths_are_rejected() {
    let huge = u32::MAX;
    let cases: [(&[u8], u32, u32); 6] = [
        (b"", 0, 0),
        (b"\x01\x01ab", huge, huge),
        (b"\x01\x01ab", 4, huge),
        (b"\x01\x02ab", 4, 4),
        (b"\x81", 1, 1),
        (b"\xff\xff\xff\xff\xff\x01\x00", 7, 7),
    ];
    for (stored, stored_bytes, raw_bytes) in cases {
        for codec in [UNCOMPRESSED, LZ4, 2] {
            let bytes = forged(codec, stored, stored_bytes, raw_bytes);
            assert!(matches!(read(bytes.into()), Err(SegmentError::Corrupt { .. })), "{codec} {stored:?}");
        }
    }
}

proptest! {
    #[test]
    fn any_records_round_trip(records in vec((vec(any::<u8>(), 0..300), vec(any::<u8>(), 0..300)), 0..400)) {
        let (bytes, _) = write(&records, Compression::Auto);
        prop_assert_eq!(read(bytes.into()).expect("valid"), records);
    }

    #[test]
    fn any_bytes_are_read_without_panic(codec in 0_u8..3, content in vec(any::<u8>(), 0..200), raw_bytes in 0_u32..400) {
        let _ = read(content.clone().into());
        let _ = read(forged(codec, &content, content.len() as u32, raw_bytes).into());
        let _ = read(forged(UNCOMPRESSED, &content, content.len() as u32, content.len() as u32).into());
    }

    #[test]
    fn record_bytes_matches_the_encoding(key in 0_usize..40_000, value in 0_usize..40_000) {
        let (key, value) = (vec![0; key], vec![0; value]);
        let mut bytes = Vec::new();
        encode(&key, &value, &mut bytes);
        prop_assert_eq!(bytes.len(), record_bytes(&key, &value));
        let span = decode(&bytes, 0).expect("a record");
        prop_assert_eq!((span.value - span.key, span.end - span.value), (key.len(), value.len()));
    }
}

/// All blocks are looked at, and none is decompressed.
#[test]
fn a_segment_is_valid_only_as_a_whole() {
    let mut writer = SegmentWriter::new(Vec::new(), Compression::Auto);
    for number in 0..20_000_u32 {
        writer.push(&number.to_be_bytes(), b"some value").unwrap();
    }
    let bytes = writer.finish().unwrap().0;
    let is_valid = |bytes: &[u8]| Source::from(bytes.to_vec()).is_valid(|| true).unwrap();
    assert!(is_valid(&bytes));
    assert!(is_valid(&[]), "a segment without records is zero bytes");
    for at in (0..bytes.len()).step_by(bytes.len() / 200) {
        let mut corrupt = bytes.clone();
        corrupt[at] ^= 0x10;
        assert!(!is_valid(&corrupt), "byte {at} changed");
        assert!(at == 0 || !is_valid(&bytes[..at]), "truncated at {at}");
    }
    assert!(!is_valid(&[&bytes[..], &[0]].concat()));
    assert!(!is_valid(&[&bytes[..], &bytes].concat()), "two segments are not one");
}
