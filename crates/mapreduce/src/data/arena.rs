//! Storage for many small byte strings, allocated in chunks so that growing never moves existing data.

/// The address of a byte string has 32 bits: twelve for the chunk, twenty for the offset in it.
const CHUNK_BYTES_MAX: usize = 1 << OFFSET_BITS;
const OFFSET_BITS: u32 = 20;
const CHUNKS_MAX: usize = 1 << (32 - OFFSET_BITS);

/// Byte strings in chunks. Each one is contiguous within a chunk; one that is larger than a chunk has its own.
#[derive(Debug)]
pub(super) struct Arena {
    chunks: Vec<Vec<u8>>,
    chunk_bytes: usize,
    memory_bytes: usize,
}

impl Arena {
    /// An empty arena whose chunks are a small fraction (about 1/32) of its memory budget.
    pub fn new(memory_bytes: usize) -> Arena {
        let chunk_bytes = (memory_bytes / 32).next_power_of_two().clamp(1 << 10, CHUNK_BYTES_MAX);
        Arena { chunks: Vec::new(), chunk_bytes, memory_bytes: 0 }
    }

    /// Allocated memory.
    pub fn memory_bytes(&self) -> usize {
        self.memory_bytes
    }

    /// Additional memory needed to store `bytes` more bytes; `None` if all addresses are used.
    #[inline]
    pub fn growth_for(&self, bytes: usize) -> Option<usize> {
        match self.chunks.last() {
            Some(chunk) if free_bytes(chunk) >= bytes => Some(0),
            _ if self.chunks.len() < CHUNKS_MAX => Some(bytes.max(self.chunk_bytes)),
            _ => None,
        }
    }

    /// Stores a byte string and returns its address. `append` must append exactly `bytes` bytes to the given chunk.
    #[inline]
    pub fn push(&mut self, bytes: usize, append: impl FnOnce(&mut Vec<u8>)) -> u32 {
        if self.chunks.last().is_none_or(|chunk| free_bytes(chunk) < bytes) {
            self.add_chunk(bytes);
        }
        let number = self.chunks.len() - 1;
        let chunk = &mut self.chunks[number];
        let address = (number as u32) << OFFSET_BITS | chunk.len() as u32;
        append(chunk);
        address
    }

    /// The chunk that contains a byte string, and the string's offset in it.
    #[inline]
    pub fn at(&self, address: u32) -> (&[u8], usize) {
        let offset = address as usize & (CHUNK_BYTES_MAX - 1);
        (&self.chunks[(address >> OFFSET_BITS) as usize], offset)
    }

    #[cold]
    fn add_chunk(&mut self, bytes: usize) {
        let bytes = bytes.max(self.chunk_bytes);
        self.memory_bytes += bytes;
        self.chunks.push(Vec::with_capacity(bytes));
    }
}

/// Free capacity of a chunk; 0 if its end is beyond the largest addressable offset.
#[inline]
fn free_bytes(chunk: &Vec<u8>) -> usize {
    if chunk.len() < CHUNK_BYTES_MAX { chunk.capacity() - chunk.len() } else { 0 }
}
