//! Room for many small pieces of bytes, made in chunks so that growing never moves or doubles what is there.

/// A piece's address fits in 32 bits: twelve for the chunk, twenty for the place in it.
const CHUNK_BYTES_MAX: usize = 1 << PLACE_BITS;
const PLACE_BITS: u32 = 20;
const CHUNKS_MAX: usize = 1 << (32 - PLACE_BITS);

/// Bytes in chunks. A piece lies in one chunk as a whole; one that is larger than a chunk has a chunk to itself.
#[derive(Debug)]
pub(super) struct Arena {
    chunks: Vec<Vec<u8>>,
    chunk_bytes: usize,
    memory_bytes: usize,
}

impl Arena {
    /// An empty arena whose chunks are a small part of the memory it may take.
    pub fn new(memory_bytes: usize) -> Arena {
        let chunk_bytes = (memory_bytes / 32).next_power_of_two().clamp(1 << 10, CHUNK_BYTES_MAX);
        Arena { chunks: Vec::new(), chunk_bytes, memory_bytes: 0 }
    }

    /// The memory it takes.
    pub fn memory_bytes(&self) -> usize {
        self.memory_bytes
    }

    /// The memory it would take more of to hold a piece of so many bytes; nothing if it cannot hold more pieces.
    #[inline]
    pub fn growth_for(&self, bytes: usize) -> Option<usize> {
        match self.chunks.last() {
            Some(chunk) if room(chunk) >= bytes => Some(0),
            _ if self.chunks.len() < CHUNKS_MAX => Some(bytes.max(self.chunk_bytes)),
            _ => None,
        }
    }

    /// Makes a piece of so many bytes by appending to a chunk, and gives its address.
    #[inline]
    pub fn push(&mut self, bytes: usize, append: impl FnOnce(&mut Vec<u8>)) -> u32 {
        if self.chunks.last().is_none_or(|chunk| room(chunk) < bytes) {
            self.add_chunk(bytes);
        }
        let number = self.chunks.len() - 1;
        let chunk = &mut self.chunks[number];
        let address = (number as u32) << PLACE_BITS | chunk.len() as u32;
        append(chunk);
        address
    }

    /// The chunk a piece is in, and where it begins there.
    #[inline]
    pub fn at(&self, address: u32) -> (&[u8], usize) {
        let place = address as usize & (CHUNK_BYTES_MAX - 1);
        (&self.chunks[(address >> PLACE_BITS) as usize], place)
    }

    #[cold]
    fn add_chunk(&mut self, bytes: usize) {
        let bytes = bytes.max(self.chunk_bytes);
        self.memory_bytes += bytes;
        self.chunks.push(Vec::with_capacity(bytes));
    }
}

/// What still fits into a chunk at a place an address can name.
#[inline]
fn room(chunk: &Vec<u8>) -> usize {
    if chunk.len() < CHUNK_BYTES_MAX { chunk.capacity() - chunk.len() } else { 0 }
}
