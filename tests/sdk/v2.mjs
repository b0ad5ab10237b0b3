// The client's second entry point, `@opencode-ai/sdk/v2`, which OpenCode's own terminal client uses.
import assert from "node:assert/strict"
import { createOpencodeClient } from "@opencode-ai/sdk/v2"
import { Feed, bad, call, calls, good, said, script } from "./tools.mjs"

export function v2({ url, directory }) {
  const client = createOpencodeClient({ baseUrl: url, directory })
  const create = async (body = {}) => good(await client.session.create(body))
  const messages = async (sessionID) => good(await client.session.messages({ sessionID }))
  const listen = () => Feed.open((options) => client.global.event(options), (frame) => frame.payload)
  const bash = (command) => call("bash", { command, description: "x" })
  const asking = { permission: [{ permission: "bash", pattern: "*", action: "ask" }] }

  /** Prompts, answers the permission that is asked for, and returns the answer with the events. */
  async function decide(session, steps, reply) {
    const feed = await listen()
    const running = client.session.prompt({ sessionID: session.id, parts: script(...steps) })
    const asked = await feed.wait("permission.asked", ({ sessionID }) => sessionID === session.id)
    assert.deepEqual(good(await client.permission.list()).map(({ id }) => id), [asked.id])
    assert.equal(good(await client.permission.reply({ requestID: asked.id, ...reply })), true)
    const answer = good(await running)
    await feed.wait("session.idle", ({ sessionID }) => sessionID === session.id)
    feed.stop.abort()
    return { answer, feed, asked }
  }

  return {
    "is healthy and tells what it is": async () => {
      const health = good(await client.global.health())
      assert.equal(health.healthy, true)
      assert.equal(typeof health.version, "string")
    },

    "makes a session with rules and finds it again": async () => {
      const session = await create({ title: "needle in v2", agent: "build", ...asking })
      assert.deepEqual([session.agent, session.permission], ["build", asking.permission])
      const found = good(await client.session.list({ roots: true, limit: 100, search: "needle in v2" }))
      assert.deepEqual(found.map(({ id }) => id), [session.id])
      assert.deepEqual(good(await client.session.list({ search: "no such title" })), [])
    },

    "allows once and for all": async () => {
      const session = await create(asking)
      const steps = [bash("deploy one"), bash("deploy two"), { text: "deployed" }]
      const { answer, feed } = await decide(session, steps, { reply: "always" })
      assert.equal(said(answer), "deployed")
      assert.equal(feed.of(session.id).filter(({ type }) => type === "permission.asked").length, 1)
    },

    "refuses, which ends the turn, or refuses with a word, which does not": async () => {
      const session = await create(asking)
      const refused = await decide(session, [bash("rm one"), { text: "never" }], { reply: "reject" })
      assert.equal(calls([refused.answer])[0].state.status, "error")
      const told = await decide(session, [bash("rm two"), { text: "went on" }], { reply: "reject", message: "not that one" })
      assert.equal(said(told.answer), "went on")
      assert.match(calls(await messages(session.id))[1].state.error, /not that one/)
      bad(await client.permission.reply({ requestID: told.asked.id, reply: "once" }), 409)
    },

    "answers a question": async () => {
      const feed = await listen()
      const { id } = await create()
      const option = (label) => ({ label, description: label })
      const question = { question: "Which colour?", header: "Colour", options: [option("Red"), option("Blue")] }
      const running = client.session.prompt({ sessionID: id, parts: script(call("question", { questions: [question] }), { text: "thanks" }) })
      const asked = await feed.wait("question.asked", ({ sessionID }) => sessionID === id)
      assert.deepEqual(good(await client.question.list()).map((request) => request.id), [asked.id])
      assert.equal(good(await client.question.reply({ requestID: asked.id, answers: [["Blue"]] })), true)
      assert.equal(said(good(await running)), "thanks")
      assert.match(calls(await messages(id))[0].state.output, /Blue/)
      feed.stop.abort()
    },

    "keeps a list of things to do": async () => {
      const feed = await listen()
      const { id } = await create()
      const todos = [{ content: "first", status: "in_progress", priority: "high" }]
      good(await client.session.prompt({ sessionID: id, parts: script(call("todowrite", { todos }), { text: "noted" }) }))
      assert.deepEqual((await feed.wait("todo.updated")).todos, todos)
      assert.deepEqual(good(await client.session.todo({ sessionID: id })), todos)
      feed.stop.abort()
    },

    "starts a subagent in a session of its own": async () => {
      const { id } = await create()
      const [{ text }] = script({ text: "the child is done" })
      const task = call("task", { description: "sub job", subagent_type: "general", prompt: text })
      good(await client.session.prompt({ sessionID: id, parts: script(task, { text: "so am I" }) }))
      const [child] = good(await client.session.children({ sessionID: id }))
      const [part] = calls(await messages(id))
      assert.equal(part.state.metadata.sessionId, child.id)
      assert.match(part.state.output, /the child is done/)
      assert.equal(good(await client.session.delete({ sessionID: id })), true)
      bad(await client.session.get({ sessionID: child.id }), 404)
    },

    "notes a message without an answer and takes it out again": async () => {
      const { id } = await create()
      const note = good(await client.session.prompt({ sessionID: id, noReply: true, parts: [{ type: "text", text: "a note" }] }))
      assert.equal(note.info.role, "user")
      assert.equal((await messages(id)).length, 1)
      assert.equal(good(await client.session.deleteMessage({ sessionID: id, messageID: note.info.id })), true)
      assert.deepEqual(await messages(id), [])
    },

    "is told of a turn that failed": async () => {
      const feed = await listen()
      const { id } = await create()
      const answer = good(await client.session.prompt({ sessionID: id, parts: script({ status: 400, body: { error: { message: "no" } } }) }))
      assert.equal(answer.info.error.name, "APIError")
      const { error } = await feed.wait("session.error", ({ sessionID }) => sessionID === id)
      assert.equal(error.name, "APIError")
      feed.stop.abort()
    },

    "counts what is stored without a gap": async () => {
      const feed = await listen()
      const { id } = await create()
      good(await client.session.prompt({ sessionID: id, parts: script({ text: "hello" }) }))
      await feed.wait("session.idle", ({ sessionID }) => sessionID === id)
      const copies = feed.seen.filter((event) => event?.type === "sync" && event.syncEvent.aggregateID === id)
      assert.ok(copies.length > 5, `${copies.length} copies`)
      assert.deepEqual(copies.map(({ syncEvent }) => syncEvent.seq), copies.map((_, number) => number))
      feed.stop.abort()
    },
  }
}
