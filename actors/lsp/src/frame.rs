//! How messages are told apart on a pipe: `Content-Length: N`, an empty line, N bytes.

use std::io;

use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncReadExt};

/// The largest message that is taken, in bytes.
pub const MAX_MESSAGE: u64 = 32 * 1024 * 1024;
/// The largest one that is skipped; a server that claims more can't be followed.
const MAX_SKIPPED: u64 = 1024 * 1024 * 1024;
/// Bytes of a header line that are looked at.
const MAX_LINE: usize = 4 * 1024;
const LENGTH: &[u8] = b"content-length:";

/// What comes next.
#[derive(Debug, PartialEq, Eq)]
pub enum Frame {
    /// A message.
    Message(Vec<u8>),
    /// A message that was too large and was skipped: its bytes.
    TooLarge(u64),
}

/// Reads the next frame; none at the end. Lines that are no header are skipped: servers print things. Errors when the
/// pipe fails, ends within a message, or a length is out of all reason.
pub async fn read(from: &mut (impl AsyncBufRead + Unpin)) -> io::Result<Option<Frame>> {
    let mut length = None;
    loop {
        let Some(line) = read_line(from).await? else { return Ok(None) };
        if line.is_empty() {
            match length {
                Some(length) => return body(from, length).await.map(Some),
                None => continue,
            }
        }
        length = length_in(&line).or(length);
    }
}

/// Returns a message with its header.
pub fn framed(message: &[u8]) -> Vec<u8> {
    let mut frame = format!("Content-Length: {}\r\n\r\n", message.len()).into_bytes();
    frame.extend_from_slice(message);
    frame
}

async fn body(from: &mut (impl AsyncBufRead + Unpin), length: u64) -> io::Result<Frame> {
    if length > MAX_SKIPPED {
        return Err(io::Error::other(format!("a message of {length} bytes was announced")));
    }
    let mut from = from.take(length);
    if length > MAX_MESSAGE {
        let skipped = tokio::io::copy_buf(&mut from, &mut tokio::io::sink()).await?;
        return if skipped == length { Ok(Frame::TooLarge(length)) } else { Err(io::ErrorKind::UnexpectedEof.into()) };
    }
    // Grows with what comes, not with what is announced.
    let mut message = Vec::new();
    from.read_to_end(&mut message).await?;
    if message.len() as u64 == length { Ok(Frame::Message(message)) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}

/// Reads a line without its end; of a very long one, its last bytes. None at the end of the pipe.
async fn read_line(from: &mut (impl AsyncBufRead + Unpin)) -> io::Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    loop {
        let buffer = from.fill_buf().await?;
        if buffer.is_empty() {
            return Ok(None);
        }
        let end = memchr::memchr(b'\n', buffer);
        let used = end.map_or(buffer.len(), |end| end + 1);
        line.extend_from_slice(buffer.get(..end.unwrap_or(used)).unwrap_or_default());
        from.consume(used);
        if let Some(surplus) = line.len().checked_sub(MAX_LINE) {
            line.drain(..surplus);
        }
        if end.is_some() {
            if line.last() == Some(&b'\r') {
                line.pop();
            }
            return Ok(Some(line));
        }
    }
}

/// Returns the length a header line names, also where something was printed in front of it.
fn length_in(line: &[u8]) -> Option<u64> {
    let lower = line.to_ascii_lowercase();
    let at = memchr::memmem::rfind(&lower, LENGTH)? + LENGTH.len();
    std::str::from_utf8(line.get(at..)?).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use proptest::prelude::*;
    use tokio::io::BufReader;

    use super::*;

    async fn all(bytes: &[u8]) -> Vec<Result<Frame, io::ErrorKind>> {
        let mut reader = BufReader::with_capacity(7, bytes);
        let mut frames = Vec::new();
        loop {
            match read(&mut reader).await {
                Ok(Some(frame)) => frames.push(Ok(frame)),
                Ok(None) => return frames,
                Err(error) => {
                    frames.push(Err(error.kind()));
                    return frames;
                }
            }
        }
    }

    #[tokio::test]
    async fn messages_are_found_between_what_servers_print() {
        let mut bytes = b"starting up\r\n\r\n".to_vec();
        bytes.extend(framed(b"{}"));
        bytes.extend(b"a warning without end: Content-Type: x\r\ncontent-LENGTH:3\r\n\r\nabc");
        let message = |text: &[u8]| Ok(Frame::Message(text.to_vec()));
        assert_eq!(all(&bytes).await, [message(b"{}"), message(b"abc")]);
    }

    #[tokio::test]
    async fn a_message_that_ends_early_or_is_out_of_reason_is_an_error() {
        assert_eq!(all(b"Content-Length: 5\r\n\r\nabc").await, [Err(io::ErrorKind::UnexpectedEof)]);
        assert_eq!(all(b"Content-Length: 99999999999\r\n\r\nabc").await, [Err(io::ErrorKind::Other)]);
        assert_eq!(all(b"Content-Length: -1\r\n\r\nabc").await, []);
    }

    #[tokio::test]
    async fn a_message_that_is_too_large_is_skipped() {
        let length = MAX_MESSAGE + 1;
        let mut bytes = format!("Content-Length: {length}\r\n\r\n").into_bytes();
        bytes.resize(bytes.len() + length as usize, b'x');
        bytes.extend(framed(b"next"));
        let mut reader = BufReader::new(&*bytes);
        assert_eq!(read(&mut reader).await.unwrap(), Some(Frame::TooLarge(length)));
        assert_eq!(read(&mut reader).await.unwrap(), Some(Frame::Message(b"next".to_vec())));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_to_an_end(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            runtime.block_on(all(&bytes));
        }

        #[test]
        fn what_is_framed_is_read(messages in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..50), 0..5)) {
            let bytes: Vec<u8> = messages.iter().flat_map(|message| framed(message)).collect();
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            let read = runtime.block_on(all(&bytes));
            prop_assert_eq!(read, messages.into_iter().map(|m| Ok(Frame::Message(m))).collect::<Vec<_>>());
        }
    }
}
