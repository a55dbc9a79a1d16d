//! The requests of the kernel, answered from the tree.

use super::change::Change;
use super::nodes::{Content, Directory, File, Meta};
use super::state::{Held, Operation, Shared, State};
use fuser::{
    BsdFileFlags, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo,
    LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory, ReplyEmpty,
    ReplyEntry, ReplyOpen, ReplyStatfs, ReplyWrite, Request, TimeOrNow, WriteFlags,
};
use std::ffi::OsStr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// How long the kernel may believe what it was told of names and attributes. It alone changes them.
const TRUST: Duration = Duration::from_secs(1);
/// Numbers of nodes are never used twice.
const GENERATION: Generation = Generation(0);
/// A block, in bytes.
const BLOCK: u32 = 4_096;
/// Blocks said to be there in all.
const BLOCKS: u64 = 1 << 24;

/// Answers the kernel.
pub(super) struct Adapter {
    shared: Arc<Shared>,
}

impl Adapter {
    pub(super) const fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    /// Looks at the tree.
    fn look<T>(&self, work: impl FnOnce(&mut State) -> Result<T, Errno>) -> Result<T, Errno> {
        work(&mut *self.shared.powered()?)
    }

    /// Makes something and tells the kernel of it.
    fn make(
        &self,
        request: &Request,
        (parent, name): (INodeNo, &OsStr),
        mode: u32,
        content: Content,
    ) -> Result<FileAttr, Errno> {
        let permissions = u16::try_from(mode & 0o7777).unwrap_or(0);
        let meta = Meta::new(permissions, request.uid(), request.gid());
        self.shared.operate(Operation::Name, |state| {
            state.admit(Operation::Name, 0)?;
            let node = state.tree.make(parent.0, name, meta, content)?;
            tell(state, node)
        })
    }

    fn change(&self, node: INodeNo, change: Change) -> Result<(), Errno> {
        self.shared.operate(Operation::Write, |state| {
            state.admit(Operation::Write, 0)?;
            state.tree.change(node.0, change)
        })
    }
}

/// The attributes of a node of which the kernel is told.
fn tell(state: &mut State, number: u64) -> Result<FileAttr, Errno> {
    let node = state.tree.node_mut(number)?;
    node.lookups += 1;
    Ok(node.attributes(number))
}

fn entry(reply: ReplyEntry, told: Result<FileAttr, Errno>) {
    match told {
        Ok(attributes) => reply.entry(&TRUST, &attributes, GENERATION),
        Err(error) => reply.error(error),
    }
}

fn empty(reply: ReplyEmpty, done: Result<(), Errno>) {
    match done {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(error),
    }
}

