//! A hint to the processor that a place will be read soon.
//!
//! Summing and sorting are bound by the time memory takes to answer at random places, and both know those places well
//! ahead. The hint is an intrinsic on a raw pointer, hence the only `unsafe` of the data path. It is sound: the pointer
//! comes from a reference to an element that is there, and a prefetch neither faults nor changes what any program sees.

#![allow(unsafe_code)]

/// Asks for the cache line in which the element at `at` begins; does nothing if there is no such element.
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
