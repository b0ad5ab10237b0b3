//! Logs: to standard error, at the level `TROUPE_LOG` names (default `warn` and our own `info`).

use tracing_subscriber::EnvFilter;

/// Crates that would log content.
const QUIET: &str = "eventsource_client=error,hyper=info,reqwest=info,sqlx=warn,actix_http=info";

/// Starts logging.
pub fn start(level: &str) {
    let wanted = std::env::var("TROUPE_LOG").unwrap_or_else(|_| level.to_owned());
    let filter = EnvFilter::try_new(format!("{wanted},{QUIET}")).unwrap_or_else(|_| EnvFilter::new(level));
    // A second start in one process, in tests, changes nothing.
    let _ = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(false).try_init();
}
