// Running tools.

import { ask, notify } from "./wire.mjs"

/** Calls that run, by the id of the request. */
const running = new Map()

/** Runs a call. */
export async function runTool(loaded, { tool, args, context }, id) {
  const found = loaded.tools.get(tool)
  if (!found) throw new Error(`there is no tool ${tool} here any more`)
  const checked = found.check(args)
  if (checked.problem) return { invalid: checked.problem }
  notify("at", { plugin: found.source, name: tool })
  const stop = new AbortController()
  running.set(id, stop)
  const cx = {
    ...context,
    directory: loaded.directory,
    worktree: loaded.worktree,
    abort: stop.signal,
    metadata: ({ title, metadata } = {}) => notify("progress", { call: id, title, metadata }),
    ask: (request) => ask("ask", { call: id, ...request }),
  }
  try {
    return shaped(await found.execute(checked.args, cx))
  } finally {
    running.delete(id)
  }
}

/** Stops a call: its tool is told by its signal. */
export function cancelTool(id) {
  running.get(id)?.abort(new Error("the call was aborted"))
}

/** The result as Troupe takes it. Tools give a text, or an object with more; what else they give is shown as JSON. */
function shaped(result) {
  if (typeof result === "string") return { output: result }
  if (result === undefined || result === null) return { output: "" }
  if (typeof result === "object" && typeof result.output === "string") {
    const { title, output, metadata, attachments } = result
    return { title, output, metadata, attachments }
  }
  return { output: JSON.stringify(result) ?? String(result) }
}
