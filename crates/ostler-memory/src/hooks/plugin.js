// Written by `ostler memory hooks install`; `ostler memory hooks uninstall` removes it.
// Tells Ostler that a session has something new. Never throws, never waits for long.
const program = "@PROGRAM@";
const home = "@HOME@";

export const OstlerMemory = async ({ directory }) => ({
  event: async ({ event }) => {
    if (event.type !== "session.idle") return;
    try {
      const data = process.env.XDG_DATA_HOME ?? `${process.env.HOME}/.local/share`;
      const told = JSON.stringify({
        hook_event_name: "session.idle",
        source: "opencode",
        session_id: event.properties.sessionID,
        transcript_path: `${data}/opencode/opencode.db`,
        cwd: directory,
      });
      const child = Bun.spawn([program, "memory", "hook", "stop"], {
        stdin: new Blob([told]),
        stdout: "ignore",
        stderr: "ignore",
        env: home === null ? process.env : { ...process.env, OSTLER_HOME: home },
        timeout: 5000,
      });
      await child.exited;
    } catch {}
  },
});
