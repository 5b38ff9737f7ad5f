//! Each way out, and each thing that must still work, with the wall and without it.

use ostler_agent::jail::JailKind;

use super::scene::{Program, Scene, User, landlock_abi};

/// What a sequence of attempts leads to behind a wall; all but the last of them succeed there. Without a wall all succeed.
struct Row {
    attempts: &'static [&'static [&'static str]],
    landlock: &'static str,
    /// Without a wall only root could do it.
    needs_root: bool,
}

const fn row(attempts: &'static [&'static [&'static str]], landlock: &'static str) -> Row {
    Row { attempts, landlock, needs_root: false }
}

const fn root_row(attempts: &'static [&'static [&'static str]], landlock: &'static str) -> Row {
    Row { attempts, landlock, needs_root: true }
}

/// What is granted works.
const GRANTED: &[Row] = &[
    row(&[&["read", "TOP/ro/file"]], "ok"),
    row(&[&["list", "TOP/ro"]], "ok"),
    row(&[&["exec", "TOP/ro/tool"]], "ok"),
    row(&[&["exec", "TOP/ws/tool"]], "ok"),
    row(&[&["read", "TOP/ws/file"]], "ok"),
    row(&[&["write", "TOP/ws/file"]], "ok"),
    row(&[&["truncate", "TOP/ws/file"]], "ok"),
    row(&[&["create", "TOP/ws/new"], &["remove", "TOP/ws/new"]], "ok"),
    row(&[&["mkdir", "TOP/ws/new"], &["create", "TOP/ws/new/file"]], "ok"),
    row(&[&["rename", "TOP/ws/file", "TOP/ws/dir/file"]], "ok"),
    row(&[&["link", "TOP/ws/file", "TOP/ws/dir/file"]], "ok"),
    row(&[&["bind", "TOP/ws/socket"]], "ok"),
    row(&[&["write", "/dev/null"]], "ok"),
    row(&[&["read", "/dev/urandom"]], "ok"),
    row(&[&["write", "/dev/ptmx"]], "ok"),
    row(&[&["read", "/proc/self/status"]], "ok"),
    row(&[&["read", "/proc/PID/stat"]], "ok"),
    row(&[&["read", "/etc/passwd"]], "ok"),
    row(&[&["shell", "echo text > TOP/ws/new && cat TOP/ws/new"]], "ok"),
    row(&[&["read", "TOP/home/file"]], "ok"),
    row(&[&["create", "TOP/home/new"]], "ok"),
    row(&[&["read", "TOP/split/open"]], "ok"),
    row(&[&["list", "TOP/split/open-dir"]], "ok"),
];

/// What is not granted does not.
const DENIED: &[Row] = &[
    row(&[&["write", "TOP/ro/file"]], "EACCES"),
    row(&[&["create", "TOP/ro/new"]], "EACCES"),
    row(&[&["read", "TOP/out/secret"]], "EACCES"),
    row(&[&["write", "TOP/out/secret"]], "EACCES"),
    row(&[&["truncate", "TOP/out/secret"]], "EACCES"),
    row(&[&["create", "TOP/out/new"]], "EACCES"),
    row(&[&["mkdir", "TOP/out/new"]], "EACCES"),
    row(&[&["remove", "TOP/out/secret"]], "EACCES"),
    row(&[&["list", "TOP/out"]], "EACCES"),
    row(&[&["exec", "TOP/out/tool"]], "EACCES"),
    row(&[&["bind", "TOP/out/new"]], "EACCES"),
    row(&[&["read", "TOP/ws/../out/secret"]], "EACCES"),
    row(&[&["cd", "TOP/ws/dir"], &["read", "../../out/secret"]], "EACCES"),
    row(&[&["read", "TOP/ws/link"]], "EACCES"),
    row(&[&["write", "TOP/ws/link"]], "EACCES"),
    row(&[&["read", "TOP/ws/link-dir/secret"]], "EACCES"),
    row(&[&["create", "TOP/ws/link-dir/new"]], "EACCES"),
    row(&[&["symlink", "TOP/out/secret", "TOP/ws/new"], &["read", "TOP/ws/new"]], "EACCES"),
    row(&[&["link", "TOP/out/secret", "TOP/ws/new"]], "EXDEV"),
    row(&[&["link", "TOP/ws/file", "TOP/out/new"]], "EACCES"),
    row(&[&["rename", "TOP/out/secret", "TOP/ws/new"]], "EACCES"),
    row(&[&["rename", "TOP/ws/file", "TOP/out/new"]], "EACCES"),
    row(&[&["rename", "TOP/ws/file", "TOP/out/secret"]], "EACCES"),
    row(&[&["read", "TOP/split/hidden"]], "EACCES"),
    row(&[&["list", "TOP/split/hidden-dir"]], "EACCES"),
    row(&[&["read", "TOP/split/hidden-dir/name"]], "EACCES"),
    row(&[&["read", "TOP/original/file"]], "EACCES"),
    row(&[&["shell", "cat TOP/out/secret"]], "failed"),
    row(&[&["read", "/proc/PID/environ"]], "EACCES"),
    row(&[&["list", "/proc/PID/root"]], "EACCES"),
    row(&[&["read", "/proc/PID/root/TOP/out/secret"]], "EACCES"),
    row(&[&["open", "/proc/PID/mem"]], "EACCES"),
    row(&[&["open", "/proc/PID/fd/0"]], "EACCES"),
    row(&[&["read", "/proc/self/root/TOP/out/secret"]], "EACCES"),
    row(&[&["write", "/proc/self/oom_score_adj"]], "EACCES"),
    row(&[&["signal", "PID"]], "EPERM"),
    row(&[&["connect-abstract", "NAME"]], "EPERM"),
    row(&[&["list", "/dev/shm"]], "EACCES"),
    root_row(&[&["read", "/etc/shadow"]], "EACCES"),
    root_row(&[&["write", "/proc/sys/kernel/core_pattern"]], "EACCES"),
    root_row(&[&["device", "TOP/ws/device"]], "EACCES"),
    // A second restriction only takes away.
    row(&[&["widen"], &["read", "TOP/out/secret"]], "EACCES"),
];

/// What Landlock alone cannot keep. `not_enforced` names each.
const NOT_KEPT: &[Row] = &[
    row(&[&["chmod", "TOP/out/secret"]], "ok"),
    row(&[&["stat", "TOP/out/secret"]], "ok"),
    row(&[&["write", "TOP/ws/guarded"]], "ok"),
    row(&[&["cd", "TOP/out"]], "ok"),
    row(&[&["write", "TTY"]], "ok"),
    row(&[&["tcp", "ADDRESS"]], "ok"),
];

/// Kept from ABI 9 on.
const PATHNAME_SOCKETS: [&[Row]; 2] =
    [&[row(&[&["connect", "TOP/out/socket"]], "ok")], &[row(&[&["connect", "TOP/out/socket"]], "EACCES")]];

fn expect_rows(rows: &[Row]) {
    if landlock_abi().is_none() {
        return;
    }
    let program = Program::new();
    let mut surprises = Vec::new();
    for user in User::all() {
        for row in rows.iter().filter(|row| user.is_root() || !row.needs_root) {
            for (wall, want) in [(None, "ok"), (Some(JailKind::Landlock), row.landlock)] {
                let scene = Scene::new(user);
                let output = scene.try_all(&program, wall, &scene.rules(), row.attempts);
                let results: Vec<&str> = output["results"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .map(|result| result.as_str().unwrap())
                    .collect();
                let (last, before) = results.split_last().unwrap();
                if *last != want || before.iter().any(|result| *result != "ok") {
                    surprises.push(format!("{user:?} {wall:?} {:?}: {results:?}, not {want}", row.attempts));
                }
            }
        }
    }
    assert!(surprises.is_empty(), "{surprises:#?}");
}

#[test]
fn what_is_granted_works_behind_landlock() {
    expect_rows(GRANTED);
}

#[test]
fn what_is_not_granted_fails_behind_landlock() {
    expect_rows(DENIED);
}

#[test]
fn what_landlock_cannot_keep_is_as_documented() {
    expect_rows(NOT_KEPT);
    let [open, closed] = PATHNAME_SOCKETS;
    expect_rows(if landlock_abi() < Some(9) { open } else { closed });
}
