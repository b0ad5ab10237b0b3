// Stands in for `@opencode-ai/plugin` where it isn't installed: `tool()`, and `tool.schema` with the common kinds of
// schema. Installing the package gives all of zod.

class Schema {
  #json
  #isOptional = false
  #default
  #accepts

  constructor(json, accepts) {
    this.#json = json
    this.#accepts = accepts
  }

  #with(json, change = {}) {
    const made = new Schema({ ...this.#json, ...json }, change.accepts ?? this.#accepts)
    made.#isOptional = change.isOptional ?? this.#isOptional
    made.#default = "default" in change ? change.default : this.#default
    return made
  }

  describe(description) {
    return this.#with({ description })
  }
  optional() {
    return this.#with({}, { isOptional: true })
  }
  nullish() {
    return this.nullable().optional()
  }
  nullable() {
    const accepts = this.#accepts
    return this.#with({ nullable: true }, { accepts: (value) => (value === null ? undefined : accepts(value)) })
  }
  default(value) {
    return this.#with({ default: value }, { isOptional: true, default: value })
  }
  min(limit) {
    return this.#with({ [this.#bound("min")]: limit })
  }
  max(limit) {
    return this.#with({ [this.#bound("max")]: limit })
  }
  int() {
    return this.#with({ type: "integer" })
  }
  positive() {
    return this.#with({ exclusiveMinimum: 0 })
  }
  nonnegative() {
    return this.#with({ minimum: 0 })
  }
  regex(pattern) {
    return this.#with({ pattern: pattern.source })
  }
  url() {
    return this.#with({ format: "uri" })
  }
  isOptional() {
    return this.#isOptional
  }
  toJSONSchema() {
    return this.#json
  }
  safeParse(value) {
    if (value === undefined && this.#isOptional) return { success: true, data: this.#default }
    const problem = this.#accepts(value)
    if (problem === undefined) return { success: true, data: value }
    return { success: false, error: { issues: [{ path: [], message: problem }] } }
  }

  #bound(which) {
    const { type } = this.#json
    if (type === "string") return `${which}Length`
    if (type === "array") return `${which}Items`
    return `${which}imum`
  }
}

const being = (type) => (value) =>
  (type === "array" ? Array.isArray(value) : typeof value === type) ? undefined : `must be ${type}, not ${typeof value}`
const anything = () => undefined

function object(shape) {
  const entries = Object.entries(shape)
  const properties = Object.fromEntries(entries.map(([name, schema]) => [name, schema.toJSONSchema()]))
  const required = entries.filter(([, schema]) => !schema.isOptional()).map(([name]) => name)
  return new Schema({ type: "object", properties, required }, (value) => {
    if (typeof value !== "object" || value === null) return "must be an object"
    const wrong = entries.find(([name, schema]) => !schema.safeParse(value[name]).success)
    return wrong && `${wrong[0]}: ${wrong[1].safeParse(value[wrong[0]]).error.issues[0].message}`
  })
}

const schemas = {
  string: () => new Schema({ type: "string" }, being("string")),
  number: () => new Schema({ type: "number" }, being("number")),
  boolean: () => new Schema({ type: "boolean" }, being("boolean")),
  any: () => new Schema({}, anything),
  unknown: () => new Schema({}, anything),
  literal: (value) => new Schema({ const: value }, (given) => (given === value ? undefined : `must be ${value}`)),
  enum: (values) => {
    const known = Array.isArray(values) ? values : Object.values(values)
    const wrong = `must be one of ${known.join(", ")}`
    return new Schema({ type: "string", enum: known }, (value) => (known.includes(value) ? undefined : wrong))
  },
  array: (of) => new Schema({ type: "array", items: of.toJSONSchema() }, being("array")),
  record: (...kinds) =>
    new Schema({ type: "object", additionalProperties: kinds.at(-1).toJSONSchema() }, being("object")),
  union: (kinds) =>
    new Schema({ anyOf: kinds.map((kind) => kind.toJSONSchema()) }, (value) =>
      kinds.some((kind) => kind.safeParse(value).success) ? undefined : "fits none of the kinds it may be",
    ),
  object,
}

export function tool(definition) {
  return definition
}
tool.schema = schemas
