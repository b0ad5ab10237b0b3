//! How many files and connections the process may have open.

/// More would only slow down programs that we start and that close all they might have inherited.
#[cfg(unix)]
const MOST: libc::rlim_t = 16 * 1024;

/// Raises the soft limit, often 1,024, towards what the system allows: a thousand clients, or a few hundred sessions
/// with a model's stream and child processes each, need more.
pub fn allow_more() {
    #[cfg(unix)]
    // SAFETY: both only read and write a struct of ours; called before any other thread is started.
    unsafe {
        let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        if libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) == 0 && limit.rlim_cur < MOST {
            // Where it is refused, things stay as they are.
            limit.rlim_cur = limit.rlim_max.min(MOST);
            libc::setrlimit(libc::RLIMIT_NOFILE, &limit);
        }
    }
}
