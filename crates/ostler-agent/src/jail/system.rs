//! The system's own directories: what programs need of them, and the secrets in them.

/// What every program may read. Those that are links are made anew in the jail.
pub(super) const READABLE: [&str; 15] = [
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/etc",
    "/opt",
    "/nix",
    "/snap",
    "/gnu/store",
    "/run/current-system",
    "/var/guix/profiles",
    "/var/lib/ca-certificates",
];

/// Of these, what no program starts without.
pub(super) const NEEDED: [&str; 4] = ["/usr", "/bin", "/lib", "/lib64"];

/// Secrets among them, which only root can read on most machines; runs of root are jailed too.
pub(super) const SECRETS: [&str; 46] = [
    "/etc/shadow",
    "/etc/shadow-",
    "/etc/gshadow",
    "/etc/gshadow-",
    "/etc/tcb",
    "/etc/security/opasswd",
    "/etc/sudoers",
    "/etc/sudoers.d",
    "/etc/doas.conf",
    "/etc/ssh/ssh_host_dsa_key",
    "/etc/ssh/ssh_host_ecdsa_key",
    "/etc/ssh/ssh_host_ed25519_key",
    "/etc/ssh/ssh_host_rsa_key",
    "/etc/ssl/private",
    "/etc/pki/tls/private",
    "/etc/pki/private",
    "/etc/letsencrypt/accounts",
    "/etc/letsencrypt/archive",
    "/etc/letsencrypt/keys",
    "/etc/letsencrypt/live",
    "/etc/krb5.keytab",
    "/etc/samba/private",
    "/etc/NetworkManager/system-connections",
    "/etc/netplan",
    "/etc/wpa_supplicant",
    "/etc/iwd",
    "/etc/wireguard",
    "/etc/openvpn",
    "/etc/ipsec.secrets",
    "/etc/ipsec.d/private",
    "/etc/swanctl/private",
    "/etc/ppp/chap-secrets",
    "/etc/ppp/pap-secrets",
    "/etc/crypttab",
    "/etc/cryptsetup-keys.d",
    "/etc/luks",
    "/etc/kubernetes",
    "/etc/rancher",
    "/etc/docker/key.json",
    "/etc/mysql/debian.cnf",
    "/etc/postfix/sasl_passwd",
    "/etc/exim4/passwd.client",
    "/etc/msmtprc",
    "/etc/bind/rndc.key",
    "/etc/credstore",
    "/etc/credstore.encrypted",
];

/// Temporary files of all programs. The run has its own in their place.
pub(super) const TEMPORARY: [&str; 2] = ["/tmp", "/var/tmp"];

/// No files, or the sockets of services. What is needed of `/dev`, `/proc` and `/sys` every jail brings itself.
pub(super) const NO_FILES: [&str; 4] = ["/dev", "/proc", "/sys", "/run/user"];

/// Directories that are no project's.
pub(super) const SHARED: [&str; 5] = ["/run", "/var", "/var/run", "/home", "/mnt"];

/// The name resolver's configuration, often a link to a file of a service.
pub(super) const RESOLVER: &str = "/etc/resolv.conf";
