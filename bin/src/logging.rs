//! Logs: to standard error (of the terminal client: to a file), at the level `TROUPE_LOG` names (default `warn` and our own `info`).

use std::fs::File;
use std::path::Path;
use std::sync::Mutex;

use tracing_subscriber::EnvFilter;

/// Crates that would log content, or what is told better elsewhere.
const QUIET: &str = "aws_sigv4=info,eventsource_client=error,gcp_auth=error,hyper=info,reqwest=info,sqlx=warn,\
                     actix_http=info,rmcp=error,rmcp::transport::worker=off";

/// Starts logging.
pub fn start(level: &str) {
    // A second start in one process, in tests, changes nothing.
    let log = tracing_subscriber::fmt().with_env_filter(filter(level)).with_writer(std::io::stderr);
    let _ = log.with_ansi(false).try_init();
}

/// Starts logging into a file, which begins anew: for a command that has the terminal for itself. Without the file
/// there is no log.
pub fn start_in(file: &Path, level: &str) {
    let Some(directory) = file.parent() else { return };
    if let Ok(file) = storage::data_dir::make_private(directory).map(|()| File::create(file))
        && let Ok(file) = file
    {
        let log = tracing_subscriber::fmt().with_env_filter(filter(level)).with_writer(Mutex::new(file));
        let _ = log.with_ansi(false).try_init();
    }
}

fn filter(level: &str) -> EnvFilter {
    let wanted = std::env::var("TROUPE_LOG").unwrap_or_else(|_| level.to_owned());
    EnvFilter::try_new(format!("{wanted},{QUIET}")).unwrap_or_else(|_| EnvFilter::new(level))
}
