//! What a text means, as a vector: texts that mean the same are near each other, whatever their words. The model is a
//! file that users fetch ([`crate::model`]); without it nothing here is used.

mod minilm;
mod vector;
mod wordpiece;

use std::fmt;

pub use minilm::{Cores, MiniLm};
pub use vector::{Bits, DIMENSIONS, Vector, distance};
pub(crate) use vector::{bits_from_bytes, bits_to_bytes};
pub use wordpiece::Vocabulary;

/// Makes vectors of texts. The same text has the same vector, always.
pub trait Embedder: fmt::Debug + Send {
    /// Which model it is: vectors of two models have nothing to do with each other.
    fn model(&self) -> &str;

    /// What a question means. The end of a long one does not count.
    fn question(&mut self, text: &str) -> Result<Vector, EmbedError>;

    /// What a message means, piece by piece; a short one is one piece, and a very long one is not read to its end.
    fn message(&mut self, text: &str) -> Result<Vec<Vector>, EmbedError>;
}

/// Why a text has no vector.
#[derive(Debug, thiserror::Error)]
pub enum EmbedError {
    /// A file of the model could not be read.
    #[error("could not read the model's `{}`", .path.display())]
    Read {
        /// The file.
        path: std::path::PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The weights are not what they should be.
    #[error("could not load the model")]
    Load(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The vocabulary lacks what every text needs.
    #[error("the vocabulary has no `{0}`")]
    Vocabulary(&'static str),
    /// The model failed, or answered something strange.
    #[error("the model failed: {0}")]
    Run(String),
}

impl EmbedError {
    /// What to try.
    pub fn hint(&self) -> Option<String> {
        Some("`ostler memory model install` fetches it anew; recall goes on by words meanwhile".to_owned())
    }
}
