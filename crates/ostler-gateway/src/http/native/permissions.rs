//! What agents ask, and the answers of people and programs.

use std::sync::Arc;

use axum::extract::{Path, Request as Incoming, State};
use axum::http::{HeaderMap, StatusCode};
use ostler_agent::access::Scope;
use ostler_agent::agent::Decision;

use super::super::Gateway;
use super::super::questions::Question;
use super::shapes::{Permission, Permissions, Ruling, Verdict};
use super::{Told, answer};
use crate::conversations::Settled;
use crate::live::Start;
use crate::wire::{Kind, Problem};

/// What an agent is told where no reason is given.
const NOT_WANTED: &str = "this is not wanted; go on without it";

/// Those that wait.
pub(in super::super) async fn list<S: Start>(
    State(gateway): State<Arc<Gateway<S>>>,
    headers: HeaderMap,
) -> Told {
    let (_, tenant) = gateway.enter(&headers, Scope::SessionsRead)?;
    let permissions = gateway.questions.list(tenant.as_deref()).into_iter().map(told).collect();
    Ok(answer(StatusCode::OK, &Permissions { permissions }))
}

fn told(question: Question) -> Permission {
    Permission {
        id: question.id,
        session: question.conversation.id().to_owned(),
        turn: question.turn,
        tool: question.tool,
        input: question.input,
        text: question.text,
    }
}

/// Answers one.
pub(in super::super) async fn settle<S: Start>(
    State(gateway): State<Arc<Gateway<S>>>,
    Path(id): Path<String>,
    incoming: Incoming,
) -> Told {
    let (visitor, tenant) = gateway.enter(incoming.headers(), Scope::SessionsWrite)?;
    let (verdict, _): (Verdict, _) = gateway.read_shape(&visitor, incoming).await?;
    let absent = || Problem::new(Kind::Absent, "no such question waits for an answer").about("permission");
    let waiting = gateway.questions.list(tenant.as_deref());
    let question = waiting.into_iter().find(|question| question.id == id).ok_or_else(absent)?;
    let (decision, outcome) = decided(&question, verdict)?;
    if matches!(decision, Decision::Allow(_)) && !visitor.key.policy.may_allow() {
        let message = "this key may not allow an agent more than its own permissions";
        return Err(Problem::new(Kind::Forbidden, message).into());
    }
    if !gateway.questions.settle(&id, decision, outcome) {
        return Err(absent().into());
    }
    Ok(answer(StatusCode::OK, &told(question)))
}

/// What the agent is told. What is not about a tool is answered with words, which agents take as a refusal with a reason.
fn decided(question: &Question, verdict: Verdict) -> Result<(Decision, Settled), Problem> {
    let Verdict { decision, message, input } = verdict;
    let is_tool = question.tool.is_some();
    match decision {
        Ruling::Allow if is_tool => {
            let input = input.or_else(|| question.input.clone()).unwrap_or_default();
            Ok((Decision::Allow(input), Settled::Allowed))
        }
        Ruling::Allow => {
            Err(Problem::invalid("this asks for an answer, not for a permission").about("decision"))
        }
        Ruling::Deny => {
            Ok((Decision::Deny(message.unwrap_or_else(|| NOT_WANTED.to_owned())), Settled::Denied))
        }
        Ruling::Answer => {
            let words = message.filter(|words| !words.is_empty());
            let words = words.ok_or_else(|| Problem::invalid("an answer has words").about("message"))?;
            Ok((Decision::Deny(format!("the user answers: {words}")), Settled::Answered))
        }
    }
}
