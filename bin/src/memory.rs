//! How the system allocator is asked to behave.

/// Bytes above which a block is given back to the system as soon as it is free.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const LARGE: i32 = 256 * 1024;

/// Makes large blocks return to the system when they are freed. Left alone, glibc raises that limit to the size of what
/// was freed last: a few long answers then keep a hundred megabytes for good.
pub fn return_large_blocks() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: only sets a number of the allocator; called before any other thread is started.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE);
    }
}
