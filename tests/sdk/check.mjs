// Runs the official client against a server, one line a check: `PASS name` or `FAIL name: why`. Ends well only if all passed.
// usage: node check.mjs URL DIRECTORY [NAME]
//   DIRECTORY  a project on the server's machine whose model plays the scripts in its prompts (`SCRIPT:[{"text":"hi"}]`)
//   NAME       only the checks whose name holds it
import { v1 } from "./v1.mjs"
import { v2 } from "./v2.mjs"

const [url, directory, only = ""] = process.argv.slice(2)
if (!url || !directory) {
  console.error("usage: node check.mjs URL DIRECTORY [NAME]")
  process.exit(2)
}

let failed = 0
for (const [entry, checks] of [["v1", v1], ["v2", v2]]) {
  for (const [name, check] of Object.entries(checks({ url, directory }))) {
    const title = `${entry} ${name}`
    if (!title.includes(only)) continue
    try {
      await check()
      console.log(`PASS ${title}`)
    } catch (error) {
      failed += 1
      console.log(`FAIL ${title}: ${error?.stack ?? error}`)
    }
  }
}
process.exit(failed ? 1 : 0)
