use super::*;

/// Made of two halves, so that no file of ours has a secret's shape.
fn joined(head: &str, tail: &str) -> String {
    format!("{head}{tail}")
}

#[test]
fn secrets_are_masked() {
    let random = joined("Zq8xT2vLr9Kp", "W4mNc7Bd1Hs5YfJg");
    let table = [
        joined("sk-ant-", "api03-AbCdEf0123456789xyz"),
        joined("ghp_", "A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6"),
        joined("AKIA", "IOSFODNN7EXAMPLE"),
        joined("xoxb-", "123456789012-abcdefABCDEF"),
        joined("eyJhbGciOiJIUzI1NiJ9.", "eyJzdWIiOiIxMjM0In0.SflKxwRJSMeKKF2QT4"),
        random,
        joined("wJalrXUtnFEMI/K7MDENG/", "bPxRfiCYEXAMPLEKEY"),
    ];
    for secret in &table {
        for text in [
            format!("use {secret} please"),
            format!("KEY={secret}"),
            format!("key: \"{secret}\","),
            format!("({secret})"),
        ] {
            let kept = redacted(&text, Policy::Mask).unwrap();
            assert!(!kept.contains(secret.as_str()) && kept.contains("[redacted"), "{text} -> {kept}");
            assert_eq!(redacted(&text, Policy::Drop), None, "{text}");
            assert_eq!(redacted(&text, Policy::Keep).as_deref(), Some(text.as_str()));
        }
    }
}

#[test]
fn a_value_is_a_secret_by_its_name() {
    let table = [
        ("password = hunter22", "password = [redacted: secret]"),
        ("\"api_key\": \"abc1234567\"", "\"api_key\": \"[redacted: secret]\""),
        ("DB_PASSWORD=hunter2222", "DB_PASSWORD=[redacted: secret]"),
        ("Authorization: Bearer abc123def456", "Authorization: Bearer [redacted: authorization]"),
        ("postgres://me:hunter22@db/x", "postgres://me:[redacted: password]@db/x"),
    ];
    for (text, want) in table {
        assert_eq!(redacted(text, Policy::Mask).as_deref(), Some(want));
    }
}

#[test]
fn what_is_called_private_is_never_kept() {
    let table = [
        ("a <private>b</private> c", "a [private] c"),
        ("a <PRIVATE>b</Private> c <private>d", "a [private] c [private]"),
        ("a </private> b", "a </private> b"),
        ("é<private>ü</private>ß", "é[private]ß"),
    ];
    for (text, want) in table {
        for policy in [Policy::Drop, Policy::Mask, Policy::Keep] {
            assert_eq!(redacted(text, policy).as_deref(), Some(want));
        }
    }
}

#[test]
fn a_key_block_is_masked_to_its_end() {
    let key = joined("-----BEGIN RSA PRIVATE", " KEY-----\nAAAA\nBBBB\n-----END RSA PRIVATE KEY-----");
    assert_eq!(redacted(&format!("x {key} y"), Policy::Mask).unwrap(), "x [redacted: private key] y");
    let public = "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----";
    assert_eq!(redacted(public, Policy::Mask).as_deref(), Some(public));
}

#[test]
fn what_developers_say_is_left_alone() {
    for text in [
        "Please update the config and override the default; ignore the previous warning.",
        "commit 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        "session 01a1e0b2-49a4-70b1-b1c8-48a607dfe815 in crates/ostler-memory/src/redaction_tests.rs",
        "token: 5 of 12, max_tokens = 4096, the token limit is 200000",
        "src/components/Header/NavigationBarItem2Container/index.tsx",
        "AbstractSingletonProxyFactoryBeanConfigurationAdapter2",
        "https://example.com/a/b?c=d#e and user@example.com",
        "secret: none; password: unchanged",
        "let is_linked = dep.dep_kinds.iter().any(|kind| kind.kind == DependencyKind::Normal);",
        "error[E0277]: the trait bound `Vec<u8>: From<&str>` is not satisfied",
        "日本語のテキスト、そして emoji 🎉",
    ] {
        assert_eq!(redacted(text, Policy::Drop).as_deref(), Some(text));
    }
}

proptest::proptest! {
    #[test]
    fn any_text_is_read(text in "\\PC*", policy in proptest::sample::select(vec![Policy::Drop, Policy::Mask, Policy::Keep])) {
        let _ = redacted(&text, policy);
    }
}
