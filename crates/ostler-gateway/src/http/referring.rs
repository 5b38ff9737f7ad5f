//! What a request of the Responses API means without sending it: parts of answers that are kept, by their ids, and what
//! was said to the model before them.

use std::collections::HashMap;

use serde_json::Value;

use super::Gateway;
use super::responses::{kept, told};
use crate::live::Start;
use crate::wire::{Format, Problem, Request};

/// Stands for a part of an answer.
const REFERENCE: &str = "item_reference";

/// How the ids of parts begin, before that of their turn.
const PARTS: [&str; 3] = ["msg_", FUNCTION, CUSTOM];
const FUNCTION: &str = "fc_";
/// A call of a custom tool, which is kept as one of a function with one text.
const CUSTOM: &str = "ctc_";

/// How the ids of answers begin.
const ANSWER: &str = "resp_";

impl<S: Start> Gateway<S> {
    /// The body with what it refers to; nothing, where it refers to nothing.
    pub(super) async fn unreferred(
        &self,
        format: Format,
        tenant: &str,
        body: &Value,
    ) -> Result<Option<Value>, Problem> {
        let is_reference = |item: &Value| item["type"] == REFERENCE;
        let items = body["input"].as_array().map(Vec::as_slice).unwrap_or_default();
        if format != Format::Responses || !items.iter().any(is_reference) {
            return Ok(None);
        }
        let (mut items, mut answers) = (items.to_vec(), HashMap::new());
        for (at, item) in items.iter_mut().enumerate().filter(|(_, item)| is_reference(item)) {
            let id = item["id"].as_str().unwrap_or_default();
            match self.part(tenant, id, &mut answers).await {
                Some(part) => *item = part,
                None => {
                    let message =
                        format!("there is no item `{id}`: it was never told, or is not kept any more");
                    return Err(Problem::invalid(&message).about(&format!("input[{at}]")));
                }
            }
        }
        let mut body = body.clone();
        body["input"] = Value::Array(items);
        Ok(Some(body))
    }

    /// A part of an answer. Each answer is read once.
    async fn part(&self, tenant: &str, id: &str, answers: &mut HashMap<String, Value>) -> Option<Value> {
        let (turn, _) = PARTS.iter().find_map(|prefix| id.strip_prefix(prefix))?.split_once('_')?;
        if !answers.contains_key(turn) {
            let conversation = self.conversations.of_turn(Some(tenant), turn)?;
            answers.insert(turn.to_owned(), told(turn, &kept(&conversation, turn).await.ok()?));
        }
        let parts = answers.get(turn)?["output"].as_array()?;
        let kept_id = id.strip_prefix(CUSTOM).map_or(id.to_owned(), |rest| format!("{FUNCTION}{rest}"));
        parts.iter().find(|part| part["id"] == kept_id).cloned()
    }

    /// What was said to the model among what was asked stays said in the answers that follow. Instructions do not: they
    /// are each request's own.
    pub(super) fn carry(&self, tenant: &str, request: &mut Request) {
        let turn = request.follows.as_deref().and_then(|follows| follows.strip_prefix(ANSWER));
        let before = turn.and_then(|turn| self.conversations.of_turn(Some(tenant), turn));
        if let Some(carried) = before.and_then(|before| before.opening.carried.clone()) {
            let more = request.carried.take();
            request.carried = Some(more.map_or(carried.clone(), |more| format!("{carried}\n\n{more}")));
        }
    }
}
