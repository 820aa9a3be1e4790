// Short descriptions of JSON schemas.

/** The schema that a reference points to. */
export function resolve(api, schema) {
  if (!schema?.$ref) return schema;
  const name = schema.$ref.split("/").at(-1);
  return { title: name, ...api.components.schemas[name] };
}

const TYPE_NAMES = { string: "string", integer: "integer", number: "number", boolean: "boolean", null: "null" };

/** The type of a field, such as "list of string" or "number or null". */
export function describeType(api, schema) {
  const resolved = resolve(api, schema);
  if (resolved.anyOf) return resolved.anyOf.map((option) => describeType(api, option)).join(" or ");
  if (resolved.enum) return resolved.enum.map((value) => JSON.stringify(value)).join(" or ");
  if (resolved.const !== undefined) return JSON.stringify(resolved.const);
  if (resolved.type === "array")
    return resolved.prefixItems
      ? `(${resolved.prefixItems.map((item) => describeType(api, item)).join(", ")})`
      : `list of ${resolved.items ? describeType(api, resolved.items) : "any"}`;
  if (resolved.type === "object" || resolved.properties) return resolved.title ?? "object";
  return TYPE_NAMES[resolved.type] ?? "any";
}

const BOUNDS = {
  minimum: (bound) => `≥ ${bound}`,
  maximum: (bound) => `≤ ${bound}`,
  exclusiveMinimum: (bound) => `> ${bound}`,
};

/** The bounds of a field, such as "≥ 1, ≤ 50". Bounds beyond JavaScript's integers are left out. */
export function describeBounds(api, schema) {
  const resolved = resolve(api, schema);
  const own = Object.entries(BOUNDS)
    .filter(([name]) => Math.abs(resolved[name]) < 2 ** 53)
    .map(([name, format]) => format(resolved[name]));
  const nested = (resolved.anyOf ?? []).map((option) => describeBounds(api, option));
  return [...own, ...nested].filter(Boolean).join(", ");
}
