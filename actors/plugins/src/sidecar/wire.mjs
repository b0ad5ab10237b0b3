// The line to Troupe: one JSON message a line, both ways. Standard input is a socket, so what plugins print can't get
// between messages.

import net from "node:net"
import { Readable } from "node:stream"

/** Most characters of a message. Troupe takes no longer ones. */
const LONGEST = 16 * 1024 * 1024

const notices = new Map()
const waiting = new Map()
let asked = 0

// Plugins that read standard input find it empty.
Object.defineProperty(process, "stdin", { value: Readable.from([]), configurable: true })

/** What is done when Troupe is gone: without it there is nothing to do. */
let tidy = async () => {}

function leave() {
  tidy().finally(() => process.exit(0))
}

/** Keeps what comes before anybody listens. */
function unheard() {
  const early = []
  return { early, heard: (chunk) => early.push(chunk) }
}

/** The socket: `write(text)`, and `heard`, which is given what comes. */
function openInNode() {
  const socket = new net.Socket({ fd: 0, readable: true, writable: true })
  const line = { ...unheard(), write: (text) => socket.write(text) }
  socket.on("data", (chunk) => line.heard(chunk))
  socket.on("end", leave)
  socket.on("error", () => process.exit(0))
  return line
}

async function openInBun() {
  const line = unheard()
  // Bun's sockets take as much as they can, and say when they take more.
  let unsent = []
  const flush = (socket) => {
    while (unsent.length > 0) {
      const sent = socket.write(unsent[0])
      if (sent < unsent[0].length) {
        unsent[0] = unsent[0].subarray(Math.max(sent, 0))
        return
      }
      unsent.shift()
    }
  }
  const handlers = {
    data: (_, chunk) => line.heard(Buffer.from(chunk)),
    drain: flush,
    end: leave,
    close: leave,
    error: () => process.exit(0),
  }
  const socket = await Bun.connect({ fd: 0, socket: handlers })
  line.write = (text) => {
    unsent.push(Buffer.from(text))
    if (unsent.length === 1) flush(socket)
  }
  return line
}

const socket = await (process.versions.bun ? openInBun() : openInNode())

/** Sets what is done before the sidecar ends by itself. */
export function onEnd(run) {
  tidy = async () => await run()
}

/** What is said of an error: its message; of anything else that was thrown, that. */
export function messageOf(error) {
  if (error instanceof Error) return error.message || error.name
  return typeof error === "string" ? error : String(error?.message ?? error)
}

/** Sends a message; whether it went. */
function send(message) {
  const text = JSON.stringify(message)
  if (text.length > LONGEST) return false
  socket.write(text + "\n")
  return true
}

/** Answers a request. */
export function answer(id, outcome) {
  if (!send({ id, ...outcome })) {
    send({ id, error: { message: `the answer is longer than ${LONGEST} characters` } })
  }
}

/** Tells something that needs no answer. */
export function notify(method, params) {
  send({ method, params })
}

/** Asks Troupe. */
export function ask(method, params) {
  const id = `s${++asked}`
  return new Promise((resolve, reject) => {
    waiting.set(id, { resolve, reject })
    if (!send({ id, method, params })) {
      waiting.delete(id)
      reject(new Error(`the request is longer than ${LONGEST} characters`))
    }
  })
}

/** Sets who hears of notices of this kind. */
export function serve(method, handle) {
  notices.set(method, handle)
}

/** Hears messages from now on; `handle` gets the requests. */
export function listen(handle) {
  let rest = []
  socket.heard = (chunk) => {
    let from = 0
    for (let end = chunk.indexOf(10); end >= 0; end = chunk.indexOf(10, from)) {
      rest.push(chunk.subarray(from, end))
      const line = Buffer.concat(rest).toString("utf8")
      rest = []
      from = end + 1
      if (line) take(JSON.parse(line), handle)
    }
    if (from < chunk.length) rest.push(chunk.subarray(from))
  }
  socket.early.splice(0).forEach(socket.heard)
}

function take(message, handle) {
  if (message.method === undefined) {
    const waiter = waiting.get(message.id)
    waiting.delete(message.id)
    if (message.error) waiter?.reject(new Error(message.error.message))
    else waiter?.resolve(message.result)
  } else if (message.id === undefined) {
    notices.get(message.method)?.(message.params)
  } else {
    handle(message)
  }
}
