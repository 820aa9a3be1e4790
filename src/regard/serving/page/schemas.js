// JSON schemas in words.

/** The schema that a reference names. */
export function resolve(api, schema) {
  if (!schema?.$ref) return schema;
  const name = schema.$ref.split("/").at(-1);
  return { title: name, ...api.components.schemas[name] };
}

/** "a list of texts", "a number, or null". */
export function describeType(api, schema) {
  const its = resolve(api, schema);
  if (its.anyOf) return its.anyOf.map((choice) => describeType(api, choice)).join(" or ");
  if (its.enum) return its.enum.map((value) => JSON.stringify(value)).join(" or ");
  if (its.const !== undefined) return JSON.stringify(its.const);
  if (its.type === "array")
    return its.prefixItems
      ? `(${its.prefixItems.map((item) => describeType(api, item)).join(", ")})`
      : `list of ${its.items ? describeType(api, its.items) : "anything"}`;
  if (its.type === "object" || its.properties) return its.title ?? "object";
  return (
    { string: "text", integer: "whole number", number: "number", boolean: "true or false", null: "null" }[its.type] ??
    "anything"
  );
}

const LIMITS = {
  minimum: (n) => `at least ${n}`,
  maximum: (n) => `at most ${n}`,
  exclusiveMinimum: (n) => `more than ${n}`,
};

/** "at least 1, at most 50". What is beyond whole numbers of JavaScript is no limit to anybody. */
export function limitsOf(api, schema) {
  const its = resolve(api, schema);
  const own = Object.entries(LIMITS)
    .filter(([name]) => Math.abs(its[name]) < 2 ** 53)
    .map(([name, say]) => say(its[name]));
  const nested = (its.anyOf ?? []).map((choice) => limitsOf(api, choice));
  return [...own, ...nested].filter(Boolean).join(", ");
}
