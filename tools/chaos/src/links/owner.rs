//! Which process a connection of this machine belongs to.

use std::fs;

/// Which of these processes holds the TCP socket whose own port is `port` and whose peer's is `peer`.
#[must_use]
pub fn owner(port: u16, peer: u16, processes: &[(usize, u32)]) -> Option<usize> {
    let table = fs::read_to_string("/proc/net/tcp").ok()?;
    let inode = table.lines().find_map(|line| inode_of(line, port, peer))?;
    let socket = format!("socket:[{inode}]");
    let holds = |pid: &u32| {
        let open = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        open.filter_map(|entry| fs::read_link(entry.path()).ok())
            .any(|target| target.as_os_str() == socket.as_str())
    };
    processes.iter().find(|(_, pid)| holds(pid)).map(|(member, _)| *member)
}

/// The inode of the line of the socket table that describes this connection.
fn inode_of(line: &str, port: u16, peer: u16) -> Option<&str> {
    let mut fields = line.split_whitespace().skip(1);
    let (_, local) = fields.next()?.rsplit_once(':')?;
    let (_, remote) = fields.next()?.rsplit_once(':')?;
    let inode = fields.nth(6)?;
    let is = |text: &str, port: u16| u16::from_str_radix(text, 16) == Ok(port);
    (is(local, port) && is(remote, peer)).then_some(inode)
}
