// The description of the API, read from /openapi.json: each operation with its fields, answers and an example.

import { element } from "../view/elements.js";
import { describeType, limitsOf, resolve } from "./schemas.js";

async function show() {
  const place = document.getElementById("operations");
  const response = await fetch("openapi.json").catch(() => null);
  if (!response?.ok)
    return place.replaceChildren(
      element("p", { class: "problem", role: "alert" }, "The description cannot be read: openapi.json did not arrive."),
    );
  const api = await response.json();
  const operations = Object.entries(api.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => describeOperation(api, method.toUpperCase(), path, operation)),
  );
  place.replaceChildren(...paragraphs(api.info.description), ...operations);
}

function describeOperation(api, method, path, operation) {
  const id = `${method}-${path}`.replace(/\W+/g, "-").toLowerCase();
  const body = resolve(api, operation.requestBody?.content?.["application/json"]?.schema);
  const parts = [
    element("h2", { id }, element("span", { class: "method" }, method), " ", element("code", {}, path)),
    ...paragraphs(operation.description ?? operation.summary),
  ];
  if (body) parts.push(questionTable(api, body));
  parts.push(
    element("h3", {}, "Example"),
    element("pre", { tabindex: "0" }, curl(method, path, body)),
    answers(api, operation.responses),
  );
  return element("article", { class: "panel", "aria-labelledby": id }, parts);
}

/** What stands between backticks is code. */
function prose(text) {
  return text.split("`").map((part, number) => (number % 2 ? element("code", {}, part) : part));
}

function paragraphs(text) {
  return (text ?? "")
    .split(/\n\s*\n/)
    .filter((part) => part.trim())
    .map((part) => element("p", {}, prose(part.trim())));
}

function questionTable(api, schema) {
  const rows = Object.entries(schema.properties).map(([name, field]) =>
    fieldRow(api, name, field, defaultOf(field, schema.required?.includes(name))),
  );
  return table(schema.title, ["field", "type", "default", "meaning"], rows);
}

function answerTable(api, schema) {
  const rows = Object.entries(schema.properties).map(([name, field]) => fieldRow(api, name, field));
  return table(schema.title, ["field", "type", "meaning"], rows);
}

function table(caption, columns, rows) {
  const heads = columns.map((name) => element("th", { scope: "col" }, name));
  const head = element("thead", {}, element("tr", {}, heads));
  const content = element("table", {}, element("caption", {}, caption), head, element("tbody", {}, rows));
  return element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption }, content);
}

function defaultOf(field, isRequired) {
  if (isRequired) return "required";
  return field.default === undefined ? "" : element("code", {}, JSON.stringify(field.default));
}

/** Without `usual`, there is no column for it. */
function fieldRow(api, name, field, usual = null) {
  const type = [describeType(api, field), limitsOf(api, field)].filter(Boolean).join(", ");
  const meaning = prose(field.description ?? resolve(api, field).description ?? "");
  const cells = [type, ...(usual === null ? [] : [usual]), meaning].map((content) => element("td", {}, content));
  return element("tr", {}, element("th", { scope: "row" }, element("code", {}, name)), cells);
}

/** Each status with what it means and, where it has fields, what they are. */
function answers(api, responses) {
  const entries = Object.entries(responses).flatMap(([status, response]) => {
    const schema = resolve(api, response.content?.["application/json"]?.schema);
    const isRecord = status.startsWith("2") && schema?.properties;
    return [
      element("dt", {}, status),
      element("dd", {}, response.description ?? "", isRecord ? nestedTables(api, schema) : null),
    ];
  });
  return [element("h3", {}, "Answers"), element("dl", {}, entries)];
}

/** The fields of an answer, and after them those of the records that lie in it, each once. */
function nestedTables(api, schema, seen = new Set()) {
  if (seen.has(schema.title)) return [];
  seen.add(schema.title);
  const inner = Object.values(schema.properties).flatMap((field) => recordsIn(api, field));
  return [answerTable(api, schema), ...inner.flatMap((record) => nestedTables(api, record, seen))];
}

function recordsIn(api, field) {
  const schema = resolve(api, field);
  if (schema.properties) return [schema];
  return [schema.items, ...(schema.anyOf ?? [])].filter(Boolean).flatMap((part) => recordsIn(api, part));
}

function curl(method, path, body) {
  const address = new URL(path.slice(1), document.baseURI);
  if (method === "GET") return `curl ${address}`;
  const question = JSON.stringify(body.example).replaceAll("'", "'\\''");
  return `curl ${address} \\\n  -H 'Content-Type: application/json' \\\n  -d '${question}'`;
}

show();
