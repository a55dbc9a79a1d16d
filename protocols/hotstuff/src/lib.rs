//! HotStuff: one core of block tree, certificates and pacemaker with several rule packs.
