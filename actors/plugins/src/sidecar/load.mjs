// Loading: which modules there are is said by Troupe; what they export is found out here. Formats and order are
// OpenCode's: a tool file's default export is called as the file, others `<file>_<name>`; a plugin is a function, or an
// object with a function `server`.

import path from "node:path"
import { makeClient } from "./client.mjs"
import { Hooks, within } from "./hooks.mjs"
import { entryOf, findZod, importFile, shell } from "./modules.mjs"
import { checker, parametersOf } from "./schema.mjs"
import { messageOf, notify } from "./wire.mjs"

/** Loads everything. What fails is named, and the rest is loaded. */
export async function loadAll(settings) {
  const loaded = {
    directory: settings.directory,
    worktree: settings.worktree,
    tools: new Map(),
    hooks: new Hooks(),
    failed: [],
  }
  const attempt = async (source, load) => {
    notify("at", { plugin: source, name: "load" })
    try {
      await within(settings.limit, load())
    } catch (error) {
      loaded.failed.push({ source, message: messageOf(error) })
    }
  }
  for (const file of settings.tools) await attempt(file, () => loadTools(file, loaded))
  if (settings.plugins.length > 0) {
    const input = await inputOf(settings)
    for (const { spec, options } of settings.plugins) {
      await attempt(spec, () => loadPlugin(spec, options, input, settings, loaded))
    }
  }
  return loaded
}

async function loadTools(file, loaded) {
  const exported = await importFile(file)
  const name = path.basename(file, path.extname(file))
  for (const [key, value] of Object.entries(exported)) {
    if (isTool(value)) await addTool(key === "default" ? name : `${name}_${key}`, value, file, file, loaded)
  }
}

function isTool(value) {
  return typeof value === "object" && value !== null && "description" in value && typeof value.execute === "function"
}

async function addTool(id, tool, source, file, loaded) {
  const zod = await findZod(file)
  loaded.tools.set(id, {
    id,
    description: String(tool.description ?? ""),
    parameters: parametersOf(tool.args ?? {}, zod),
    check: checker(tool.args ?? {}, zod),
    execute: tool.execute.bind(tool),
    source,
  })
}

async function loadPlugin(spec, options, input, settings, loaded) {
  const file = await entryOf(spec, settings.roots)
  const exported = await importFile(file)
  for (const start of startersOf(exported, spec)) {
    const hooks = await start(input, options ?? undefined)
    if (typeof hooks !== "object" || hooks === null) continue
    loaded.hooks.add(spec, hooks)
    for (const [id, tool] of Object.entries(hooks.tool ?? {})) {
      if (isTool(tool)) await addTool(id, tool, spec, file, loaded)
    }
    for (const key of ["auth", "provider"]) {
      if (key in hooks) loaded.failed.push({ source: spec, message: `its ${key} hook is not supported; the rest of it is used` })
    }
  }
}

/** The functions of a module that start plugins. */
function startersOf(exported, spec) {
  const main = exported.default
  if (typeof main === "object" && main !== null && ("id" in main || "server" in main || "tui" in main)) {
    if (typeof main.server !== "function") throw new Error(`its default export has no function server()`)
    return [main.server.bind(main)]
  }
  const values = [...new Set(Object.values(exported))]
  const starters = values.map((value) => (typeof value === "function" ? value : value?.server))
  if (starters.length === 0) throw new Error(`${spec} exports nothing`)
  if (!starters.every((start) => typeof start === "function")) {
    throw new Error("a plugin module may export plugin functions only")
  }
  return starters
}

/** What plugins are given. */
async function inputOf(settings) {
  const { directory, worktree, project } = settings
  const serverUrl = new URL(settings.serverUrl)
  return {
    client: await makeClient(settings),
    project,
    directory,
    worktree,
    serverUrl,
    experimental_workspace: { register() {} },
    $: await shell(directory),
  }
}

