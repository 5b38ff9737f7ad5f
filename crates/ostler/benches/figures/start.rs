//! How long the binary takes to say something short, against a program that says nothing.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::process;
use crate::sums::{Times, ms};

const WARM: usize = 5;

pub(crate) fn measure(ostler: &Path, count: usize) {
    let home = tempfile::tempdir().unwrap();
    let subjects: [(&str, &Path, &[&str]); 5] = [
        ("/bin/true", Path::new("/bin/true"), &[]),
        ("ostler --version", ostler, &["--version"]),
        ("ostler --help", ostler, &["--help"]),
        ("ostler run, refused: no such agent", ostler, &["run", "-a", "nobody", "x"]),
        ("ostler run, refused: not installed", ostler, &["run", "-a", "codex", "x"]),
    ];
    let mut taken = vec![Vec::new(); subjects.len()];
    for turn in 0..count + WARM {
        for ((_, program, args), times) in subjects.iter().zip(&mut taken) {
            let mut command = Command::new(program);
            command.args(*args).env_clear().env("HOME", home.path()).env("OSTLER_HOME", home.path());
            command.env("PATH", home.path()).current_dir(home.path());
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            let began = Instant::now();
            command.status().unwrap();
            if turn >= WARM {
                times.push(ms(began.elapsed()));
            }
        }
    }
    println!("from start to end, {count} times each, in turns; load meanwhile: {}", process::load());
    let nothing = Times::of(taken[0].iter().copied()).median();
    for ((name, ..), times) in subjects.iter().zip(taken) {
        let times = Times::of(times);
        println!(
            "  {name}: median {:.2} ms, p90 {:.2} ms, least {:.2} ms, {:.1} times /bin/true",
            times.median(),
            times.p90(),
            times.least(),
            times.median() / nothing
        );
    }
}
