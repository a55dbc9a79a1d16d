//! The few words of RESP2 that the demo speaks, as any Redis client would.

use std::net::SocketAddr;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;

/// One connection.
pub(crate) struct Redis {
    stream: BufReader<TcpStream>,
}

fn written(commands: &[Vec<Vec<u8>>]) -> Vec<u8> {
    let mut out = Vec::new();
    for command in commands {
        out.extend_from_slice(format!("*{}\r\n", command.len()).as_bytes());
        for argument in command {
            out.extend_from_slice(format!("${}\r\n", argument.len()).as_bytes());
            out.extend_from_slice(argument);
            out.extend_from_slice(b"\r\n");
        }
    }
    out
}

impl Redis {
    pub(crate) async fn connect(address: SocketAddr) -> std::io::Result<Self> {
        Ok(Self { stream: BufReader::new(TcpStream::connect(address).await?) })
    }

    /// Sends commands at once and reads a reply to each: the text of a status, the bytes of a string, nothing for
    /// none.
    pub(crate) async fn pipeline(&mut self, commands: &[Vec<Vec<u8>>]) -> std::io::Result<Vec<Vec<u8>>> {
        self.stream.get_mut().write_all(&written(commands)).await?;
        let mut replies = Vec::with_capacity(commands.len());
        for _ in commands {
            replies.push(self.reply().await?);
        }
        Ok(replies)
    }

    async fn reply(&mut self) -> std::io::Result<Vec<u8>> {
        let line = self.line().await?;
        let wrong = || std::io::Error::new(std::io::ErrorKind::InvalidData, "not a reply");
        let Some(length) = line.strip_prefix(b"$") else { return Ok(line) };
        let length: i64 = std::str::from_utf8(length).ok().and_then(|t| t.parse().ok()).ok_or_else(wrong)?;
        let Ok(length) = usize::try_from(length) else { return Ok(Vec::new()) };
        let mut body = vec![0; length + 2];
        self.stream.read_exact(&mut body).await?;
        body.truncate(length);
        Ok(body)
    }

    async fn line(&mut self) -> std::io::Result<Vec<u8>> {
        let mut line = Vec::new();
        loop {
            match self.stream.read_u8().await? {
                b'\r' => {}
                b'\n' => return Ok(line),
                byte => line.push(byte),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::written;

    #[test]
    fn a_command_is_an_array_of_strings() {
        let out = written(&[vec![b"GET".to_vec(), b"k".to_vec()]]);
        assert_eq!(out, b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n");
    }
}
