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
  const choices = its.anyOf ?? its.oneOf;
  if (choices) return choices.map((choice) => describeType(api, choice)).join(" or ");
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
  exclusiveMaximum: (n) => `less than ${n}`,
  minLength: (n) => `at least ${n} characters`,
  maxLength: (n) => `at most ${n} characters`,
  minItems: (n) => `at least ${n} of them`,
  maxItems: (n) => `at most ${n} of them`,
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

/** A question that could be asked: the schema's own example, or its required fields filled in. */
export function exampleOf(api, schema) {
  const its = resolve(api, schema) ?? {};
  const given = its.example ?? its.examples?.[0];
  if (given !== undefined) return given;
  if (its.properties) {
    const fields = Object.entries(its.properties).filter(
      ([name, field]) => its.required?.includes(name) || field.examples,
    );
    return Object.fromEntries(fields.map(([name, field]) => [name, exampleOf(api, field)]));
  }
  if (its.type === "array") return [exampleOf(api, its.items)];
  return { string: "…", integer: 1, number: 1, boolean: true }[its.type] ?? its.default ?? null;
}
