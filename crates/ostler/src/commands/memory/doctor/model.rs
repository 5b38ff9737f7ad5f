//! The model for vectors: whether there is one, whole, that can be used; and how far its vectors have come.

use ostler_memory::embedding::{Cores, EmbedError, Embedder as _, MiniLm};
use ostler_memory::model::{self, Installed};
use ostler_memory::place::Place;
use ostler_memory::store::{Store, StoreError};
use serde::Serialize;

use super::{Finding, Status};
use crate::display;

const INSTALL: &str = "`ostler memory model install`";

/// What was found, for programs. What could not be found out is null.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Looked {
    /// Whether one was installed, whole or not.
    installed: bool,
    /// Whether its files have the sha256 that they should have.
    whole: Option<bool>,
    /// Whether it could be loaded and asked.
    loadable: Option<bool>,
    origin: Option<&'static str>,
    sha256: Option<&'static str>,
    /// Messages that have a vector of it.
    vectors: Option<u64>,
    /// Messages that should have one, and do not yet.
    missing: Option<u64>,
}

/// Looks at the model, and at the vectors in the store if that can be opened.
pub(super) fn look(place: &Place, store: Option<&Store>) -> (Vec<Finding>, Looked) {
    let mut looked = Looked::default();
    let (finding, model) = installed(place, &mut looked);
    let mut findings = vec![finding];
    findings.extend(store.map(|store| match vectors(store, model.as_ref(), &mut looked) {
        Ok(finding) => finding,
        Err(error) => Finding::failed("vectors", &error),
    }));
    (findings, looked)
}

fn installed(place: &Place, looked: &mut Looked) -> (Finding, Option<Installed>) {
    let problem = |detail: String| Finding::new("model", Status::Problem, detail).with_remedy(INSTALL);
    let model = match model::look(place) {
        Ok(None) => {
            let detail = "no model is installed: recall is by words";
            return (Finding::new("model", Status::Note, detail).with_remedy(INSTALL), None);
        }
        Ok(Some(model)) => model,
        Err(error) => {
            (looked.installed, looked.whole) = (true, Some(false));
            return (problem(format!("the model is damaged: {}", display::with_causes(&error))), None);
        }
    };
    looked.installed = true;
    (looked.origin, looked.sha256) = (Some(model.origin()), Some(model.digest()));
    let whole = model.verify();
    looked.whole = Some(whole.is_ok());
    if let Err(error) = whole {
        return (problem(format!("the model is damaged: {}", display::with_causes(&error))), Some(model));
    }
    let asked = asked(&model);
    looked.loadable = Some(asked.is_ok());
    let finding = match asked {
        Ok(()) => Finding::new(
            "model",
            Status::Ok,
            format!("all-MiniLM-L6-v2 ({}) is whole and can be asked", model.origin()),
        ),
        Err(error) => problem(format!("the model cannot be used: {}", display::with_causes(&error))),
    };
    (finding, Some(model))
}

/// Loads it and has it say what something means.
fn asked(model: &Installed) -> Result<(), EmbedError> {
    MiniLm::load(model, Cores::One)?.question("hello").map(|_| ())
}

fn vectors(store: &Store, model: Option<&Installed>, looked: &mut Looked) -> Result<Finding, StoreError> {
    let reached = store.reached()?;
    let is_of_model =
        model.is_none_or(|model| reached.as_ref().is_none_or(|reached| reached.model == model.digest()));
    let had = u64::try_from(store.totals()?.vectors).unwrap_or(0);
    let missing = store.vectors_missing()?;
    let (vectors, missing) = if is_of_model { (had, missing) } else { (0, missing + had) };
    (looked.vectors, looked.missing) = (Some(vectors), Some(missing));
    let told = format!("{vectors} messages have a vector, {missing} have none yet");
    Ok(match (model, missing, is_of_model) {
        (_, 0, _) => Finding::new("vectors", Status::Ok, told),
        // Without a model nobody misses them.
        (None, _, _) => Finding::new("vectors", Status::Ok, told),
        (Some(_), _, true) => {
            Finding::new("vectors", Status::Note, told).with_remedy("`ostler memory drain`")
        }
        (Some(_), _, false) => Finding::new(
            "vectors",
            Status::Note,
            format!("{told}: those that are there are of another model"),
        )
        .with_remedy("`ostler memory drain` makes them anew"),
    })
}
