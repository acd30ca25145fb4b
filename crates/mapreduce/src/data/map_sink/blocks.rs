//! Blocks of memory of any size, which are written after they are allocated. All are freed together.

/// Smaller blocks share chunks of at most this size; a larger block has a chunk of its own.
const CHUNK_BYTES_MAX: usize = 1 << 20;

/// Blocks, allocated in chunks so that growing never moves existing data.
#[derive(Debug)]
pub(super) struct Blocks {
    chunks: Vec<Vec<u8>>,
    chunk_bytes: usize,
    memory_bytes: usize,
}

/// Where a block is.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct BlockAt {
    chunk: u32,
    offset: u32,
}

impl Blocks {
    /// No blocks. Chunks are a small fraction (about 1/32) of the memory budget.
    pub fn new(memory_bytes_max: usize) -> Blocks {
        let chunk_bytes = (memory_bytes_max / 32).next_power_of_two().clamp(1 << 10, CHUNK_BYTES_MAX);
        Blocks { chunks: Vec::new(), chunk_bytes, memory_bytes: 0 }
    }

    /// Allocated memory.
    pub fn memory_bytes(&self) -> usize {
        self.memory_bytes
    }

    /// Additional memory needed to allocate a block.
    pub fn growth_for(&self, bytes: usize) -> usize {
        match self.chunks.last() {
            Some(chunk) if chunk.capacity() - chunk.len() >= bytes => 0,
            _ => bytes.max(self.chunk_bytes),
        }
    }

    /// Allocates a block of zeros.
    pub fn allocate(&mut self, bytes: usize) -> BlockAt {
        let growth = self.growth_for(bytes);
        if growth > 0 {
            self.memory_bytes += growth;
            self.chunks.push(Vec::with_capacity(growth));
        }
        let number = self.chunks.len() - 1;
        let chunk = &mut self.chunks[number];
        // A block begins in the first 4 GiB of its chunk: chunks are smaller, except for those of a single block.
        let at = BlockAt { chunk: number as u32, offset: chunk.len() as u32 };
        chunk.resize(chunk.len() + bytes, 0);
        at
    }

    /// The block at this place, and everything after it in its chunk.
    #[inline]
    pub fn bytes(&self, at: BlockAt) -> &[u8] {
        &self.chunks[at.chunk as usize][at.offset as usize..]
    }

    /// Like [`Blocks::bytes`], for writing.
    #[inline]
    pub fn bytes_mut(&mut self, at: BlockAt) -> &mut [u8] {
        &mut self.chunks[at.chunk as usize][at.offset as usize..]
    }
}
