// Arguments of tools: their JSON schema, and the check of a call's. They are zod shapes (of zod 4, which OpenCode has;
// of zod 3 as far as it can be told), schemas of our stand-in, or JSON schema.

/** The JSON schema of a tool's arguments. */
export function parametersOf(args, zod) {
  const entries = Object.entries(args)
  if (entries.every(([, schema]) => isZod4(schema)) && zod && entries.length > 0) {
    const { $schema, ...schema } = zod.toJSONSchema(zod.object(args), {
      io: "input",
      unrepresentable: "any",
      override({ zodSchema, jsonSchema }) {
        // Descriptions are kept beside a schema, by the zod that made it; that may be another than this one.
        const description = zodSchema.description
        if (description && !jsonSchema.description) jsonSchema.description = description
      },
    })
    return schema
  }
  const properties = {}
  const required = []
  for (const [name, schema] of entries) {
    properties[name] = jsonOf(schema)
    if (!isOptional(schema)) required.push(name)
  }
  return { type: "object", properties, required }
}

/** Returns a function that checks arguments: `{ args }`, or `{ problem }` where they don't fit. */
export function checker(args, zod) {
  const entries = Object.entries(args)
  if (entries.length > 0 && zod && entries.every(([, schema]) => isZod4(schema))) {
    const whole = zod.object(args)
    return (given) => {
      const read = whole.safeParse(given)
      if (read.success) return { args: read.data }
      return { problem: problemOf(read.error.issues) }
    }
  }
  const known = entries.filter(([, schema]) => typeof schema?.safeParse === "function")
  return (given) => {
    const read = { ...given }
    const issues = []
    for (const [name, schema] of known) {
      const result = schema.safeParse(given[name])
      if (!result.success) issues.push(...result.error.issues.map((i) => ({ ...i, path: [name, ...i.path] })))
      else if (result.data !== undefined) read[name] = result.data
    }
    return issues.length > 0 ? { problem: problemOf(issues) } : { args: read }
  }
}

function problemOf(issues) {
  const first = issues[0]
  return { path: first?.path?.join(".") || ".", message: issues.map((issue) => issue.message).join("; ") }
}

function isZod4(schema) {
  return typeof schema === "object" && schema !== null && "_zod" in schema
}

function isOptional(schema) {
  return typeof schema?.isOptional === "function" && schema.isOptional()
}

function jsonOf(schema) {
  if (typeof schema?.toJSONSchema === "function") return schema.toJSONSchema()
  if (schema?._def) return jsonOfZod3(schema)
  return schema
}

/** What zod 3 has no function for: the common kinds. */
function jsonOfZod3(schema) {
  const def = schema._def
  const json = (() => {
    switch (def.typeName) {
      case "ZodString":
        return { type: "string" }
      case "ZodNumber":
        return { type: def.checks?.some((check) => check.kind === "int") ? "integer" : "number" }
      case "ZodBoolean":
        return { type: "boolean" }
      case "ZodEnum":
        return { type: "string", enum: def.values }
      case "ZodLiteral":
        return { const: def.value }
      case "ZodArray":
        return { type: "array", items: jsonOfZod3(def.type) }
      case "ZodRecord":
        return { type: "object", additionalProperties: jsonOfZod3(def.valueType) }
      case "ZodUnion":
        return { anyOf: def.options.map(jsonOfZod3) }
      case "ZodObject": {
        const shape = def.shape()
        const properties = Object.fromEntries(Object.entries(shape).map(([name, s]) => [name, jsonOfZod3(s)]))
        const required = Object.keys(shape).filter((name) => !isOptional(shape[name]))
        return { type: "object", properties, required }
      }
      case "ZodDefault":
        return { ...jsonOfZod3(def.innerType), default: def.defaultValue() }
      case "ZodOptional":
      case "ZodNullable":
        return jsonOfZod3(def.innerType)
      case "ZodEffects":
        return jsonOfZod3(def.schema)
      default:
        return {}
    }
  })()
  return schema.description ? { ...json, description: schema.description } : json
}
