// The API documentation, from /openapi.json: each operation with its fields, responses and an example.

import { element } from "../view/elements.js";
import { describeBounds, describeType, resolve } from "./schemas.js";

async function showDocs() {
  const container = document.getElementById("operations");
  const response = await fetch("openapi.json").catch(() => null);
  if (!response?.ok)
    return container.replaceChildren(
      element("p", { class: "problem", role: "alert" }, "The documentation could not be loaded from openapi.json."),
    );
  const api = await response.json();
  const operations = Object.entries(api.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => operationArticle(api, method.toUpperCase(), path, operation)),
  );
  container.replaceChildren(...paragraphs(api.info.description), ...operations);
}

function operationArticle(api, method, path, operation) {
  const id = `${method}-${path}`.replace(/\W+/g, "-").toLowerCase();
  const body = resolve(api, operation.requestBody?.content?.["application/json"]?.schema);
  const parts = [
    element("h2", { id }, element("span", { class: "method" }, method), " ", element("code", {}, path)),
    ...paragraphs(operation.description ?? operation.summary),
  ];
  if (body) parts.push(requestTable(api, body));
  parts.push(
    element("h3", {}, "Example"),
    element("pre", { tabindex: "0" }, curlCommand(method, path, body)),
    responseList(api, operation.responses),
  );
  return element("article", { class: "panel", "aria-labelledby": id }, parts);
}

/** Text with code between backticks. */
function inlineCode(text) {
  return text.split("`").map((part, index) => (index % 2 ? element("code", {}, part) : part));
}

function paragraphs(text) {
  return (text ?? "")
    .split(/\n\s*\n/)
    .filter((part) => part.trim())
    .map((part) => element("p", {}, inlineCode(part.trim())));
}

function requestTable(api, schema) {
  const rows = Object.entries(schema.properties).map(([name, field]) =>
    fieldRow(api, name, field, defaultValue(field, schema.required?.includes(name))),
  );
  return table(schema.title, ["field", "type", "default", "description"], rows);
}

function responseTable(api, schema) {
  const rows = Object.entries(schema.properties).map(([name, field]) => fieldRow(api, name, field));
  return table(schema.title, ["field", "type", "description"], rows);
}

function table(caption, columns, rows) {
  const headers = columns.map((name) => element("th", { scope: "col" }, name));
  const head = element("thead", {}, element("tr", {}, headers));
  const content = element("table", {}, element("caption", {}, caption), head, element("tbody", {}, rows));
  return element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption }, content);
}

function defaultValue(field, isRequired) {
  if (isRequired) return "required";
  return field.default === undefined ? "" : element("code", {}, JSON.stringify(field.default));
}

/** A row of a table of fields, with a column for the default value unless that is null. */
function fieldRow(api, name, field, defaultContent = null) {
  const type = [describeType(api, field), describeBounds(api, field)].filter(Boolean).join(", ");
  const description = inlineCode(field.description ?? resolve(api, field).description ?? "");
  const contents = [type, ...(defaultContent === null ? [] : [defaultContent]), description];
  const cells = contents.map((content) => element("td", {}, content));
  return element("tr", {}, element("th", { scope: "row" }, element("code", {}, name)), cells);
}

/** Each status code with its description and, for a successful response, its fields. */
function responseList(api, responses) {
  const entries = Object.entries(responses).flatMap(([status, response]) => {
    const schema = resolve(api, response.content?.["application/json"]?.schema);
    const hasFields = status.startsWith("2") && schema?.properties;
    return [
      element("dt", {}, status),
      element("dd", {}, inlineCode(response.description ?? ""), hasFields ? nestedTables(api, schema) : null),
    ];
  });
  return [element("h3", {}, "Responses"), element("dl", {}, entries)];
}

/** The fields of a schema, then those of the schemas inside it, each once. */
function nestedTables(api, schema, seen = new Set()) {
  if (seen.has(schema.title)) return [];
  seen.add(schema.title);
  const inner = Object.values(schema.properties).flatMap((field) => objectSchemas(api, field));
  return [responseTable(api, schema), ...inner.flatMap((each) => nestedTables(api, each, seen))];
}

function objectSchemas(api, field) {
  const schema = resolve(api, field);
  if (schema.properties) return [schema];
  return [schema.items, ...(schema.anyOf ?? [])].filter(Boolean).flatMap((part) => objectSchemas(api, part));
}

function curlCommand(method, path, body) {
  const url = new URL(path.slice(1), document.baseURI);
  if (method === "GET") return `curl ${url}`;
  const data = JSON.stringify(body.example).replaceAll("'", "'\\''");
  return `curl ${url} \\\n  -H 'Content-Type: application/json' \\\n  -d '${data}'`;
}

showDocs();
