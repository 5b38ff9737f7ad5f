//! Compiles SQLCipher and the part of LibTomCrypt that it uses, from the sources in `sqlcipher-src`.

use std::path::Path;

/// What SQLCipher's LibTomCrypt provider calls: AES-256-CBC, HMAC, PBKDF2 and Fortuna. The other 300 files are not needed.
const LIBTOMCRYPT: &[&str] = &[
    "ciphers/aes/aes.c",
    "hashes/helper/hash_memory.c",
    "hashes/sha1.c",
    "hashes/sha2/sha256.c",
    "hashes/sha2/sha512.c",
    "mac/hmac/hmac_done.c",
    "mac/hmac/hmac_init.c",
    "mac/hmac/hmac_memory.c",
    "mac/hmac/hmac_process.c",
    "misc/burn_stack.c",
    "misc/crypt/crypt_argchk.c",
    "misc/crypt/crypt_cipher_descriptor.c",
    "misc/crypt/crypt_cipher_is_valid.c",
    "misc/crypt/crypt_find_cipher.c",
    "misc/crypt/crypt_find_hash.c",
    "misc/crypt/crypt_hash_descriptor.c",
    "misc/crypt/crypt_hash_is_valid.c",
    "misc/crypt/crypt_prng_descriptor.c",
    "misc/crypt/crypt_register_cipher.c",
    "misc/crypt/crypt_register_hash.c",
    "misc/crypt/crypt_register_prng.c",
    "misc/pkcs5/pkcs_5_2.c",
    "misc/zeromem.c",
    "modes/cbc/cbc_decrypt.c",
    "modes/cbc/cbc_done.c",
    "modes/cbc/cbc_encrypt.c",
    "modes/cbc/cbc_start.c",
    "prngs/fortuna.c",
];

/// Nothing but what those files hold; SQLCipher is compiled with the same. `LTC_PTHREAD` guards LibTomCrypt's tables,
/// which all connections share.
const LIBTOMCRYPT_OPTIONS: &[&str] = &[
    "LTC_NOTHING",
    "LTC_NO_TEST",
    "LTC_NO_MATH",
    "LTC_PTHREAD",
    "LTC_RIJNDAEL",
    "LTC_CBC_MODE",
    "LTC_SHA1",
    "LTC_SHA256",
    "LTC_SHA512",
    "LTC_HASH_HELPERS",
    "LTC_HMAC",
    "LTC_PKCS_5",
    "LTC_FORTUNA",
    "LTC_RNG_GET_BYTES",
];

/// What the store uses, and what `rusqlite` and SQLCipher ask for.
const SQLITE_OPTIONS: &[(&str, &str)] = &[
    ("HAVE_ISNAN", "1"),
    ("HAVE_LOCALTIME_R", "1"),
    ("HAVE_STDINT_H", "1"),
    ("HAVE_USLEEP", "1"),
    ("SQLCIPHER_CRYPTO_LIBTOMCRYPT", "1"),
    ("SQLITE_CORE", "1"),
    ("SQLITE_DEFAULT_FOREIGN_KEYS", "1"),
    ("SQLITE_ENABLE_API_ARMOR", "1"),
    ("SQLITE_ENABLE_FTS5", "1"),
    ("SQLITE_EXTRA_INIT", "sqlcipher_extra_init"),
    ("SQLITE_EXTRA_SHUTDOWN", "sqlcipher_extra_shutdown"),
    ("SQLITE_HAS_CODEC", "1"),
    ("SQLITE_OMIT_DEPRECATED", "1"),
    ("SQLITE_OMIT_LOAD_EXTENSION", "1"),
    ("SQLITE_TEMP_STORE", "2"),
    ("SQLITE_THREADSAFE", "1"),
    ("SQLITE_USE_URI", "1"),
];

fn main() -> Result<(), cc::Error> {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=src/random.c");
    let sources = sqlcipher_src::source_dir();
    compile_libtomcrypt(sources)?;
    compile_sqlcipher(sources)
}

/// Always optimised: without it, tests would spend their time in AES.
fn compile_libtomcrypt(sources: &Path) -> Result<(), cc::Error> {
    let mut build = compiler(sources);
    build.opt_level(3).define("LTC_SOURCE", None).file("src/random.c");
    for file in LIBTOMCRYPT {
        build.file(sources.join("libtomcrypt").join(file));
    }
    build.try_compile("ostler_libtomcrypt")
}

fn compile_sqlcipher(sources: &Path) -> Result<(), cc::Error> {
    let mut build = compiler(sources);
    for (name, value) in SQLITE_OPTIONS {
        build.define(name, *value);
    }
    // The linker may see this library before `libsqlite3-sys`, which needs it: take all of it, in whatever order.
    build.link_lib_modifier("+whole-archive");
    build.file(sources.join(sqlcipher_src::SOURCE_FILE)).try_compile("ostler_sqlcipher")
}

fn compiler(sources: &Path) -> cc::Build {
    let mut build = cc::Build::new();
    build.warnings(false).include(sources).include(sources.join(sqlcipher_src::LIBTOMCRYPT_INCLUDE_DIR));
    for name in LIBTOMCRYPT_OPTIONS {
        build.define(name, None);
    }
    build
}
