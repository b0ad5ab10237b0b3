// Stands in for `bun` on Node: the parts of it that plugins use most, since OpenCode's plugins may count on it.

import { spawn, spawnSync } from "node:child_process"
import fs from "node:fs"
import path from "node:path"
import { Readable } from "node:stream"
import { fileURLToPath, pathToFileURL } from "node:url"
import { makeShell } from "./shell.mjs"

export const $ = makeShell({})

/** A file that is read when it is asked for. */
export function file(place) {
  const name = place instanceof URL ? fileURLToPath(place) : String(place)
  const read = () => fs.promises.readFile(name)
  return {
    name,
    get size() {
      return fs.statSync(name, { throwIfNoEntry: false })?.size ?? 0
    },
    get lastModified() {
      return fs.statSync(name, { throwIfNoEntry: false })?.mtimeMs ?? 0
    },
    exists: async () => fs.statSync(name, { throwIfNoEntry: false })?.isFile() ?? false,
    text: async () => (await read()).toString("utf8"),
    json: async () => JSON.parse((await read()).toString("utf8")),
    bytes: async () => new Uint8Array(await read()),
    arrayBuffer: async () => new Uint8Array(await read()).buffer,
    stream: () => Readable.toWeb(fs.createReadStream(name)),
    write: (data) => write(name, data),
    delete: () => fs.promises.unlink(name),
    unlink: () => fs.promises.unlink(name),
  }
}

/** Writes a file, its directories too. */
export async function write(place, data) {
  const name = place instanceof URL ? fileURLToPath(place) : (place?.name ?? String(place))
  const isBody = data instanceof Response || data instanceof Blob
  const bytes = isBody ? Buffer.from(await data.arrayBuffer()) : typeof data?.bytes === "function" ? await data.bytes() : data
  await fs.promises.mkdir(path.dirname(name), { recursive: true })
  await fs.promises.writeFile(name, bytes)
  return Buffer.byteLength(bytes)
}

/** Finds files by pattern: `*`, `**`, `?`, `{a,b}`, `[ab]`. */
export class Glob {
  #pattern

  constructor(pattern) {
    const special = /\*\*\/|\*\*|\*|\?|\{|\}|,|\[|\]|[.+^$()|\\]/g
    let depth = 0
    const source = pattern.replace(special, (mark) => {
      if (mark === "**/") return "(?:.*/)?"
      if (mark === "**") return ".*"
      if (mark === "*") return "[^/]*"
      if (mark === "?") return "[^/]"
      if (mark === "{") return (depth++, "(?:")
      if (mark === "}") return (depth--, ")")
      if (mark === ",") return depth > 0 ? "|" : ","
      if (mark === "[" || mark === "]") return mark
      return `\\${mark}`
    })
    this.#pattern = new RegExp(`^${source}$`, "s")
  }

  match(text) {
    return this.#pattern.test(text)
  }

  *scanSync(options = {}) {
    const { cwd = process.cwd(), absolute, onlyFiles = true, dot, followSymlinks } =
      typeof options === "string" ? { cwd: options } : options
    const seen = new Set()
    const visit = function* (below) {
      const directory = path.join(cwd, below)
      const real = fs.realpathSync(directory)
      if (seen.has(real)) return
      seen.add(real)
      for (const entry of fs.readdirSync(directory, { withFileTypes: true })) {
        if (!dot && entry.name.startsWith(".")) continue
        const name = below ? `${below}/${entry.name}` : entry.name
        const target = entry.isSymbolicLink() ? fs.statSync(path.join(cwd, name), { throwIfNoEntry: false }) : entry
        if (target?.isDirectory()) {
          if (!onlyFiles) yield name
          if (!entry.isSymbolicLink() || followSymlinks) yield* visit(name)
        } else if (target) {
          yield name
        }
      }
    }
    for (const name of visit("")) {
      if (this.match(name)) yield absolute ? path.join(cwd, name) : name
    }
  }

  async *scan(options) {
    yield* this.scanSync(options)
  }
}

function started(command, options) {
  const cmd = Array.isArray(command) ? command : command.cmd
  const given = Array.isArray(command) ? options : command
  return [cmd, given ?? {}]
}

function spawnChild(command, options) {
  const [cmd, { cwd, env, stdin = "ignore", stdout = "pipe", stderr = "inherit", onExit }] = started(command, options)
  const child = spawn(cmd[0], cmd.slice(1), { cwd, env, stdio: [stdin, stdout, stderr] })
  const running = {
    pid: child.pid,
    exitCode: null,
    stdin: child.stdin,
    stdout: child.stdout ? Readable.toWeb(child.stdout) : null,
    stderr: child.stderr ? Readable.toWeb(child.stderr) : null,
    kill: (signal) => child.kill(signal),
    unref: () => child.unref(),
    ref: () => child.ref(),
  }
  running.exited = new Promise((resolve, reject) => {
    child.on("error", reject)
    child.on("exit", (code, signal) => {
      running.exitCode = code ?? (signal ? 128 : 1)
      onExit?.(running, code, signal)
      resolve(running.exitCode)
    })
  })
  return running
}

function spawnChildSync(command, options) {
  const [cmd, { cwd, env }] = started(command, options)
  const done = spawnSync(cmd[0], cmd.slice(1), { cwd, env })
  return { exitCode: done.status, stdout: done.stdout, stderr: done.stderr, success: done.status === 0 }
}

export { spawnChild as spawn, spawnChildSync as spawnSync, fileURLToPath, pathToFileURL }
export const env = process.env
export const argv = process.argv
export const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms instanceof Date ? ms - Date.now() : ms))

/** Where a program is. */
export function which(program, { PATH = process.env.PATH } = {}) {
  const isRunnable = (name) => {
    try {
      fs.accessSync(name, fs.constants.X_OK)
      return fs.statSync(name).isFile()
    } catch {
      return false
    }
  }
  return (PATH ?? "").split(path.delimiter).map((dir) => path.join(dir, program)).find(isRunnable) ?? null
}

export default {
  $, file, write, Glob, spawn: spawnChild, spawnSync: spawnChildSync, env, argv, sleep, which, fileURLToPath, pathToFileURL,
}
