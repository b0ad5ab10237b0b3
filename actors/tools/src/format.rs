//! Formatters: programs that put a file into shape after a tool has written it.
//!
//! Off unless config says otherwise, as in OpenCode: `formatter: true` switches the known ones on ([`known`]), an
//! object does too and changes or adds some (`{"NAME": {"disabled", "command", "extensions", "environment"}}`). A
//! known one runs when its program is there and its project asks for it. All that fit a file run, one after the other.
//!
//! They run while the file's lock is held, so that no edit of another session falls between what a formatter read and
//! what it writes. One that fails, or takes too long, leaves the edit as it is.

mod known;

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use protocol::config::Config;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tokio::io::AsyncReadExt;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::context::{Effects, Place, ToolContext};
use crate::edit::MAX_FILE;
use crate::error::ToolError;
use crate::files::ContentHash;
use crate::files::load::load;
use crate::files::write::write_atomic;
use crate::path::Located;
use crate::process::{Child, Spec};
use known::{KNOWN, Known};

/// How long one formatter may take.
const TIME: Duration = Duration::from_secs(30);
/// How long it has to end once it is told to.
const GRACE: Duration = Duration::from_millis(200);
/// Bytes kept of what a formatter says, for the log.
const SAID: usize = 2 * 1024;
/// Stands for the file in a formatter's arguments.
const FILE: &str = "$FILE";
/// UTF-8's byte order mark.
const MARK: &[u8] = "\u{FEFF}".as_bytes();

/// What config says of one formatter.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Own {
    disabled: bool,
    command: Option<Vec<String>>,
    extensions: Option<Vec<String>>,
    environment: Map<String, Value>,
}

/// A formatter that is switched on.
#[derive(Clone, Debug)]
struct Formatter {
    name: String,
    /// With their dots.
    extensions: Vec<String>,
    environment: Vec<(String, String)>,
    run: Run,
}

/// What a formatter runs.
#[derive(Clone, Debug)]
enum Run {
    /// What config says.
    Own(Vec<String>),
    /// What its entry says, if its project asks for it.
    Known(&'static Known),
}

/// A formatter as `GET /formatter` lists it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FormatterStatus {
    /// Its name.
    pub name: String,
    /// The files it is for, by the ends of their names, dots included.
    pub extensions: Vec<String>,
    /// Whether it would run.
    pub enabled: bool,
}

/// Returns the formatters that config switches on. Blocks: looks for their programs.
pub fn status(place: &Place) -> Vec<FormatterStatus> {
    let shown = |formatter: Formatter| FormatterStatus {
        enabled: formatter.command(place).is_some(),
        name: formatter.name,
        extensions: formatter.extensions,
    };
    switched_on(&place.config).into_iter().map(shown).collect()
}

/// What became of a file that was written.
#[derive(Debug)]
pub(crate) struct Formatted {
    /// What it holds now.
    pub(crate) bytes: Vec<u8>,
    /// Who changed it.
    pub(crate) by: Vec<String>,
}

impl Formatted {
    /// Returns what the model is to know: its next quotes must be of the new text.
    pub(crate) fn note(&self) -> String {
        match self.by.as_slice() {
            [] => String::new(),
            by => format!("\n\nThen {} formatted the file; read it again before you quote it.", by.join(" and ")),
        }
    }
}

/// Runs the formatters of a file that was just written, and returns what it holds then. Blocks; call it under the
/// file's lock. Errors only when the file can't be read afterwards.
pub(crate) fn formatted(
    cx: &ToolContext,
    effects: &Effects,
    located: &Located,
    written: Vec<u8>,
    cancel: &CancellationToken,
) -> Result<Formatted, ToolError> {
    let name = located.real.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let all = switched_on(&cx.place.config);
    let fitting = all.into_iter().filter(|formatter| formatter.extensions.iter().any(|end| name.ends_with(&**end)));
    let mut formatted = Formatted { bytes: written, by: Vec::new() };
    for formatter in fitting {
        let Some(command) = formatter.command(&cx.place) else { continue };
        if cancel.is_cancelled() {
            break;
        }
        let run = run(cx, effects, &formatter, command, &located.real, cancel);
        tokio::runtime::Handle::current().block_on(run);
        let bytes = after(located, effects, &formatted.bytes)?;
        if ContentHash::of(&bytes) != ContentHash::of(&formatted.bytes) {
            formatted.bytes = bytes;
            formatted.by.push(formatter.name);
        }
    }
    Ok(formatted)
}

/// Returns what a formatter has left, with the byte order mark that it may have dropped. What happened is to be known
/// also of a call that was aborted meanwhile.
fn after(located: &Located, effects: &Effects, before: &[u8]) -> Result<Vec<u8>, ToolError> {
    let never = CancellationToken::new();
    let loaded = load(&located.real, &located.shown, MAX_FILE, &never)?;
    let Some(loaded) = loaded else {
        let shown = located.shown.display();
        return Err(ToolError::failed(format!("{shown} was written, and then removed by its formatter.")));
    };
    if before.starts_with(MARK) && !loaded.bytes.starts_with(MARK) {
        let bytes = [MARK, &loaded.bytes].concat();
        write_atomic(&located.real, &located.shown, &bytes, effects, &never)?;
        return Ok(bytes);
    }
    Ok(loaded.bytes)
}

