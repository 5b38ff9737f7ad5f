//! Compilers, package managers and their caches in the home directory, and how builds write to them without changing the
//! user's.

use std::path::{Path, PathBuf};

use super::rule_set::RuleSet;
use super::{Access, CacheLayers, JailFacts};
use crate::jail::state::StatePlaces;

/// Below which directory something usually is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Base {
    /// The home directory.
    Home,
    /// `XDG_DATA_HOME`.
    Data,
    /// `XDG_CACHE_HOME`.
    Cache,
    /// `XDG_CONFIG_HOME`.
    Config,
}

/// A file or directory that is readable.
struct Tool {
    base: Base,
    path: &'static str,
    /// The variable that names it where it is elsewhere.
    variable: Option<&'static str>,
}

/// A directory that builds write to.
struct Cache {
    base: Base,
    path: &'static str,
    variable: Option<&'static str>,
    /// The variable that has the toolchain write elsewhere. Without one it stays read-only where there is no overlay:
    /// what holds installed programs or packages, which cannot be fetched again without a network.
    moved_by: Option<&'static str>,
    /// The name of its layer.
    layer: &'static str,
}

const fn home(path: &'static str) -> Tool {
    Tool { base: Base::Home, path, variable: None }
}

const fn named(path: &'static str, variable: &'static str) -> Tool {
    Tool { base: Base::Home, path, variable: Some(variable) }
}

const fn data(path: &'static str) -> Tool {
    Tool { base: Base::Data, path, variable: None }
}

const fn config(path: &'static str) -> Tool {
    Tool { base: Base::Config, path, variable: None }
}

const fn cache(
    base: Base,
    path: &'static str,
    variable: Option<&'static str>,
    moved_by: Option<&'static str>,
    layer: &'static str,
) -> Cache {
    Cache { base, path, variable, moved_by, layer }
}

/// Readable where they exist.
const TOOLS: &[Tool] = &[
    // Git's own settings; never its stored passwords.
    named(".gitconfig", "GIT_CONFIG_GLOBAL"),
    config("git"),
    home(".gitignore"),
    home(".gitignore_global"),
    home(".gitattributes"),
    home(".editorconfig"),
    home(".tool-versions"),
    home(".ripgreprc"),
    // Rust, Go, Zig, Haskell, OCaml, Lean.
    named(".rustup", "RUSTUP_HOME"),
    named("go/bin", "GOBIN"),
    config("go"),
    home(".zvm"),
    named(".ghcup", "GHCUP_INSTALL_BASE_PREFIX"),
    home(".opam"),
    named(".elan", "ELAN_HOME"),
    // Node.js and its relatives.
    named(".nvm", "NVM_DIR"),
    named(".volta", "VOLTA_HOME"),
    named(".nodenv", "NODENV_ROOT"),
    named(".n", "N_PREFIX"),
    home(".npm-global"),
    home(".npm-packages"),
    home(".fnm"),
    data("fnm"),
    // Python.
    named(".pyenv", "PYENV_ROOT"),
    home(".local/lib"),
    home(".local/pipx"),
    data("pipx"),
    data("virtualenvs"),
    data("pypoetry"),
    data("hatch"),
    named(".virtualenvs", "WORKON_HOME"),
    named("miniconda3", "CONDA_PREFIX"),
    home("anaconda3"),
    home("miniforge3"),
    home("mambaforge"),
    named(".pixi", "PIXI_HOME"),
    // Ruby, PHP, Perl, Elixir, Julia, Swift.
    named(".rbenv", "RBENV_ROOT"),
    home(".rvm"),
    home(".phpenv"),
    home("perl5"),
    home(".mix"),
    home(".kiex"),
    home(".juliaup"),
    home(".swiftly"),
    // The Java world, Android, .NET, Dart.
    named(".sdkman", "SDKMAN_DIR"),
    home(".jdks"),
    home(".jenv"),
    home(".jbang"),
    named("Android/Sdk", "ANDROID_HOME"),
    named(".dotnet", "DOTNET_ROOT"),
    // Version managers and package managers of many languages.
    named(".asdf", "ASDF_DATA_DIR"),
    data("mise"),
    config("mise"),
    data("rtx"),
    home(".proto"),
    home(".linuxbrew"),
    home(".nix-profile"),
    home(".guix-profile"),
    named(".emsdk", "EMSDK"),
];

