//! Prefetch hints to the processor.
//!
//! Summing and sorting are bound by the latency of random memory accesses, and both know the addresses well in advance.
//! The hint is an intrinsic on a raw pointer, hence the `unsafe`. It is sound: the pointer comes
//! from a reference to an existing element, and a prefetch neither faults nor changes any observable state.

#![allow(unsafe_code)]

/// Prefetches the cache line that contains the start of element `at`. Does nothing if there is no such element.
#[inline]
pub(super) fn prefetch<T>(slice: &[T], at: usize) {
    #[cfg(target_arch = "x86_64")]
    if let Some(element) = slice.get(at) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: every x86-64 processor has the instruction, and it accepts any address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(element).cast()) }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (slice, at);
}
