// The live page: what is typed is translated, and the answers are shown.

import { element } from "../view/elements.js";
import { firstChoice, lightTogether, Panel } from "../view/panel.js";
import { readAddress, takeToken, writeAddress } from "./address.js";
import { call, keepToken, latestOnly } from "./client.js";
import { copyLink, savePage } from "./sharing.js";
import { askForToken } from "./token.js";

const PAUSE = 150; // milliseconds without a key before the server is asked
const ALTERNATIVES = 8;
const MOST_LISTED = 5; // of the best translations

const field = (id) => document.getElementById(id);
const { text, run, other, beam, penalty, examples, panels, problem } = Object.fromEntries(
  ["text", "run", "other", "beam", "penalty", "examples", "panels", "problem"].map((id) => [id, field(id)]),
);

let served = { runs: [], limits: {} };
let view = "map";
let readings = []; // one or two runs that read the text: { run, panel, prefix, ask }
let pause = null;

async function start() {
  acceptToken();
  try {
    served = await call("api/runs", askForToken);
  } catch (error) {
    problem.textContent = error.message;
    return;
  }
  const names = served.runs.map(({ name }) => name);
  run.replaceChildren(...names.map((name) => element("option", { value: name }, name)));
  other.replaceChildren(
    element("option", { value: "" }, "nothing"),
    ...names.map((name) => element("option", { value: name }, name)),
  );
  other.disabled = names.length < 2;
  beam.max = served.limits.beam;
  listen();
  restore();
}

function acceptToken() {
  const token = takeToken(location, history);
  if (token) keepToken(token);
}

function listen() {
  field("question").addEventListener("submit", (event) => event.preventDefault());
  text.addEventListener("input", () => askSoon(askAnew));
  for (const setting of [beam, penalty]) setting.addEventListener("input", () => askSoon(searchAnew));
  run.addEventListener("change", () => (seat(), askAnew()));
  other.addEventListener("change", () => (seat(), ask(readings.filter(({ panel }) => !panel.answer))));
  field("copy-link").addEventListener("click", () => copyLink(field("status")));
  field("save-page").addEventListener("click", () => savePage(view, readings, withBeam, field("status")));
  window.addEventListener("hashchange", restore);
}

/** Opens the view that the address tells of; without one, the first example. */
function restore() {
  acceptToken();
  const told = readAddress(location.hash);
  const find = (name) => served.runs.find((each) => each.name === name);
  const missing = told.runs.filter((name) => name && !find(name));
  problem.textContent = missing.length ? `This server has no run called ${missing.join(" or ")}.` : "";
  run.value = (find(told.runs[0]) ?? served.runs[0]).name;
  other.value = find(told.runs[1])?.name ?? "";
  text.value = told.text ?? find(run.value).examples[0] ?? "";
  beam.value = told.beam ?? 1;
  penalty.value = told.penalty ?? "";
  view = firstChoice({ view: told.view }).view;
  readings = [];
  seat(told.panels);
  ask();
}

/** Gives each chosen run its panel; one that has it already keeps it. */
function seat(told = []) {
  if (other.value === run.value) other.value = "";
  for (const option of other.options) option.disabled = option.value === run.value;
  const names = [run.value, other.value].filter(Boolean);
  readings = names.map(
    (name, number) => readings.find((reading) => reading.run.name === name) ?? createReading(name, told[number]),
  );
  panels.replaceChildren(...readings.map(({ panel }) => panel.node));
  const { length_penalty: usual, examples: texts } = readings[0].run;
  penalty.placeholder = String(usual);
  examples.replaceChildren(...(texts.length ? ["Examples"] : []), ...texts.map(exampleButton));
}

function exampleButton(example) {
  const use = () => {
    text.value = example;
    askAnew();
  };
  return element("button", { type: "button", dir: "auto", lang: "", title: example, onclick: use }, example);
}

