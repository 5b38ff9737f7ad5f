//! Memory as an MCP server on standard input and output.

use std::io::{self, BufReader};
use std::process::ExitCode;

use ostler_bridge::memory::MemoryServer;
use ostler_memory::place::Place;

use crate::failure::Failure;
use crate::surroundings::Surroundings;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ostler memory mcp
  claude mcp add memory -- ostler memory mcp

The tools: memory_search, memory_timeline, memory_get, memory_recall, memory_remember,
memory_correct, memory_pin, memory_forget, memory_status.")]
pub(super) struct McpArgs {}

pub(super) fn run(_args: McpArgs, here: &Surroundings, place: Place) -> Result<ExitCode, Failure> {
    let server = MemoryServer::new(place, &here.cwd);
    server.serve(BufReader::new(io::stdin()), io::stdout().lock()).map_err(Failure::Output)?;
    Ok(ExitCode::SUCCESS)
}
