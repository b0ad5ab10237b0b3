// Hooks: functions of plugins that look at what Troupe is about to do, and may change it. They run one after the other,
// in the order the plugins were loaded. One that fails or takes too long is left out: what it changed is taken back.

import { messageOf, notify } from "./wire.mjs"

/** A hook that ran out of time so often in a row isn't tried again. */
const MOST_TIMEOUTS = 3
/** How often Troupe is told at least, between calls, that a hook goes on. */
const SIGN_MS = 50
/** How long plugins have to put things away. */
const LAST_MS = 1000

/** All hooks, by name. */
export class Hooks {
  #byName = new Map()

  /** Adds what a plugin returned. */
  add(plugin, hooks) {
    for (const [name, run] of Object.entries(hooks)) {
      if (typeof run !== "function") continue
      const hook = { plugin, name, run: run.bind(hooks), timeouts: 0 }
      this.#byName.set(name, [...(this.#byName.get(name) ?? []), hook])
    }
  }

  /** Which plugins have which hooks. */
  names() {
    return Object.fromEntries([...this.#byName].map(([name, hooks]) => [name, hooks.map((hook) => hook.plugin)]))
  }

  /** The hooks of a name that are still tried. */
  of(name) {
    return (this.#byName.get(name) ?? []).filter((hook) => hook.timeouts < MOST_TIMEOUTS)
  }
}

class OutOfTime extends Error {}

/** Waits for a promise at most so long. */
export function within(ms, promise) {
  let timer
  const limit = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new OutOfTime(`it took longer than ${ms} ms`)), ms)
  })
  return Promise.race([promise, limit]).finally(() => clearTimeout(timer))
}

/**
 * Runs a hook for each of `calls` ([input, output] each). Gives the outputs as they are then, and what went wrong. Where
 * an error is an answer (`refuses`), the first one ends it.
 */
export async function runHook(loaded, { name, calls, limit, refuses }) {
  const problems = []
  const outputs = calls.map(([, output]) => output)
  for (const hook of loaded.hooks.of(name)) {
    // So that Troupe can tell whose code it was when nothing is heard from here any more.
    let said = performance.now()
    notify("at", { plugin: hook.plugin, name })
    for (const [index, [input]] of calls.entries()) {
      if (performance.now() - said > SIGN_MS) {
        said = performance.now()
        notify("at", { plugin: hook.plugin, name })
      }
      const before = JSON.stringify(outputs[index])
      try {
        await within(limit, Promise.resolve(hook.run(input, outputs[index])))
        hook.timeouts = 0
      } catch (error) {
        if (refuses && !(error instanceof OutOfTime)) {
          return { outputs, problems, refused: { plugin: hook.plugin, message: messageOf(error) } }
        }
        outputs[index] = before === undefined ? undefined : JSON.parse(before)
        problems.push({ plugin: hook.plugin, message: messageOf(error) })
        if (error instanceof OutOfTime) {
          hook.timeouts += 1
          if (hook.timeouts >= MOST_TIMEOUTS) {
            problems.push({ plugin: hook.plugin, message: `it is not run again: out of time ${MOST_TIMEOUTS} times in a row` })
          }
          break
        }
      }
    }
  }
  return { outputs, problems }
}

/** Tells the `event` hooks; nobody waits for them. */
export function runEvent(loaded, { events, limit }) {
  for (const hook of loaded?.hooks.of("event") ?? []) {
    for (const event of events) {
      const failed = (error) => {
        hook.timeouts = error instanceof OutOfTime ? hook.timeouts + 1 : 0
        notify("problem", { plugin: hook.plugin, name: "event", message: messageOf(error) })
      }
      notify("at", { plugin: hook.plugin, name: "event" })
      try {
        within(limit, Promise.resolve(hook.run({ event }))).then(() => (hook.timeouts = 0), failed)
      } catch (error) {
        failed(error)
      }
    }
  }
}

/** Lets plugins put things away before the end. */
export async function runDispose(loaded) {
  const disposed = (loaded?.hooks.of("dispose") ?? []).map((hook) => Promise.resolve().then(() => hook.run()))
  await within(LAST_MS, Promise.allSettled(disposed)).catch(() => {})
}
