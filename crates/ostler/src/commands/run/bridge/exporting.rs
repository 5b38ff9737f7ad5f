//! Copies of accepted artifacts, for whoever wants them elsewhere.

use std::fs::Permissions;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use ostler_bridge::store::Artifact;
use ostler_process::run::HandedOut;

use crate::display;

/// Copies what was accepted, if somebody wants that. What is no longer what was accepted is not copied. What goes wrong
/// is told; it changes nothing about how the run ended.
pub(super) fn hand_out(artifacts: Vec<Artifact>, folder: Option<&Path>) -> HandedOut {
    let mut out = HandedOut { folder: folder.map(Path::to_owned), ..HandedOut::default() };
    for artifact in artifacts {
        let kind = artifact.kind;
        match (artifact.content, folder) {
            (Err(changed), _) => out.changed.push(changed.to_string()),
            (Ok(_), None) => {}
            (Ok(content), Some(folder)) => match copy(folder, &kind, &content) {
                Ok(()) => out.copied.push(kind),
                Err(error) => {
                    out.failed.push(format!("`{kind}` to {}: {error}", display::short(folder)));
                }
            },
        }
    }
    out
}

/// Whole or not at all.
fn copy(folder: &Path, kind: &str, content: &[u8]) -> io::Result<()> {
    std::fs::create_dir_all(folder)?;
    let permissions = Permissions::from_mode(0o644);
    let mut fresh = tempfile::Builder::new().permissions(permissions).tempfile_in(folder)?;
    io::Write::write_all(&mut fresh, content)?;
    fresh.persist(folder.join(format!("{kind}.md"))).map(drop).map_err(|error| error.error)
}

#[cfg(test)]
mod tests {
    use std::io::Error;
    use std::path::PathBuf;

    use ostler_bridge::store::Changed;

    use super::*;

    fn artifacts() -> Vec<Artifact> {
        let path = PathBuf::from("/run/artifacts/plan.md");
        let gone = Changed::Gone { path: path.clone(), source: Error::other("gone") };
        vec![
            Artifact { kind: "plan".to_owned(), path: path.clone(), content: Ok(b"# Plan".to_vec()) },
            Artifact { kind: "result".to_owned(), path, content: Err(gone) },
        ]
    }

    #[test]
    fn what_was_accepted_is_copied_and_what_was_changed_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let wanted = folder.path().join("a/b");
        let out = hand_out(artifacts(), Some(&wanted));
        assert_eq!((out.copied, out.failed), (vec!["plan".to_owned()], Vec::<String>::new()));
        assert_eq!(out.changed, ["could not read /run/artifacts/plan.md: gone"]);
        assert_eq!(std::fs::read(wanted.join("plan.md")).unwrap(), b"# Plan");
        assert!(!wanted.join("result.md").exists());
    }

    #[test]
    fn a_copy_that_cannot_be_made_is_told_with_its_reason() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        std::fs::write(&file, "").unwrap();
        let out = hand_out(artifacts(), Some(&file.join("below")));
        assert_eq!(out.copied, Vec::<String>::new());
        assert!(matches!(&out.failed[..], [one] if one.starts_with("`plan` to ")), "{:?}", out.failed);
    }

    #[test]
    fn nothing_is_copied_unless_it_is_wanted() {
        let out = hand_out(artifacts(), None);
        assert_eq!((out.folder, out.copied.len(), out.changed.len()), (None, 0, 1));
    }
}
