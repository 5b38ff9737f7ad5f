//! What a contained agent did between two looks, as its watchdog wants it.

use ostler_agent::watchdog::Input;

use super::connections::Connections;
use super::{Contained, TreeSample};

/// Looks at an agent now and then, and remembers what it saw.
#[derive(Debug, Default)]
pub struct Sampler {
    tree: TreeSample,
    connections: Connections,
}

impl Sampler {
    /// What the agent did since the last look, or since its start. Takes a few milliseconds: ask when the agent is quiet,
    /// not all the time.
    pub fn sample(&mut self, child: &Contained) -> Input {
        let (tree, connections) = (child.sample(), Connections::of_process(child.pid(), child.diagnosis()));
        let sample = Input::TreeSample {
            cpu: tree.cpu.saturating_sub(self.tree.cpu),
            io: tree.io_bytes.saturating_sub(self.tree.io_bytes),
            received: connections.received_since(&self.connections),
        };
        (self.tree, self.connections) = (tree, connections);
        sample
    }
}