/// Written by builds.
const CACHES: &[Cache] = &[
    cache(Base::Home, ".cargo", Some("CARGO_HOME"), Some("CARGO_HOME"), "cargo"),
    cache(Base::Home, ".npm", Some("npm_config_cache"), Some("npm_config_cache"), "npm"),
    cache(Base::Cache, "pip", Some("PIP_CACHE_DIR"), Some("PIP_CACHE_DIR"), "pip"),
    cache(Base::Cache, "uv", Some("UV_CACHE_DIR"), Some("UV_CACHE_DIR"), "uv"),
    cache(Base::Data, "uv", None, None, "uv-data"),
    cache(Base::Home, "go/pkg", Some("GOMODCACHE"), None, "go-mod"),
    cache(Base::Cache, "go-build", Some("GOCACHE"), Some("GOCACHE"), "go-build"),
    cache(Base::Home, ".gradle", Some("GRADLE_USER_HOME"), Some("GRADLE_USER_HOME"), "gradle"),
    cache(Base::Home, ".m2", None, None, "m2"),
    cache(Base::Home, ".bun", Some("BUN_INSTALL"), Some("BUN_INSTALL_CACHE_DIR"), "bun"),
    cache(Base::Cache, "deno", Some("DENO_DIR"), Some("DENO_DIR"), "deno"),
    cache(Base::Home, ".deno", None, None, "deno-home"),
    cache(Base::Data, "pnpm", Some("PNPM_HOME"), Some("npm_config_store_dir"), "pnpm"),
    cache(Base::Cache, "pnpm", None, Some("npm_config_cache_dir"), "pnpm-cache"),
    cache(Base::Cache, "yarn", Some("YARN_CACHE_FOLDER"), Some("YARN_CACHE_FOLDER"), "yarn"),
    cache(Base::Home, ".yarn", None, Some("YARN_GLOBAL_FOLDER"), "yarn-home"),
    cache(Base::Home, ".gem", Some("GEM_HOME"), None, "gem"),
    cache(Base::Home, ".bundle", Some("BUNDLE_USER_HOME"), None, "bundle"),
    cache(Base::Home, ".pub-cache", Some("PUB_CACHE"), None, "pub"),
    cache(Base::Home, ".nuget/packages", Some("NUGET_PACKAGES"), None, "nuget"),
    cache(Base::Home, ".stack", Some("STACK_ROOT"), None, "stack"),
    cache(Base::Home, ".cabal", Some("CABAL_DIR"), None, "cabal"),
    cache(Base::Home, ".julia", None, None, "julia"),
    cache(Base::Home, ".hex", Some("HEX_HOME"), None, "hex"),
    cache(Base::Home, ".konan", Some("KONAN_DATA_DIR"), None, "konan"),
    cache(Base::Home, ".conan2", Some("CONAN_HOME"), None, "conan"),
    cache(Base::Home, ".ivy2", None, None, "ivy2"),
    cache(Base::Home, ".sbt", None, None, "sbt"),
    cache(Base::Cache, "coursier", Some("COURSIER_CACHE"), None, "coursier"),
    cache(Base::Cache, "ccache", Some("CCACHE_DIR"), Some("CCACHE_DIR"), "ccache"),
    cache(Base::Cache, "sccache", Some("SCCACHE_DIR"), Some("SCCACHE_DIR"), "sccache"),
    cache(Base::Cache, "pre-commit", Some("PRE_COMMIT_HOME"), None, "pre-commit"),
    cache(Base::Cache, "pypoetry", Some("POETRY_CACHE_DIR"), None, "poetry"),
    cache(
        Base::Cache,
        "golangci-lint",
        Some("GOLANGCI_LINT_CACHE"),
        Some("GOLANGCI_LINT_CACHE"),
        "golangci-lint",
    ),
    cache(Base::Cache, "node-gyp", Some("npm_config_devdir"), None, "node-gyp"),
    cache(Base::Cache, "ms-playwright", Some("PLAYWRIGHT_BROWSERS_PATH"), None, "playwright"),
    cache(Base::Cache, "puppeteer", Some("PUPPETEER_CACHE_DIR"), None, "puppeteer"),
    cache(Base::Cache, "Cypress", Some("CYPRESS_CACHE_FOLDER"), None, "cypress"),
    cache(Base::Cache, "zig", Some("ZIG_GLOBAL_CACHE_DIR"), Some("ZIG_GLOBAL_CACHE_DIR"), "zig"),
    cache(Base::Cache, "composer", Some("COMPOSER_CACHE_DIR"), Some("COMPOSER_CACHE_DIR"), "composer"),
    cache(Base::Cache, "mise", None, Some("MISE_CACHE_DIR"), "mise"),
    cache(Base::Cache, "node", Some("COREPACK_HOME"), None, "corepack"),
];

