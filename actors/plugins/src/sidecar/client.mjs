// The client that plugins are given: OpenCode's own where it is installed, else a small one with the same calls. It
// reaches Troupe by its unix socket, so that no password has to be known here.

import http from "node:http"
import path from "node:path"
import { Readable } from "node:stream"
import { importAs, isBun } from "./modules.mjs"

/** Returns the client. */
export async function makeClient(settings) {
  const fetch = fetchOver(settings.socket)
  const config = { baseUrl: settings.serverUrl, directory: settings.directory, fetch }
  for (const root of settings.roots) {
    const sdk = await importAs(path.join(root, "package.json"), "@opencode-ai/sdk")
    if (typeof sdk?.createOpencodeClient === "function") return sdk.createOpencodeClient(config)
  }
  return smallClient(config)
}

/** A `fetch` that goes over a unix socket, whatever the url's host is. */
function fetchOver(socketPath) {
  if (!socketPath) return (...args) => fetch(...args)
  if (isBun) return (input, init) => fetch(input, { ...init, unix: socketPath })
  return async (input, init) => {
    const request = new Request(input, init)
    const url = new URL(request.url)
    const body = request.body === null ? undefined : Buffer.from(await request.arrayBuffer())
    return await new Promise((resolve, reject) => {
      const sent = http.request(
        {
          socketPath,
          method: request.method,
          path: url.pathname + url.search,
          headers: { host: "localhost", ...Object.fromEntries(request.headers), ...(body && { "content-length": body.length }) },
          signal: request.signal,
        },
        (answer) => {
          const { statusCode: status = 500, statusMessage: statusText } = answer
          const isEmpty = status === 204 || status === 304 || request.method === "HEAD"
          const headers = new Headers()
          for (const [name, value] of Object.entries(answer.headers)) headers.set(name, String(value))
          resolve(new Response(isEmpty ? null : Readable.toWeb(answer), { status, statusText, headers }))
        },
      )
      sent.on("error", reject)
      sent.end(body)
    })
  }
}

/** The calls of the small client: `{name}` in a path is filled from the call's `path`. */
const CALLS = {
  app: { agents: "GET /agent", log: "POST /log" },
  command: { list: "GET /command" },
  config: { get: "GET /config", update: "PATCH /config", providers: "GET /config/providers" },
  file: { list: "GET /file", read: "GET /file/content", status: "GET /file/status" },
  find: { text: "GET /find", files: "GET /find/file", symbols: "GET /find/symbol" },
  mcp: { status: "GET /mcp" },
  path: { get: "GET /path" },
  project: { list: "GET /project", current: "GET /project/current" },
  provider: { list: "GET /provider" },
  session: {
    list: "GET /session",
    create: "POST /session",
    status: "GET /session/status",
    get: "GET /session/{id}",
    update: "PATCH /session/{id}",
    delete: "DELETE /session/{id}",
    children: "GET /session/{id}/children",
    todo: "GET /session/{id}/todo",
    init: "POST /session/{id}/init",
    fork: "POST /session/{id}/fork",
    abort: "POST /session/{id}/abort",
    diff: "GET /session/{id}/diff",
    summarize: "POST /session/{id}/summarize",
    messages: "GET /session/{id}/message",
    message: "GET /session/{id}/message/{messageID}",
    prompt: "POST /session/{id}/message",
    promptAsync: "POST /session/{id}/prompt_async",
    command: "POST /session/{id}/command",
    shell: "POST /session/{id}/shell",
    revert: "POST /session/{id}/revert",
    unrevert: "POST /session/{id}/unrevert",
  },
  tool: { ids: "GET /experimental/tool/ids", list: "GET /experimental/tool" },
  tui: {
    appendPrompt: "POST /tui/append-prompt",
    submitPrompt: "POST /tui/submit-prompt",
    clearPrompt: "POST /tui/clear-prompt",
    executeCommand: "POST /tui/execute-command",
    showToast: "POST /tui/show-toast",
    publish: "POST /tui/publish",
  },
}

function smallClient({ baseUrl, directory, fetch }) {
  const call = async (method, template, options = {}) => {
    const filled = template.replace(/\{(\w+)\}/g, (_, name) => encodeURIComponent(options.path?.[name] ?? ""))
    const url = new URL(filled, baseUrl)
    for (const [name, value] of Object.entries(options.query ?? {})) {
      if (value !== undefined) url.searchParams.set(name, String(value))
    }
    const headers = { "x-opencode-directory": encodeURIComponent(directory), ...options.headers }
    if (options.body !== undefined) headers["content-type"] = "application/json"
    const body = options.body === undefined ? undefined : JSON.stringify(options.body)
    const request = new Request(url, { method, headers, body, signal: options.signal })
    const response = await fetch(request)
    const text = await response.text()
    const value = response.headers.get("content-type")?.includes("json") && text ? JSON.parse(text) : text
    if (response.ok) return { data: value, error: undefined, request, response }
    if (options.throwOnError) throw value
    return { data: undefined, error: value, request, response }
  }
  const grouped = Object.entries(CALLS).map(([group, calls]) => {
    const made = Object.entries(calls).map(([name, line]) => {
      const [method, template] = line.split(" ")
      return [name, (options) => call(method, template, options)]
    })
    return [group, Object.fromEntries(made)]
  })
  const byUrl = (method) => (options) => call(method, options.url, options)
  const _client = { get: byUrl("GET"), post: byUrl("POST"), put: byUrl("PUT"), patch: byUrl("PATCH"), delete: byUrl("DELETE") }
  const subscribe = async (url, options = {}) => {
    const headers = { "x-opencode-directory": encodeURIComponent(directory), accept: "text/event-stream" }
    const response = await fetch(new Request(new URL(url, baseUrl), { headers, signal: options.signal }))
    return { stream: eventsOf(response.body) }
  }
  return {
    ...Object.fromEntries(grouped),
    _client,
    event: { subscribe: (options) => subscribe("/event", options) },
    global: { _client, event: (options) => subscribe("/global/event", options) },
    postSessionIdPermissionsPermissionId: (options) =>
      call("POST", "/session/{id}/permissions/{permissionID}", options),
  }
}

/** The events of a stream, as objects. */
async function* eventsOf(body) {
  let text = ""
  for await (const chunk of body.pipeThrough(new TextDecoderStream())) {
    text += chunk
    for (let end = text.indexOf("\n\n"); end >= 0; end = text.indexOf("\n\n")) {
      const data = text.slice(0, end).split("\n").filter((line) => line.startsWith("data:"))
      text = text.slice(end + 2)
      if (data.length > 0) yield JSON.parse(data.map((line) => line.slice(5)).join("\n"))
    }
  }
}
