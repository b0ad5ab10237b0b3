// `$` of plugins on Node: runs a line of shell, as Bun's does. What is filled in is quoted.

import { spawn } from "node:child_process"

/** What a command gave. */
class Output {
  constructor(stdout, stderr, exitCode) {
    Object.assign(this, { stdout, stderr, exitCode })
  }
  text(encoding = "utf8") {
    return this.stdout.toString(encoding)
  }
  json() {
    return JSON.parse(this.text())
  }
  bytes() {
    return new Uint8Array(this.stdout)
  }
  arrayBuffer() {
    return this.bytes().buffer
  }
  blob() {
    return new Blob([this.stdout])
  }
}

/** A command that failed. */
class ShellError extends Error {
  constructor(command, output) {
    super(`"${command}" ended with exit code ${output.exitCode}`)
    this.name = "ShellError"
    Object.assign(this, { stdout: output.stdout, stderr: output.stderr, exitCode: output.exitCode })
    for (const name of ["text", "json", "bytes", "arrayBuffer", "blob"]) this[name] = output[name].bind(output)
  }
}

/** A command. It begins when it is first waited for. */
class Running {
  #command
  #options
  #promise
  #child

  constructor(command, options) {
    this.#command = command
    this.#options = { quiet: false, ...options }
  }

  cwd(cwd) {
    return this.#set({ cwd })
  }
  env(env) {
    return this.#set({ env })
  }
  quiet() {
    return this.#set({ quiet: true })
  }
  nothrow() {
    return this.#set({ throws: false })
  }
  throws(throws) {
    return this.#set({ throws })
  }
  #set(change) {
    Object.assign(this.#options, change)
    return this
  }

  get stdin() {
    this.#options.keepStdin = true
    this.#start()
    return this.#child.stdin
  }
  async text(encoding) {
    return (await this.quiet()).text(encoding)
  }
  async json() {
    return (await this.quiet()).json()
  }
  async bytes() {
    return (await this.quiet()).bytes()
  }
  async arrayBuffer() {
    return (await this.quiet()).arrayBuffer()
  }
  async blob() {
    return (await this.quiet()).blob()
  }
  async *lines() {
    const text = await this.text()
    yield* text.endsWith("\n") ? text.slice(0, -1).split("\n") : text.split("\n")
  }
  run() {
    this.#start()
    return this
  }

  then(resolve, reject) {
    return this.#start().then(resolve, reject)
  }
  catch(reject) {
    return this.then(undefined, reject)
  }
  finally(run) {
    return this.#start().finally(run)
  }

  #start() {
    const { cwd, env, quiet, throws } = this.#options
    this.#promise ??= new Promise((resolve, reject) => {
      const child = spawn("bash", ["-c", this.#command], { cwd, env: env ?? process.env, stdio: "pipe" })
      this.#child = child
      const [stdout, stderr] = [[], []]
      child.stdout.on("data", (chunk) => (stdout.push(chunk), quiet || process.stdout.write(chunk)))
      child.stderr.on("data", (chunk) => (stderr.push(chunk), quiet || process.stderr.write(chunk)))
      child.stdin.on("error", () => {})
      child.on("error", reject)
      child.on("close", (code, signal) => {
        const output = new Output(Buffer.concat(stdout), Buffer.concat(stderr), code ?? (signal ? 128 : 1))
        if (output.exitCode !== 0 && throws) reject(new ShellError(this.#command, output))
        else resolve(output)
      })
      // Whoever wants to write keeps it open.
      queueMicrotask(() => this.#options.keepStdin || child.stdin.end())
    })
    return this.#promise
  }
}

/** Returns a `$`. */
export function makeShell(options) {
  const defaults = { throws: true, ...options }
  const $ = (strings, ...values) => new Running(lineOf(strings, values), { ...defaults })
  $.escape = quoted
  $.braces = braces
  $.env = (env) => (Object.assign(defaults, { env: env && { ...process.env, ...env } }), $)
  $.cwd = (cwd) => (Object.assign(defaults, { cwd: cwd ?? options.cwd }), $)
  $.nothrow = () => (Object.assign(defaults, { throws: false }), $)
  $.throws = (throws) => (Object.assign(defaults, { throws }), $)
  return $
}

function lineOf(strings, values) {
  if (typeof strings === "string") return strings
  return strings.raw.map((text, index) => text + (index < values.length ? filled(values[index]) : "")).join("")
}

function filled(value) {
  if (Array.isArray(value)) return value.map(filled).join(" ")
  if (typeof value === "object" && value !== null && typeof value.raw === "string") return value.raw
  return quoted(String(value))
}

function quoted(text) {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`
}

/** `a{b,c}` to `ab`, `ac`: one level after the other. */
function braces(pattern) {
  const found = /^(.*?)\{([^{}]*,[^{}]*)\}(.*)$/s.exec(pattern)
  if (!found) return [pattern]
  const [, before, choices, after] = found
  return choices.split(",").flatMap((choice) => braces(before + choice + after))
}
