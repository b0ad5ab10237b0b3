// The client's first entry point, `@opencode-ai/sdk`.
import assert from "node:assert/strict"
import { createOpencodeClient } from "@opencode-ai/sdk"
import { Feed, bad, call, calls, good, said, script } from "./tools.mjs"

export function v1({ url, directory }) {
  const client = createOpencodeClient({ baseUrl: url, directory })
  const create = async (body = {}) => good(await client.session.create({ body }))
  const prompt = async (id, body) => good(await client.session.prompt({ path: { id }, body }))
  const messages = async (id) => good(await client.session.messages({ path: { id } }))
  const listen = () => Feed.open((options) => client.event.subscribe(options))
  const nobody = { id: "ses_000000000001abcdefghijklmn" }

  return {
    "finds its place, its project and its settings": async () => {
      assert.equal(good(await client.path.get()).directory, directory)
      const current = good(await client.project.current())
      assert.equal(current.worktree, directory)
      assert.equal(good(await client.config.get()).model, "mock/mock")
      const { providers } = good(await client.config.providers())
      assert.equal(providers.find((provider) => provider.id === "mock").models.mock.limit.context, 128_000)
      assert.ok(good(await client.provider.list()).connected.includes("mock"))
      const agents = good(await client.app.agents())
      assert.deepEqual(agents.filter((agent) => agent.mode === "primary" && !agent.hidden).map((agent) => agent.name), ["build", "plan"])
      assert.ok(good(await client.command.list()).some((command) => command.name === "init" && command.template))
      for (const tool of ["bash", "edit", "read"]) assert.ok(good(await client.tool.ids()).includes(tool), tool)
      for (const list of [await client.lsp.status(), await client.formatter.status()]) assert.ok(Array.isArray(good(list)))
      assert.equal(typeof good(await client.mcp.status()), "object")
      assert.equal(good(await client.vcs.get()).branch, "master")
    },

    "makes, names, lists and deletes a session": async () => {
      const feed = await listen()
      const { id } = await create({ title: "one" })
      assert.equal((await feed.wait("session.created")).info.id, id)
      assert.equal(good(await client.session.update({ path: { id }, body: { title: "two" } })).title, "two")
      assert.equal((await feed.wait("session.updated")).info.title, "two")
      assert.ok(good(await client.session.list()).some((session) => session.id === id))
      const child = await create({ parentID: id })
      assert.deepEqual(good(await client.session.children({ path: { id } })).map((session) => session.id), [child.id])
      assert.equal(good(await client.session.delete({ path: { id } })), true)
      await feed.wait("session.deleted", ({ info }) => info.id === id)
      bad(await client.session.get({ path: { id } }), 404)
      feed.stop.abort()
    },

    "prompts, and its events add up to the answer": async () => {
      const feed = await listen()
      const { id } = await create()
      const answer = await prompt(id, { parts: script({ text: "alpha beta gamma", chunks: 4 }) })
      assert.equal(said(answer), "alpha beta gamma")
      assert.equal(answer.info.finish, "stop")
      assert.deepEqual([answer.info.tokens.input, answer.info.tokens.output], [100, 20])
      assert.deepEqual(answer.parts.map((part) => part.type), ["step-start", "text", "step-finish"])
      await feed.wait("session.idle", ({ sessionID }) => sessionID === id)
      const deltas = feed.of(id).filter(({ type }) => type === "message.part.delta")
      assert.equal(deltas.map(({ properties }) => properties.delta).join(""), "alpha beta gamma")
      const list = await messages(id)
      assert.deepEqual(list.map(({ info }) => info.role), ["user", "assistant"])
      assert.deepEqual(list[1], good(await client.session.message({ path: { id, messageID: answer.info.id } })))
      feed.stop.abort()
    },

    "is asked for leave and gives it": async () => {
      const feed = await listen()
      const { id } = await create({ permission: [{ permission: "bash", pattern: "*", action: "ask" }] })
      const body = { parts: script(call("bash", { command: "echo marker", description: "x" }), { text: "done" }) }
      good(await client.session.promptAsync({ path: { id }, body }), 204)
      const asked = await feed.wait("permission.asked", ({ sessionID }) => sessionID === id)
      assert.deepEqual(good(await client.session.status())[id], { type: "busy" })
      const path = { id, permissionID: asked.id }
      assert.equal(good(await client.postSessionIdPermissionsPermissionId({ path, body: { response: "once" } })), true)
      await feed.wait("session.idle", ({ sessionID }) => sessionID === id)
      const [tool] = calls(await messages(id))
      assert.deepEqual([tool.tool, tool.state.status, tool.state.output], ["bash", "completed", "marker\n"])
      const states = feed.of(id).map(({ properties }) => properties.part?.state?.status).filter(Boolean)
      assert.deepEqual([...new Set(states)], ["pending", "running", "completed"])
      feed.stop.abort()
    },

    "stops a turn": async () => {
      const feed = await listen()
      const { id } = await create()
      const body = { parts: script({ text: "word ", repeat: true, chunks: 10_000, delay_ms: 20 }) }
      good(await client.session.promptAsync({ path: { id }, body }), 204)
      await feed.wait("message.part.delta", ({ sessionID }) => sessionID === id)
      assert.equal(good(await client.session.abort({ path: { id } })), true)
      await feed.wait("session.idle", ({ sessionID }) => sessionID === id)
      const { info } = (await messages(id)).at(-1)
      assert.equal(info.error.name, "MessageAbortedError")
      assert.ok(info.time.completed)
      feed.stop.abort()
    },

    "runs a command, copies a session and reads what belongs to it": async () => {
      const { id } = await create()
      good(await client.session.shell({ path: { id }, body: { agent: "build", command: "echo by hand" } }))
      assert.match(calls(await messages(id))[0].state.output, /^by hand/)
      const fork = good(await client.session.fork({ path: { id }, body: {} }))
      assert.equal((await messages(fork.id)).length, 2)
      for (const list of ["todo", "diff", "children"]) assert.deepEqual(good(await client.session[list]({ path: { id } })), [])
    },

    "finds, lists and reads files": async () => {
      const entries = good(await client.file.list({ query: { path: "." } }))
      assert.ok(entries.some((entry) => entry.name === "opencode.json" && entry.type === "file" && !entry.ignored))
      assert.match(good(await client.file.read({ query: { path: "opencode.json" } })).content, /mock/)
      assert.ok(good(await client.find.files({ query: { query: "opencode" } })).includes("opencode.json"))
      const [line] = good(await client.find.text({ query: { pattern: "small_model" } }))
      assert.deepEqual([line.path.text, line.submatches[0].match.text], ["opencode.json", "small_model"])
      assert.ok(Array.isArray(good(await client.file.status())))
    },

    "is told what is wrong": async () => {
      assert.equal(bad(await client.session.get({ path: nobody }), 404).name, "NotFoundError")
      const { id } = await create()
      bad(await client.session.prompt({ path: { id }, body: { parts: [{ type: "nonsense" }] } }), 400)
      bad(await client.session.prompt({ path: { id }, body: { model: { providerID: "mock", modelID: "nope" }, parts: script() } }), 400)
      assert.deepEqual(await messages(id), [])
      const thrown = await client.session.get({ path: nobody, throwOnError: true }).catch((error) => error)
      assert.ok(thrown instanceof Error && thrown.message.includes(nobody.id), String(thrown))
      assert.equal(good(await client.app.log({ body: { service: "sdk", level: "info", message: "hello" } })), true)
    },
  }
}
