//! Reads whole files, up to a size.

use std::io::Read;
use std::path::Path;

use tokio_util::sync::CancellationToken;

use crate::error::ToolError;
use crate::files::ContentHash;
use crate::files::open::open_regular;

/// How much is read between two looks at the cancellation, in bytes.
pub(crate) const CHUNK: usize = 256 * 1024;

/// A file's whole content.
#[derive(Clone, Debug)]
pub(crate) struct Loaded {
    pub(crate) bytes: Vec<u8>,
    pub(crate) hash: ContentHash,
}

/// Returns a regular file's content; none when there is no file. Errors when it is larger than `limit` bytes.
pub(crate) fn load(
    real: &Path,
    shown: &Path,
    limit: usize,
    cancel: &CancellationToken,
) -> Result<Option<Loaded>, ToolError> {
    let Some((file, metadata)) = open_regular(real, shown)? else { return Ok(None) };
    let too_large = || {
        ToolError::failed(format!(
            "{} is larger than {} MB, too large for this tool. Use a command for it.",
            shown.display(),
            limit / 1024 / 1024
        ))
    };
    let expected = usize::try_from(metadata.len()).unwrap_or(usize::MAX);
    if expected > limit {
        return Err(too_large());
    }
    let mut bytes = Vec::with_capacity(expected.saturating_add(1));
    // The size is a promise nobody keeps (it may grow, and kernel files say 0), so the limit holds here again.
    loop {
        if cancel.is_cancelled() {
            return Err(ToolError::Aborted);
        }
        let more = (&file).take(CHUNK as u64).read_to_end(&mut bytes).map_err(ToolError::io("reading", shown))?;
        if bytes.len() > limit {
            return Err(too_large());
        }
        if more < CHUNK {
            let hash = ContentHash::of(&bytes);
            return Ok(Some(Loaded { bytes, hash }));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_whole_or_not_at_all() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().canonicalize().unwrap().join("f");
        let content = vec![b'x'; CHUNK * 2 + 5];
        std::fs::write(&path, &content).unwrap();
        let cancel = CancellationToken::new();
        let loaded = load(&path, &path, content.len(), &cancel).unwrap().unwrap();
        assert_eq!((loaded.bytes.len(), loaded.hash), (content.len(), ContentHash::of(&content)));
        assert!(load(&path, &path, content.len() - 1, &cancel).unwrap_err().to_string().contains("too large"));
        assert!(load(&path.with_extension("no"), &path, 1, &cancel).unwrap().is_none());
        cancel.cancel();
        assert!(matches!(load(&path, &path, content.len(), &cancel), Err(ToolError::Aborted)));
    }

    #[test]
    fn a_kernel_file_without_a_size_is_read_too() {
        let path = Path::new("/proc/self/status");
        if path.exists() {
            let real = crate::path::real_path(path).unwrap();
            assert!(!load(&real, path, 1 << 20, &CancellationToken::new()).unwrap().unwrap().bytes.is_empty());
        }
    }
}