fn switched_on(config: &Config) -> Vec<Formatter> {
    let own = match &config.formatter {
        Some(Value::Bool(true)) => Map::new(),
        Some(Value::Object(own)) => own.clone(),
        _ => return Vec::new(),
    };
    let own: Vec<(String, Own)> =
        own.into_iter().map(|(name, own)| (name, serde_json::from_value(own).unwrap_or_default())).collect();
    let of = |name: &str| own.iter().find(|(known, _)| known == name).map(|(_, own)| own.clone()).unwrap_or_default();
    // Both are the same program's work, so whoever switches one off means both.
    let no_ruff = of("ruff").disabled || of("uv").disabled;
    let is_off = |name: &str, own: &Own| own.disabled || no_ruff && matches!(name, "ruff" | "uv");
    let known = KNOWN.iter().map(|known| (of(known.name), known)).filter(|(own, known)| !is_off(known.name, own));
    let known = known.map(|(own, known)| {
        let ends = || known.extensions.iter().map(|&end| end.to_owned()).collect();
        let run = own.command.map_or(Run::Known(known), Run::Own);
        let (extensions, environment) = (own.extensions.unwrap_or_else(ends), variables(own.environment));
        Formatter { name: known.name.to_owned(), extensions, environment, run }
    });
    let is_new = |name: &str| KNOWN.iter().all(|known| known.name != name);
    let new = own.iter().filter(|(name, own)| is_new(name) && !is_off(name, own)).map(|(name, own)| Formatter {
        name: name.clone(),
        extensions: own.extensions.clone().unwrap_or_default(),
        environment: variables(own.environment.clone()),
        run: Run::Own(own.command.clone().unwrap_or_default()),
    });
    known.chain(new).collect()
}

fn variables(own: Map<String, Value>) -> Vec<(String, String)> {
    let text = |value: Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    own.into_iter().map(|(name, value)| (name, text(value))).collect()
}

impl Formatter {
    /// Returns what to run; none where it can't, or its project doesn't ask for it.
    fn command(&self, place: &Place) -> Option<Vec<String>> {
        let command = match &self.run {
            Run::Own(command) => command.clone(),
            Run::Known(known) => known.command(place)?,
        };
        (!command.is_empty()).then_some(command)
    }
}

/// Runs a formatter to its end.
async fn run(
    cx: &ToolContext,
    effects: &Effects,
    formatter: &Formatter,
    command: Vec<String>,
    file: &Path,
    cancel: &CancellationToken,
) {
    let mut words = command.iter().map(|word| match word.split_once(FILE) {
        Some((before, after)) => [before.as_ref(), file.as_os_str(), after.as_ref()].concat_os(),
        None => OsString::from(word),
    });
    let own = |(name, value): &(String, String)| (OsString::from(name), OsString::from(value));
    let spec = Spec {
        program: words.next().unwrap_or_default().into(),
        args: words.collect(),
        cwd: cx.place.directory.clone(),
        env: formatter.environment.iter().map(own).collect(),
        session: cx.session_id.clone(),
        call: format!("{}/{}/{}", cx.message_id, cx.call_id, formatter.name),
    };
    let mut child = match cx.processes.spawn(effects, spec) {
        Ok(child) => child,
        Err(error) => return tracing::warn!(formatter = formatter.name, %error, "a formatter could not be started"),
    };
    let group = child.group();
    cx.desk.process_started(group);
    let said = tokio::select! {
        said = timeout(TIME, ended(&mut child)) => said.unwrap_or_else(|_| Err("it took too long".into())),
        () = cancel.cancelled() => Err("the call was aborted".into()),
    };
    if !child.bury() {
        child.end(GRACE).await;
    }
    cx.desk.process_ended(group);
    if let Err(problem) = said {
        tracing::warn!(formatter = formatter.name, problem, file = %file.display(), "a formatter failed");
    }
}

/// Waits for a formatter's end; its last words where it failed.
async fn ended(child: &mut Child) -> Result<(), String> {
    let output = child.take_output();
    let mut said = Vec::new();
    let listen = async {
        if let Some(mut output) = output {
            let mut buffer = vec![0; 8 * 1024];
            while let Ok(read @ 1..) = output.read(&mut buffer).await {
                said.extend_from_slice(buffer.get(..read).unwrap_or_default());
                let surplus = said.len().saturating_sub(SAID);
                said.drain(..surplus);
            }
        }
        std::future::pending::<()>().await;
    };
    let status = tokio::select! {
        status = child.exited() => status,
        () = listen => return Ok(()),
    };
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{status}: {}", String::from_utf8_lossy(&said).trim())),
        Err(error) => Err(error.to_string()),
    }
}

/// Joins pieces of paths.
trait ConcatOs {
    fn concat_os(&self) -> OsString;
}

impl ConcatOs for [&std::ffi::OsStr] {
    fn concat_os(&self) -> OsString {
        self.iter().fold(OsString::new(), |mut all, piece| {
            all.push(piece);
            all
        })
    }
}

#[cfg(test)]
mod tests;
