// What both sets of checks stand on.
import assert from "node:assert/strict"

/** Longest time of anything a check waits for, in ms. */
const PATIENCE = 20_000

/** The data of an answer that went well. */
export function good({ data, error, response }, status = 200) {
  assert.equal(error, undefined, `${response?.status} ${JSON.stringify(error)}`)
  assert.equal(response.status, status)
  return data
}

/** The error of an answer with this status. */
export function bad({ error, response }, status) {
  assert.equal(response.status, status)
  assert.notEqual(error, undefined)
  return error
}

/** A prompt's parts that have the model play these steps. */
export const script = (...steps) => [{ type: "text", text: `go SCRIPT:${JSON.stringify(steps)}` }]

/** A step of one call. */
export const call = (name, args) => ({ tools: [{ name, args }] })

/** The text of a message. */
export const said = ({ parts }) => parts.filter((part) => part.type === "text").map((part) => part.text).join("")

/** The tool parts of messages. */
export const calls = (messages) => messages.flatMap(({ parts }) => parts).filter((part) => part.type === "tool")

/** An event stream that is read by itself. Waits go forward: each begins behind what the last one found. */
export class Feed {
  seen = []
  #next = 0
  #wake = () => {}

  /** Opens a stream; `pick` takes the event out of a frame. */
  static async open(subscribe, pick = (frame) => frame) {
    const feed = new Feed()
    feed.stop = new AbortController()
    const { stream } = await subscribe({ signal: feed.stop.signal })
    feed.ended = feed.#read(stream, pick)
    await feed.wait("server.connected")
    return feed
  }

  async #read(stream, pick) {
    try {
      for await (const frame of stream) {
        this.seen.push(pick(frame))
        this.#wake()
      }
    } catch (error) {
      if (!this.stop.signal.aborted) throw error
    }
  }

  /** The next event of this type that fits. */
  async wait(type, fits = () => true) {
    const end = AbortSignal.timeout(PATIENCE)
    for (;;) {
      while (this.#next < this.seen.length) {
        const event = this.seen[this.#next++]
        if (event?.type === type && fits(event.properties)) return event.properties
      }
      await new Promise((resolve, reject) => {
        this.#wake = resolve
        end.onabort = () => reject(new Error(`no ${type} among ${this.seen.map((event) => event?.type).join(" ")}`))
      })
    }
  }

  /** The events of a session so far. */
  of = (session) => this.seen.filter((event) => event?.properties?.sessionID === session)
}
