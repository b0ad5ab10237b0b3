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
        if libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) == 0 {
            limit.rlim_cur = raised(limit.rlim_cur, limit.rlim_max);
            // Where it is refused, things stay as they are.
            libc::setrlimit(libc::RLIMIT_NOFILE, &limit);
        }
    }
}

/// Returns the soft limit there should be: never a lower one than there is.
#[cfg(unix)]
fn raised(soft: libc::rlim_t, hard: libc::rlim_t) -> libc::rlim_t {
    soft.max(hard.min(MOST))
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn the_limit_rises_to_what_is_useful_and_allowed_and_never_falls() {
        assert_eq!(raised(1024, libc::RLIM_INFINITY), MOST);
        assert_eq!(raised(1024, 4096), 4096);
        assert_eq!(raised(MOST * 4, libc::RLIM_INFINITY), MOST * 4);
        assert_eq!(raised(libc::RLIM_INFINITY, libc::RLIM_INFINITY), libc::RLIM_INFINITY);
    }

    #[test]
    fn the_process_gets_it() {
        let now = || {
            let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
            // SAFETY: it writes a struct of ours.
            assert_eq!(unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) }, 0);
            limit
        };
        let before = now();
        allow_more();
        assert_eq!(now().rlim_cur, raised(before.rlim_cur, before.rlim_max));
    }
}
