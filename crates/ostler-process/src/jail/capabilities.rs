//! What root may do inside: work with files of any owner, and nothing else.

use std::path::Path;

use rustix::io::Errno;
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, clear_ambient_capability_set,
    remove_capability_from_bounding_set, set_capabilities, set_no_new_privs,
};

use super::JailError;

/// What stays for root. A tool that unpacks an archive sets owners; a workspace may belong to somebody else. Which files
/// there are at all is decided by the mounts.
const KEPT: CapabilitySet = CapabilitySet::CHOWN
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::FOWNER)
    .union(CapabilitySet::FSETID);

/// The kernel has 41 today; it says where they end.
const MOST_CAPABILITIES: u32 = 64;

/// Drops every capability that the process has but for those of files. Programs that are executed later get no more,
/// whoever owns them.
pub(super) fn drop_all() -> Result<(), JailError> {
    let failed = |action| JailError::at::<Errno>(action, Path::new("/proc/self"));
    set_no_new_privs(true).map_err(failed("give up new privileges of"))?;
    let held = capabilities(None).map_err(failed("read the capabilities of"))?.permitted;
    // Without this capability (a plain user outside of a namespace, root in a container or another jail) the limit cannot
    // be changed. Then `no_new_privs` alone keeps programs of root from getting more than is left here.
    if held.contains(CapabilitySet::SETPCAP) {
        limit_to_kept()?;
    }
    clear_ambient_capability_set().map_err(failed("drop the ambient capabilities of"))?;
    let kept = KEPT & held;
    let sets = CapabilitySets { effective: kept, permitted: kept, inheritable: CapabilitySet::empty() };
    set_capabilities(None, sets).map_err(failed("drop the capabilities of"))
}

/// Limits what programs of root get when they are executed.
fn limit_to_kept() -> Result<(), JailError> {
    for number in 0..MOST_CAPABILITIES {
        let capability = CapabilitySet::from_bits_retain(1 << number);
        if KEPT.contains(capability) {
            continue;
        }
        match remove_capability_from_bounding_set(capability) {
            Ok(()) => {}
            // The number is past the last one.
            Err(Errno::INVAL) => break,
            Err(errno) => {
                return Err(JailError::at("limit the capabilities of", Path::new("/proc/self"))(errno));
            }
        }
    }
    Ok(())
}