impl Filesystem for Adapter {
    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let found = self.look(|state| {
            let node = state.tree.find(parent.0, name)?;
            tell(state, node)
        });
        entry(reply, found);
    }

    fn forget(&self, _: &Request, node: INodeNo, times: u64) {
        self.shared.lock().tree.forget(node.0, times);
    }

    fn getattr(&self, _: &Request, node: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.look(|state| Ok(state.tree.node(node.0)?.attributes(node.0))) {
            Ok(attributes) => reply.attr(&TRUST, &attributes),
            Err(error) => reply.error(error),
        }
    }

    fn setattr(
        &self,
        _: &Request,
        node: INodeNo,
        mode: Option<u32>,
        user: Option<u32>,
        group: Option<u32>,
        size: Option<u64>,
        _: Option<TimeOrNow>,
        changed: Option<TimeOrNow>,
        _: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let resized = size.map_or(Ok(()), |size| self.change(node, Change::Length(size)));
        let done = resized.and_then(|()| {
            self.look(|state| {
                let held = state.tree.node_mut(node.0)?;
                let meta = &mut held.meta;
                let permissions = mode.map(|mode| u16::try_from(mode & 0o7777).unwrap_or(0));
                meta.permissions = permissions.unwrap_or(meta.permissions);
                meta.user = user.unwrap_or(meta.user);
                meta.group = group.unwrap_or(meta.group);
                meta.changed = match changed {
                    Some(TimeOrNow::SpecificTime(time)) => time,
                    Some(TimeOrNow::Now) => SystemTime::now(),
                    None => meta.changed,
                };
                Ok(held.attributes(node.0))
            })
        });
        match done {
            Ok(attributes) => reply.attr(&TRUST, &attributes),
            Err(error) => reply.error(error),
        }
    }

    fn mkdir(&self, request: &Request, parent: INodeNo, name: &OsStr, mode: u32, _: u32, reply: ReplyEntry) {
        let content = Content::Directory(Directory::default());
        entry(reply, self.make(request, (parent, name), mode, content));
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let work = |state: &mut State| state.tree.remove(parent.0, name, false);
        empty(reply, self.shared.operate(Operation::Name, work));
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let work = |state: &mut State| state.tree.remove(parent.0, name, true);
        empty(reply, self.shared.operate(Operation::Name, work));
    }

    fn rename(
        &self,
        _: &Request,
        parent: INodeNo,
        from: &OsStr,
        new_parent: INodeNo,
        to: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let replace = !flags.contains(RenameFlags::RENAME_NOREPLACE);
        if !flags.difference(RenameFlags::RENAME_NOREPLACE).is_empty() {
            return reply.error(Errno::EINVAL);
        }
        if parent != new_parent {
            return reply.error(Errno::EXDEV);
        }
        let done = self.shared.operate(Operation::Name, |state| {
            state.admit(Operation::Name, 0)?;
            state.tree.rename(parent.0, from, to, replace)
        });
        empty(reply, done);
    }

    fn open(&self, _: &Request, node: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        match self.look(|state| state.tree.file(node.0).map(drop)) {
            Ok(()) => reply.opened(FileHandle(0), FopenFlags::FOPEN_DIRECT_IO),
            Err(error) => reply.error(error),
        }
    }

    fn read(
        &self,
        _: &Request,
        node: INodeNo,
        _: FileHandle,
        at: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        match self.look(|state| state.tree.read(node.0, at, size)) {
            Ok(bytes) => reply.data(&bytes),
            Err(error) => reply.error(error),
        }
    }

    fn write(
        &self,
        _: &Request,
        node: INodeNo,
        _: FileHandle,
        at: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let written = self.shared.operate(Operation::Write, |state| {
            let taken = state.admit(Operation::Write, data.len())?;
            state.tree.change(node.0, Change::Bytes { at, bytes: data[..taken].to_vec() })?;
            u32::try_from(taken).map_err(|_| Errno::EINVAL)
        });
        match written {
            Ok(taken) => reply.written(taken),
            Err(error) => reply.error(error),
        }
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        // Closing a file makes nothing durable.
        reply.ok();
    }

    fn fsync(&self, _: &Request, node: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        let mut reply = Some(reply);
        let done = self.shared.operate(Operation::Sync, |state| {
            if state.hold {
                state.held.extend(reply.take().map(|reply| Held { node: node.0, reply }));
                return Ok(());
            }
            state.sync(node.0)
        });
        if let Some(reply) = reply {
            empty(reply, done);
        }
    }

    fn readdir(&self, _: &Request, node: INodeNo, _: FileHandle, from: u64, mut reply: ReplyDirectory) {
        let listed = self.look(|state| {
            let mut all =
                vec![(node.0, FileType::Directory, ".".into()), (node.0, FileType::Directory, "..".into())];
            for (name, number) in state.tree.names(node.0)? {
                all.push((*number, state.tree.node(*number)?.kind(), name.clone()));
            }
            Ok(all)
        });
        match listed {
            Ok(all) => {
                let skipped = usize::try_from(from).unwrap_or(usize::MAX);
                for ((number, kind, name), next) in all.into_iter().zip(1_u64..).skip(skipped) {
                    if reply.add(INodeNo(number), next, kind, name) {
                        break;
                    }
                }
                reply.ok();
            }
            Err(error) => reply.error(error),
        }
    }

    fn fsyncdir(&self, _: &Request, node: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        let done = self.shared.operate(Operation::SyncNames, |state| state.tree.sync_names(node.0));
        empty(reply, done);
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        let free = if self.shared.lock().faults.full { 0 } else { BLOCKS / 2 };
        reply.statfs(BLOCKS, free, free, BLOCKS, BLOCKS / 2, BLOCK, 255, BLOCK);
    }

    fn create(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _: u32,
        _: i32,
        reply: ReplyCreate,
    ) {
        match self.make(request, (parent, name), mode, Content::File(File::default())) {
            Ok(attributes) => {
                reply.created(&TRUST, &attributes, GENERATION, FileHandle(0), FopenFlags::FOPEN_DIRECT_IO);
            }
            Err(error) => reply.error(error),
        }
    }

    fn fallocate(
        &self,
        _: &Request,
        node: INodeNo,
        _: FileHandle,
        at: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        if mode != 0 {
            return reply.error(Errno::EOPNOTSUPP);
        }
        let done = self.look(|state| Ok(state.tree.file(node.0)?.now.length())).and_then(|now| {
            let end = at.saturating_add(length);
            if end > now { self.change(node, Change::Length(end)) } else { Ok(()) }
        });
        empty(reply, done);
    }
}
