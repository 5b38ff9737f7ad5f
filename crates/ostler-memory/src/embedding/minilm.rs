//! all-MiniLM-L6-v2 by `rten`: six layers, 384 numbers, trained on texts of up to 256 pieces.

use std::path::Path;
use std::sync::Arc;

use rten::{Model, ModelOptions, NodeId, RunOptions, ThreadPool, ValueOrView, op_registry};
use rten_tensor::{AsView as _, NdTensor};

use super::{DIMENSIONS, EmbedError, Embedder, Vector, Vocabulary};
use crate::model::Installed;

/// Pieces of one part of a text; with its frame, fewer than the model was trained with. Its time grows with them.
const PIECES: usize = 192;

/// Parts of a message that get a vector. What comes later is found by its words.
const PARTS: usize = 6;

/// How many cores it may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cores {
    /// All: somebody waits.
    All,
    /// One: nobody does.
    One,
}

/// The model, loaded: about 100 MB.
pub struct MiniLm {
    model: Model,
    name: String,
    vocabulary: Vocabulary,
    pieces: NodeId,
    mask: Option<NodeId>,
    kinds: Option<NodeId>,
    pool: Option<Arc<ThreadPool>>,
}

impl std::fmt::Debug for MiniLm {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("MiniLm").field("name", &self.name).finish_non_exhaustive()
    }
}

impl MiniLm {
    /// Loads an installed model, in part of a second.
    pub fn load(installed: &Installed, cores: Cores) -> Result<Self, EmbedError> {
        let read = |path: &Path| {
            std::fs::read(path).map_err(|source| EmbedError::Read { path: path.to_owned(), source })
        };
        let vocabulary = read(&installed.vocabulary())?;
        let vocabulary = Vocabulary::parse(&String::from_utf8_lossy(&vocabulary))?;
        // What the known exports are made of. All operators would make the program larger by megabytes.
        let operators = op_registry!(
            Add,
            And,
            Cast,
            Concat,
            ConstantOfShape,
            DequantizeLinear,
            Div,
            DynamicQuantizeLinear,
            Equal,
            Erf,
            Expand,
            Gather,
            GatherND,
            Gelu,
            Greater,
            GreaterOrEqual,
            Identity,
            IsNaN,
            LayerNormalization,
            MatMul,
            MatMulInteger,
            Max,
            Mul,
            Not,
            Pow,
            Range,
            ReduceMean,
            Reshape,
            Shape,
            Slice,
            Softmax,
            Split,
            Sqrt,
            Squeeze,
            Sub,
            Tanh,
            Transpose,
            Unsqueeze,
            Where
        );
        let loaded = ModelOptions::with_ops(operators).load_file(installed.weights());
        let model = loaded.map_err(|error| EmbedError::Load(Box::new(error)))?;
        let input = |name: &str| {
            let is_named = |id: &&NodeId| model.node_info(**id).and_then(|node| node.name()) == Some(name);
            model.input_ids().iter().find(is_named).copied()
        };
        Ok(Self {
            pieces: input("input_ids").ok_or_else(|| EmbedError::Run("it takes no pieces".to_owned()))?,
            mask: input("attention_mask"),
            kinds: input("token_type_ids"),
            name: installed.digest().to_owned(),
            pool: (cores == Cores::One).then(|| Arc::new(ThreadPool::with_num_threads(1))),
            vocabulary,
            model,
        })
    }

    fn vector(&self, pieces: &[i32]) -> Result<Vector, EmbedError> {
        let failed = |error: &dyn std::fmt::Display| EmbedError::Run(error.to_string());
        let framed = self.vocabulary.framed(pieces);
        let count = framed.len();
        let mut inputs: Vec<(NodeId, ValueOrView<'_>)> =
            vec![(self.pieces, NdTensor::from_data([1, count], framed).into())];
        let constant = |value: i32| NdTensor::from_data([1, count], vec![value; count]);
        inputs.extend(self.mask.map(|node| (node, constant(1).into())));
        inputs.extend(self.kinds.map(|node| (node, constant(0).into())));
        let options = RunOptions::default().with_thread_pool(self.pool.clone());
        let outputs = self.model.output_ids().first().copied().into_iter().collect::<Vec<_>>();
        let answer = self.model.run(inputs, &outputs, Some(options)).map_err(|error| failed(&error))?;
        let hidden = answer.into_iter().next().and_then(|value| value.into_tensor::<f32>());
        let numbers = hidden.map(|tensor| tensor.to_vec()).unwrap_or_default();
        if numbers.len() != count * DIMENSIONS {
            return Err(EmbedError::Run(format!("it gave {} numbers for {count} pieces", numbers.len())));
        }
        let mut mean = vec![0.0_f32; DIMENSIONS];
        for piece in numbers.chunks_exact(DIMENSIONS) {
            for (sum, number) in mean.iter_mut().zip(piece) {
                *sum += number;
            }
        }
        Vector::of(&mean).ok_or_else(|| EmbedError::Run("it gave no direction".to_owned()))
    }
}

impl Embedder for MiniLm {
    fn model(&self) -> &str {
        &self.name
    }

    fn question(&mut self, text: &str) -> Result<Vector, EmbedError> {
        self.vector(&self.vocabulary.pieces(text, PIECES))
    }

    fn message(&mut self, text: &str) -> Result<Vec<Vector>, EmbedError> {
        let pieces = self.vocabulary.pieces(text, PIECES * PARTS);
        if pieces.is_empty() {
            return Ok(Vec::new());
        }
        pieces.chunks(PIECES).map(|part| self.vector(part)).collect()
    }
}
