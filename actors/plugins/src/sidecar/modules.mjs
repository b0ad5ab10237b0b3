// Finding and importing modules: packages of the places Troupe names, TypeScript, and stand-ins for what OpenCode has
// built in (`@opencode-ai/plugin`, `bun`).

import fs from "node:fs"
import module from "node:module"
import path from "node:path"
import { fileURLToPath, pathToFileURL } from "node:url"

/** Whether this is Bun, not Node. */
export const isBun = process.versions.bun !== undefined

const STAND_INS = ["@opencode-ai/plugin", "@opencode-ai/plugin/tool"]
const INDEX_FILES = ["index.ts", "index.tsx", "index.js", "index.mjs", "index.cjs"]
/** Which entry of a package's `exports` counts. */
const CONDITIONS = [...(isBun ? ["bun"] : []), "import", "node", "module", "default", "require"]

let roots = []

/** Sets up how modules are found. `places` are directories with a `node_modules`, the first one counts. */
export function prepareModules(places) {
  roots = places
  if (isBun) {
    findInBun()
    return
  }
  // Bun has it in all modules.
  globalThis.require ??= module.createRequire(path.join(roots[0] ?? process.cwd(), "package.json"))
  module.register("./loader.mjs", import.meta.url, { data: { roots, standIn: standInUrl(), bun: bunUrl() } })
}

function standInUrl() {
  return new URL("./standin.mjs", import.meta.url).href
}

function bunUrl() {
  return new URL("./bun.mjs", import.meta.url).href
}

/** Bun reads TypeScript itself. Of packages only OpenCode's own is found in all places, or stood in for. */
function findInBun() {
  const placeOf = (name) => {
    for (const root of roots) {
      try {
        return Bun.resolveSync(name, root)
      } catch {
        // The next one.
      }
    }
    return fileURLToPath(standInUrl())
  }
  Bun.plugin({
    name: "troupe",
    setup(build) {
      for (const name of STAND_INS) {
        build.module(name, async () => ({ exports: await import(placeOf(name)), loader: "object" }))
      }
    },
  })
}

/** Imports a file. */
export async function importFile(file) {
  if (!isBun) globalThis.Bun ??= (await import("./bun.mjs")).default
  return await import(pathToFileURL(file).href)
}

/** Imports a package as the file `from` would; none where it isn't installed. */
export async function importAs(from, name) {
  try {
    if (isBun) return await import(STAND_INS.includes(name) ? name : Bun.resolveSync(name, path.dirname(from)))
    return await import(`troupe-as:${JSON.stringify([name, pathToFileURL(from).href])}`)
  } catch {
    return undefined
  }
}

/** The zod that a file makes its schemas with. */
export async function findZod(file) {
  const isZod = (z) => typeof z?.toJSONSchema === "function"
  const plugin = await importAs(file, "@opencode-ai/plugin")
  const own = await importAs(file, "zod")
  const v4 = await importAs(file, "zod/v4")
  return [plugin?.tool?.schema, own?.z, own, v4?.z, v4].find(isZod)
}

/** The `$` of plugins, for a directory. */
export async function shell(directory) {
  if (isBun) return Bun.$.cwd ? new Bun.$.Shell().cwd(directory) : Bun.$
  return (await import("./shell.mjs")).makeShell({ cwd: directory })
}

/** The file of a plugin: a path, a `file:` url, or an installed package (`name` or `name@version`). */
export async function entryOf(spec, places) {
  if (spec.startsWith("file:") || path.isAbsolute(spec)) {
    const file = spec.startsWith("file:") ? fileURLToPath(spec) : spec
    const stat = fs.statSync(file, { throwIfNoEntry: false })
    if (!stat) throw new Error(`there is no file ${file}`)
    return stat.isDirectory() ? entryOfDirectory(file) : file
  }
  const name = nameOf(spec)
  for (const root of places) {
    const directory = path.join(root, "node_modules", name)
    if (fs.existsSync(path.join(directory, "package.json"))) return entryOfDirectory(directory)
  }
  throw new Error(`the package is not installed; run "npm install ${spec}" in ${places[0]}`)
}

/** The name of a package in `name@version`. */
function nameOf(spec) {
  const at = spec.lastIndexOf("@")
  const plain = at > 0 ? spec.slice(0, at) : spec
  return plain.startsWith("npm:") ? plain.slice(4) : plain
}

function entryOfDirectory(directory) {
  const manifest = path.join(directory, "package.json")
  const json = fs.existsSync(manifest) ? JSON.parse(fs.readFileSync(manifest, "utf8")) : {}
  const exported = json.exports
  const named = typeof exported === "object" && exported !== null && Object.keys(exported).some((key) => key.startsWith("."))
  const main = named ? (exported["./server"] ?? exported["."]) : exported
  const candidates = [pick(main), json.module, json.main, ...INDEX_FILES].filter((name) => typeof name === "string")
  for (const candidate of candidates) {
    for (const suffix of ["", ".js", ".mjs", "/index.js"]) {
      const file = path.join(directory, candidate + suffix)
      if (fs.statSync(file, { throwIfNoEntry: false })?.isFile()) return file
    }
  }
  throw new Error(`${directory} has no entry file`)
}

function pick(target) {
  if (typeof target === "string" || target === undefined || target === null) return target
  if (Array.isArray(target)) return target.map(pick).find((found) => found)
  for (const condition of CONDITIONS) {
    const found = pick(target[condition])
    if (found) return found
  }
}
