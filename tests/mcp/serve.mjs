// Drives `troupe mcp serve` with the official MCP client, one line a check: `PASS name` or `FAIL name: why`. Ends well
// only if all passed.
// usage: node serve.mjs TROUPE
//   TROUPE  the executable; started in the current directory, a project whose model knows the prompts below
import assert from "node:assert/strict"
import { Client } from "@modelcontextprotocol/sdk/client/index.js"
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js"

const [command] = process.argv.slice(2)
const client = new Client({ name: "check", version: "1.0.0" })
const transport = new StdioClientTransport({ command, args: ["mcp", "serve"], env: process.env })

/** The result of a tool as an object; its text says the same. */
async function call(name, args) {
  const result = await client.callTool({ name, arguments: args })
  assert.ok(!result.isError, result.content?.[0]?.text)
  assert.deepEqual(JSON.parse(result.content[0].text), result.structuredContent)
  return result.structuredContent
}

async function refused(name, args) {
  const result = await client.callTool({ name, arguments: args })
  assert.equal(result.isError, true)
  return result.content[0].text
}

const create = async (more = {}) => (await call("create_session", more)).session_id

const checks = {
  async "says what it is and lists its tools"() {
    assert.equal(client.getServerVersion().name, "troupe")
    assert.match(client.getInstructions(), /create_session/)
    const { tools } = await client.listTools()
    assert.deepEqual(
      tools.map((tool) => tool.name),
      ["create_session", "prompt", "status", "read_messages", "answer_permission", "answer_question", "abort",
        "list_sessions"],
    )
    for (const tool of tools) assert.ok(tool.description && tool.inputSchema.properties, tool.name)
  },

  async "gives a prompt and waits for its answer"() {
    const session_id = await create({ title: "greeting" })
    const told = await call("prompt", { session_id, text: "say hi" })
    assert.deepEqual(told, { session_id, title: "greeting", state: "idle", answer: "hi from the model" })
    assert.equal((await call("status", { session_id })).answer, "hi from the model")
    const { sessions } = await call("list_sessions", {})
    const listed = sessions.find((session) => session.session_id === session_id)
    assert.equal(listed.state, "idle")
    assert.equal(listed.directory, process.cwd())
  },

  async "decides a permission and goes on"() {
    const session_id = await create()
    const waiting = await call("prompt", { session_id, text: "run it" })
    assert.equal(waiting.state, "waiting")
    const [asked] = waiting.permissions
    assert.equal(asked.permission, "bash")
    assert.deepEqual(asked.patterns, ["echo allowed"])
    assert.deepEqual((await call("status", { session_id, wait_seconds: 30 })).permissions, waiting.permissions)
    const other = await create()
    assert.match(await refused("answer_permission", { session_id: other, permission_id: asked.permission_id,
      reply: "once" }), /no permission request/)
    assert.match(await refused("answer_permission", { session_id, permission_id: "per_none", reply: "once" }),
      new RegExp(asked.permission_id))
    const done = await call("answer_permission", { session_id, permission_id: asked.permission_id, reply: "once" })
    assert.equal(done.state, "idle")
    assert.equal(done.answer, "it ran")
    const { messages } = await call("read_messages", { session_id })
    assert.deepEqual(messages.map((message) => message.role), ["user", "assistant", "assistant"])
    assert.deepEqual(messages[1].calls, [{ does: "$ echo allowed", status: "completed", output: "allowed\n" }])
  },

  async "refuses with a reason"() {
    const session_id = await create()
    const waiting = await call("prompt", { session_id, text: "run what is refused" })
    const done = await call("answer_permission", { session_id, permission_id: waiting.permissions[0].permission_id,
      reply: "reject", message: "not on a Friday" })
    assert.equal(done.answer, "then not")
    const { messages } = await call("read_messages", { session_id })
    assert.match(messages[1].calls[0].error, /not on a Friday/)
  },

  async "answers a question"() {
    const session_id = await create()
    const waiting = await call("prompt", { session_id, text: "ask me something" })
    const [asked] = waiting.questions
    assert.equal(asked.questions[0].question, "Which colour?")
    const done = await call("answer_question", { session_id, question_id: asked.question_id, answers: [["red"]] })
    assert.equal(done.answer, "red it is")
  },

  async "works on when nobody waits, and stops when told"() {
    const session_id = await create()
    const begun = await call("prompt", { session_id, text: "never end", wait_seconds: 0 })
    assert.equal(begun.state, "working")
    assert.equal((await call("status", { session_id, wait_seconds: 1 })).state, "working")
    const listed = (await call("list_sessions", { limit: 1 })).sessions
    assert.deepEqual(listed.map((session) => [session.session_id, session.state]), [[session_id, "working"]])
    await call("abort", { session_id })
    const stopped = await call("status", { session_id, wait_seconds: 30 })
    assert.equal(stopped.state, "idle")
    assert.match(stopped.error, /abort/i)
  },

  async "works on many sessions at once"() {
    const told = await Promise.all(
      Array.from({ length: 8 }, async () => call("prompt", { session_id: await create(), text: "say hi" })),
    )
    assert.deepEqual(told.map((one) => one.answer), Array(8).fill("hi from the model"))
  },

  async "says what is wrong"() {
    assert.match(await refused("prompt", { text: "say hi" }), /session_id/)
    assert.match(await refused("status", { session_id: "ses_000000000001abcdefghijklmn" }), /not found/i)
    assert.match(await refused("create_session", { directory: "no/such" }), /no\/such/)
    const session_id = await create()
    assert.match(await refused("prompt", { session_id, text: "say hi", model: "mock/none" }), /none/)
    await assert.rejects(client.callTool({ name: "none", arguments: {} }), /none/)
  },
}

let failed = 0
await client.connect(transport)
for (const [name, check] of Object.entries(checks)) {
  try {
    await check()
    console.log(`PASS ${name}`)
  } catch (error) {
    failed += 1
    console.log(`FAIL ${name}: ${error?.stack ?? error}`)
  }
}
await client.close()
process.exit(failed ? 1 : 0)
