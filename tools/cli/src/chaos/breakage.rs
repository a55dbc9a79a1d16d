//! Disks that fill up or fail, one at a time.

use super::schedule::Stage;
use super::timeline::Phase;
use crate::deployment::Running;
use crate::session::usage;
use std::time::{Duration, Instant};
use synod_chaos::fs::{Eio, Faults};
use synod_config::{SynError, code};

/// How long a node whose disk fails may go on.
const END: Duration = Duration::from_secs(30);
/// Pause between two looks.
const LOOK: Duration = Duration::from_millis(10);

/// What goes wrong with a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Breakage {
    /// No room.
    Full,
    /// An error, or a write that takes a part only.
    Failing,
}

impl Stage<'_> {
    /// Slows the disk of a drawn member down until the end.
    pub(super) fn slow_down(&mut self, slow: Option<Duration>) {
        let (Some(slow), Some(disks)) = (slow, self.disks.as_ref()) else { return };
        let victim = self.draw.below(self.processes.alive().len());
        disks.disk(victim).set(Faults { slow, ..Faults::default() });
        self.session.tell(&format!("the disk of {} is slower by {slow:?}", self.processes.name(victim)));
    }

    /// Breaks the disk of a drawn member, waits until its node has ended itself, as it must, repairs the disk and
    /// starts it again. A disk whose sync failed may lose its power in between.
    ///
    /// # Errors
    /// That the node met the fault and went on, never met it, or did not come back.
    pub(super) fn break_disk(&mut self, breakage: Breakage) -> Result<(), SynError> {
        let members = self.processes.alive();
        let victim = self.draw.below(members.len());
        let Some(disks) = self.disks.as_mut() else { return Err(usage("disks that can fail were not laid")) };
        let (disk, name) = (disks.disk(victim).clone(), self.processes.name(victim).to_owned());
        let usual = disk.faults();
        let faults = match (breakage, self.draw.below(3)) {
            (Breakage::Full, _) => Faults { full: true, ..usual },
            (Breakage::Failing, 0) => Faults { eio: Some(Eio::Write), ..usual },
            (Breakage::Failing, 1) => Faults { eio: Some(Eio::Sync), ..usual },
            (Breakage::Failing, _) => Faults { short: true, ..usual },
        };
        let cut = faults.eio == Some(Eio::Sync) && self.draw.coin();
        let before = disk.hits();
        self.timeline.enter(Phase::Disk);
        disk.set(faults);
        let until = Instant::now() + END;
        while self.processes.running(victim).is_some_and(Running::is_alive) {
            if Instant::now() > until {
                let met = if disk.hits() == before { "never met" } else { "met, and went on after" };
                let error =
                    SynError::of(code::NO_ANSWER, &[("address", &format!("node {name}")), ("stage", "end")]);
                return Err(error.because(format!("it {met} the fault {faults:?}")));
            }
            std::thread::sleep(LOOK);
        }
        let met = disk.hits() != before;
        self.processes.kill(victim);
        if cut {
            disk.off();
            disks.lose(victim, &mut self.draw)?;
        }
        disk.set(usual);
        self.restart(&[victim])?;
        self.timeline.enter(Phase::Steady);
        if !met {
            let error = SynError::of(code::REFUSED, &[("address", &format!("node {name}"))]);
            return Err(error.because(format!("it ended by itself before it met the fault {faults:?}")));
        }
        match breakage {
            Breakage::Full => self.events.disk_full += 1,
            Breakage::Failing => self.events.eio += 1,
        }
        let then = if cut { ", then a power cut" } else { "" };
        self.session.tell(&format!("disk of {name}: {faults:?}{then}; it ended itself and came back"));
        Ok(())
    }
}
