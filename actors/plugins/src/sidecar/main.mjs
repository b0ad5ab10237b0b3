// The sidecar: loads tools and plugins written for OpenCode, and runs them on demand. Started by Troupe, spoken to in
// lines of JSON over a socket that is its standard input; what plugins print stays on standard output, for the log.

import { isBun, prepareModules } from "./modules.mjs"
import { answer, listen, messageOf, notify, onEnd, serve } from "./wire.mjs"
import { loadAll } from "./load.mjs"
import { runDispose, runEvent, runHook } from "./hooks.mjs"
import { runTool, cancelTool } from "./tools.mjs"

// A promise that nobody waits for, or a callback that throws, is its plugin's trouble, not everybody's.
process.on("unhandledRejection", (reason) => console.error("an error nobody waited for:", reason))
process.on("uncaughtException", (error) => console.error("an error nobody caught:", error))

/** What was loaded: set once. */
let loaded

const methods = {
  async load(settings) {
    prepareModules(settings.roots)
    loaded = await loadAll(settings)
    const runtime = isBun ? `bun ${process.versions.bun}` : `node ${process.versions.node}`
    return {
      runtime,
      tools: [...loaded.tools.values()].map(({ id, description, parameters, source }) => ({
        id,
        description,
        parameters,
        source,
      })),
      hooks: loaded.hooks.names(),
      failed: loaded.failed,
    }
  },
  hook: (params) => runHook(loaded, params),
  tool: (params, id) => runTool(loaded, params, id),
  ping: () => null,
}

serve("event", (params) => runEvent(loaded, params))
serve("cancel", (params) => cancelTool(params.id))
onEnd(() => runDispose(loaded))

listen(async ({ id, method, params }) => {
  try {
    if (!Object.hasOwn(methods, method)) throw new Error(`the sidecar knows no method ${method}`)
    answer(id, { result: (await methods[method](params, id)) ?? null })
  } catch (error) {
    answer(id, { error: { message: messageOf(error) } })
  }
})

notify("ready", {})
