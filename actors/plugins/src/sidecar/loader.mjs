// How Node finds and reads the modules of plugins. Runs in Node's thread for module hooks.
//
// As in OpenCode (that is, Bun): TypeScript is read, an import may leave its extension out, JSON and texts can be
// imported, and packages of all the places Troupe names are found.

import fs from "node:fs"
import module, { createRequire } from "node:module"
import path from "node:path"
import { fileURLToPath, pathToFileURL } from "node:url"

let settings
let strip

/** Takes over where packages and stand-ins are. */
export function initialize(data) {
  settings = data
}

export async function resolve(specifier, context, next) {
  if (specifier.startsWith("troupe-as:")) {
    const [name, parentURL] = JSON.parse(specifier.slice("troupe-as:".length))
    return await resolve(name, { ...context, parentURL }, next)
  }
  if (specifier === "bun") return { url: settings.bun, format: "module", shortCircuit: true }
  try {
    return await next(specifier, context)
  } catch (error) {
    const found = isPath(specifier) ? beside(specifier, context.parentURL) : await elsewhere(specifier, context, next)
    if (found) return found
    throw error
  }
}

function isPath(specifier) {
  return specifier.startsWith(".") || specifier.startsWith("/") || specifier.startsWith("file:")
}

/** A file without its extension, or with that of what it will be compiled to. */
function beside(specifier, parentURL) {
  if (!parentURL?.startsWith("file:") && !specifier.startsWith("file:")) return
  const base = fileURLToPath(new URL(specifier, parentURL))
  const bare = base.replace(/\.(js|mjs|cjs|jsx)$/, "")
  const endings = [".ts", ".mts", ".cts", ".js", ".mjs", ".json", "/index.ts", "/index.js"]
  const candidates = [...endings.map((ending) => base + ending), ...[".ts", ".mts", ".cts"].map((ending) => bare + ending)]
  const file = candidates.find((candidate) => fs.statSync(candidate, { throwIfNoEntry: false })?.isFile())
  return file && { url: pathToFileURL(file).href, shortCircuit: true }
}

/** A package that isn't installed where it is asked for. */
async function elsewhere(specifier, context, next) {
  for (const root of settings.roots) {
    try {
      const parentURL = pathToFileURL(path.join(root, "package.json")).href
      return await next(specifier, { ...context, parentURL })
    } catch {
      // The next one.
    }
  }
  if (specifier === "@opencode-ai/plugin" || specifier === "@opencode-ai/plugin/tool") {
    return { url: settings.standIn, format: "module", shortCircuit: true }
  }
}

export async function load(url, context, next) {
  if (url.startsWith("file:")) {
    const file = fileURLToPath(url)
    const read = () => fs.readFileSync(file, "utf8")
    if (/\.[mc]?ts$/.test(file)) return asModule(withoutTypes(read(), file))
    if (file.endsWith(".json") && context.format !== "commonjs") return asModule(`export default ${read()}`)
    if (/\.(txt|md)$/.test(file)) return asModule(`export default ${JSON.stringify(read())}`)
    if (file.endsWith(".js") && !file.includes("/node_modules/") && context.format !== "module") {
      // Older versions of Node take it for CommonJS where no package.json says otherwise.
      const source = read()
      if (/^\s*(import|export)\b/m.test(source)) return asModule(source)
    }
  }
  return await next(url, context)
}

function asModule(source) {
  return { format: "module", source, shortCircuit: true }
}

function withoutTypes(source, file) {
  strip ??= findStripper()
  if (!strip) {
    throw new Error(
      `${path.basename(file)} is TypeScript, which Node ${process.versions.node} can't read: use Node 22.13 or later, ` +
        `or Bun, or install one of amaro, esbuild, typescript, sucrase beside it`,
    )
  }
  return strip(source, file)
}

/** What takes types out: Node itself, else a package that does. */
function findStripper() {
  if (typeof module.stripTypeScriptTypes === "function") {
    return (source) => {
      try {
        return module.stripTypeScriptTypes(source)
      } catch {
        // Enums and the like are more than types.
        return module.stripTypeScriptTypes(source, { mode: "transform" })
      }
    }
  }
  for (const root of settings.roots) {
    const require = createRequire(path.join(root, "package.json"))
    const found = (name) => {
      try {
        return require(name)
      } catch {
        return undefined
      }
    }
    const amaro = found("amaro")
    if (amaro) return (source) => amaro.transformSync(source, { mode: "transform" }).code
    const esbuild = found("esbuild")
    if (esbuild) return (source, file) => esbuild.transformSync(source, { loader: "ts", sourcefile: file }).code
    const typescript = found("typescript")
    if (typescript) {
      const compilerOptions = {
        module: typescript.ModuleKind.ESNext,
        target: typescript.ScriptTarget.ES2022,
        verbatimModuleSyntax: false,
      }
      return (source, fileName) => typescript.transpileModule(source, { fileName, compilerOptions }).outputText
    }
    const sucrase = found("sucrase")
    if (sucrase) return (source) => sucrase.transform(source, { transforms: ["typescript"] }).code
  }
}
