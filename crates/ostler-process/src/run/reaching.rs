//! How a process that was just started is reached.

use std::ffi::OsString;

use ostler_agent::agent::{Refusal, Stdin};

use super::Run;
use super::attempt::Attempt;
use super::clock;
use super::round::{Contact, OnTerminal, Pipes, Tools, Transcript};
use crate::contain::Contained;
use crate::terminal::driver::{Driver, Start};
use crate::terminal::files::Whence;

impl<'a> Run<'a> {
    /// The way to it, with what it is to be told first.
    pub(super) fn contact(
        &self,
        child: &mut Contained,
        attempt: &Attempt,
        stdin: Stdin,
        env: Vec<(OsString, OsString)>,
    ) -> Result<Contact<'a>, Refusal> {
        let plan = self.plan;
        let before = attempt.resumed.as_ref().and_then(|_| self.ledger.spent());
        let mut decoder = plan.agent.decoder(before);
        decoder.clock(clock::shown());
        if plan.needs_prices() {
            decoder.set_prices(plan.prices.clone().with_observed(self.observed.clone()));
        }
        let (Some(pty), Some(interactive)) = (child.terminal.take(), plan.agent.interactive()) else {
            let transcript = Transcript::new(plan, self.session.as_deref());
            return Ok(Contact::Pipes(Box::new(Pipes::new(child, stdin, decoder, transcript))));
        };
        let driver = Driver::new(Start {
            agent: plan.agent,
            interactive,
            decoder,
            pty,
            size: plan.terminal_size,
            whence: Whence {
                env,
                workspace: plan.workspace.clone(),
                policy: plan.jail.as_ref().and_then(|jail| jail.substitutes()).cloned(),
                files: plan.jail.as_ref().map(|jail| jail.files.clone()).unwrap_or_default(),
            },
            own_pid: child.own_pid().unwrap_or(child.pid()),
            pid: child.pid(),
            session: plan.session_of(attempt),
            permissions: plan.answered_permissions(),
        });
        let tools = if self.bridge.is_some() { Tools::AtTheBridge } else { Tools::None };
        let prompt = plan.typed(&attempt.prompt)?;
        Ok(Contact::Terminal(Box::new(OnTerminal::new(self.desk.now(), driver, prompt, tools))))
    }
}