function createReading(name, told = {}) {
  const its = served.runs.find((each) => each.name === name);
  const reading = { run: its, about: aboutRun(its), prefix: told.prefix ?? [] };
  const force = (prefix) => {
    reading.prefix = prefix;
    ask([reading]);
  };
  reading.panel = new Panel(name, reading.about, firstChoice({ ...told, view }), {
    onForce: force,
    onChoice: remember,
    onView: openView,
    onLight: (source) =>
      lightTogether(
        readings.map((each) => each.panel),
        reading.panel,
        source,
      ),
  });
  reading.ask = latestOnly(
    askForToken,
    (answer, question) => {
      reading.panel.show(answer, question.texts[0], question.prefix.length);
      remember(); // what an address has asked for may not be there
      waitOn(reading);
      if (view === "beam" && !question.tree) ask([reading]); // the tab was opened after the question
    },
    (message, isFinal) => {
      if (isFinal) reading.panel.fail(message, reading.prefix.length ? () => force([]) : null);
      else reading.panel.warn(message);
      waitOn(reading);
    },
  );
  return reading;
}

/** What has come is not the last word if somebody has typed on. */
function waitOn({ panel }) {
  if (pause) panel.wait();
}

function aboutRun({ description, encoder, decoder, attention, weights }) {
  const sort = encoder === decoder ? `${encoder} encoder and decoder` : `${encoder} encoder, ${decoder} decoder`;
  const looking = attention === "none" ? "no attention" : `${attention} attention`;
  return `${description} · ${sort}, ${looking}, ${weights.toLocaleString("en")} weights`;
}

/** All panels open the same view; a beam is asked for when it is first looked at. */
function openView(name) {
  view = name;
  for (const { panel } of readings) panel.open(name);
  if (name === "beam") ask(readings.filter(({ panel }) => panel.answer && !panel.answer.tree));
  remember();
}

/** When nobody has typed for a moment; a text that has changed is asked for anew, whatever else changes. */
function askSoon(act) {
  clearTimeout(pause?.timer);
  const chosen = pause?.act === askAnew ? askAnew : act;
  pause = { act: chosen, timer: setTimeout(chosen, PAUSE) };
  for (const { panel } of readings) panel.wait();
}

/** For another text or run: what was forced belongs to the old one. */
function askAnew() {
  for (const reading of readings) reading.prefix = [];
  searchAnew();
}

/** For another search, too, which of the best was looked at belongs to the old one. */
function searchAnew() {
  clearTimeout(pause?.timer);
  pause = null;
  for (const { panel } of readings) Object.assign(panel.choice, { rank: 0, step: null });
  ask();
}

function ask(those = readings) {
  for (const reading of those) {
    reading.panel.wait();
    reading.ask(questionOf(reading, view === "beam"));
  }
  remember();
}

function questionOf(reading, tree) {
  const width = beamWidth();
  return {
    texts: [text.value],
    run: reading.run.name,
    beam: width,
    n_best: Math.min(width, MOST_LISTED),
    length_penalty: lengthPenalty(),
    prefix: reading.prefix,
    attention: true,
    alternatives: ALTERNATIVES,
    tree,
  };
}

/** The answer that a panel shows with its beam, whether or not somebody has looked at that. */
async function withBeam(reading) {
  const { answer, text: shown } = reading.panel;
  if (answer.tree) return answer;
  const question = { ...questionOf(reading, true), texts: [shown] };
  return (await call("api/translate", askForToken, question)).translations[0];
}

/** What is too wide is for the server to say. */
function beamWidth() {
  return Math.max(Math.round(beam.valueAsNumber) || 1, 1);
}

function lengthPenalty() {
  return Number.isFinite(penalty.valueAsNumber) ? penalty.valueAsNumber : null;
}

/** Writes what is looked at into the address. */
function remember() {
  const runs = readings.map((reading) => reading.run.name);
  const seen = readings.map(({ panel, prefix }) => ({ ...panel.choice, prefix }));
  const address = writeAddress({
    text: text.value,
    runs,
    beam: beamWidth(),
    penalty: lengthPenalty(),
    view,
    panels: seen,
  });
  history.replaceState(null, "", address);
}

start();