/// Variables that name a file or directory to read: toolchains, certificates, libraries.
const NAMED: &[&str] = &[
    "ANDROID_SDK_ROOT",
    "CODEX_CA_CERTIFICATE",
    "CURL_CA_BUNDLE",
    "GIT_SSL_CAINFO",
    "GOROOT",
    "JAVA_HOME",
    "M2_HOME",
    "MAVEN_HOME",
    "NODE_EXTRA_CA_CERTS",
    "REQUESTS_CA_BUNDLE",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
    "VIRTUAL_ENV",
];

/// Variables that hold lists of such directories.
const LISTED: &[&str] = &["LD_LIBRARY_PATH", "PYTHONPATH", "NODE_PATH", "PKG_CONFIG_PATH"];

/// Lets the run read the toolchains that exist, and write to their caches without changing them.
pub(super) fn grant(rules: &mut RuleSet<'_>, facts: &JailFacts<'_>) {
    let places = StatePlaces { home: facts.user_home, variable: facts.variable, workspace: facts.workspace };
    let place = |base, path: &str, variable: Option<&str>| {
        let folder = match base {
            Base::Home => facts.user_home.to_owned(),
            Base::Data => places.folder("XDG_DATA_HOME", ".local/share"),
            Base::Cache => places.folder("XDG_CACHE_HOME", ".cache"),
            Base::Config => places.folder("XDG_CONFIG_HOME", ".config"),
        };
        let elsewhere = variable.and_then(|variable| places.named(variable));
        (folder.join(path), elsewhere)
    };
    for cache in CACHES {
        let (usual, elsewhere) = place(cache.base, cache.path, cache.variable);
        let path = elsewhere.unwrap_or(usual);
        let is_free = |real: &PathBuf| !rules.is_visible(real);
        if !rules.grantable(&path).is_some_and(|real| is_free(&real)) {
            continue;
        }
        match facts.caches {
            CacheLayers::Overlay(layers) => {
                let layer = layers.join(cache.layer);
                let (upper, work) = (layer.join("upper"), layer.join("work"));
                rules.create_directory(upper.clone());
                rules.create_directory(work.clone());
                rules.grant(&path, Access::CopyOnWrite { upper, work });
                if let Some(variable) = cache.moved_by {
                    let folder = super::decision::private_caches(facts.private).join(cache.layer);
                    rules.cache_variables.push((variable.to_owned(), folder));
                }
            }
            CacheLayers::Variables(layers) => {
                rules.read(&path);
                if let Some(variable) = cache.moved_by {
                    let layer = layers.join(cache.layer);
                    rules.create_directory(layer.clone());
                    rules.set(variable, &layer);
                }
            }
        }
    }
    for tool in TOOLS {
        let (usual, elsewhere) = place(tool.base, tool.path, tool.variable);
        rules.read(&usual);
        if let Some(elsewhere) = elsewhere {
            rules.read_named(&elsewhere);
        }
    }
    for path in NAMED.iter().filter_map(|variable| places.named(variable)) {
        rules.read_named(&path);
    }
    for list in LISTED.iter().filter_map(|variable| (facts.variable)(variable)) {
        for path in list.split(':').map(Path::new).filter(|path| path.is_absolute()) {
            rules.read_named(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_layer_has_a_name_of_its_own() {
        let mut names: Vec<&str> = CACHES.iter().map(|cache| cache.layer).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), CACHES.len());
    }

    #[test]
    fn nothing_is_listed_twice() {
        let mut paths: Vec<String> = Vec::new();
        paths.extend(TOOLS.iter().map(|tool| format!("{:?} {}", tool.base, tool.path)));
        paths.extend(CACHES.iter().map(|cache| format!("{:?} {}", cache.base, cache.path)));
        let listed = paths.len();
        paths.sort_unstable();
        paths.dedup();
        assert_eq!(paths.len(), listed);
    }
}
