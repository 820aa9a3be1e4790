// The web page: translates the text as it is typed, and shows the results.

import { element } from "../view/elements.js";
import { highlightTogether, initialChoice, Panel } from "../view/panel.js";
import { formatFragment, parseFragment, takeToken } from "./address.js";
import { callApi, latestTranslation, storeToken } from "./client.js";
import { createPictureInput } from "./picture_input.js";
import { copyLink, savePage } from "./sharing.js";
import { requestToken } from "./token.js";

const TYPING_PAUSE = 150; // milliseconds without a key before a request is sent
const ALTERNATIVES = 8;
const MAX_N_BEST = 5;
const MAX_LINK_CHARACTERS = 8000; // of a text; a larger picture is not part of the URL

const byId = (id) => document.getElementById(id);
const { text, run, other, beam, penalty, examples, panels, problem } = Object.fromEntries(
  ["text", "run", "other", "beam", "penalty", "examples", "panels", "problem"].map((id) => [id, byId(id)]),
);

let server = { runs: [], limits: {} };
let view = "map";
let slots = []; // one or two runs with their panels: { run, about, panel, prefix, request }
let pictureInput = null; // of runs that read pictures; its data URI is the value of `text`
let pending = null; // { action, timer } while the user types

async function start() {
  storeTokenFromUrl();
  try {
    server = await callApi("api/runs", requestToken);
  } catch (error) {
    problem.textContent = error.message;
    return;
  }
  const names = server.runs.map(({ name }) => name);
  run.replaceChildren(...names.map((name) => element("option", { value: name }, name)));
  other.replaceChildren(
    element("option", { value: "" }, "none"),
    ...names.map((name) => element("option", { value: name }, name)),
  );
  other.disabled = names.length < 2;
  beam.max = server.limits.beam;
  addListeners();
  restoreState();
}

function storeTokenFromUrl() {
  const token = takeToken(location, history);
  if (token) storeToken(token);
}

function addListeners() {
  byId("options").addEventListener("submit", (event) => event.preventDefault());
  text.addEventListener("input", () => schedule(translateNewText));
  for (const option of [beam, penalty]) option.addEventListener("input", () => schedule(translateFromStart));
  run.addEventListener("change", () => (updateSlots(), translateNewText()));
  pictureInput = createPictureInput(
    (uri) => {
      text.value = uri;
      schedule(translateNewText);
    },
    (message) => (problem.textContent = message),
  );
  byId("picture-field").append(pictureInput.node);
  other.addEventListener("change", () => {
    updateSlots();
    sendRequests(slots.filter(({ panel }) => !panel.translation));
  });
  byId("copy-link").addEventListener("click", () => copyLink(byId("status")));
  byId("save-page").addEventListener("click", () => savePage(view, slots, fetchComplete, byId("status")));
  window.addEventListener("hashchange", restoreState);
}

/** Shows the state in the URL; without one, the first example. */
function restoreState() {
  storeTokenFromUrl();
  const state = parseFragment(location.hash);
  const missing = state.runs.filter((name) => name && !findRun(name));
  problem.textContent = missing.length ? `This server has no run called ${missing.join(" or ")}.` : "";
  run.value = (findRun(state.runs[0]) ?? server.runs[0]).name;
  other.value = findRun(state.runs[1])?.name ?? "";
  text.value = state.text ?? findRun(run.value).examples[0] ?? "";
  beam.value = state.beam ?? 1;
  penalty.value = state.penalty ?? "";
  view = initialChoice({ view: state.view }).view;
  slots = [];
  updateSlots(state.panels);
  sendRequests();
}

/** Offers the input of the first run, a text or a picture, and other runs that read the same. */
function showInput() {
  const { source, examples: sources } = findRun(run.value);
  const isImage = source === "image";
  if (isPicture(text.value) !== isImage && (text.value || isImage)) text.value = sources[0] ?? "";
  byId("text-field").hidden = isImage;
  byId("picture-field").hidden = !isImage;
  if (isImage) pictureInput.show(text.value);
  for (const option of other.options) {
    option.disabled = option.value === run.value || (option.value !== "" && findRun(option.value).source !== source);
  }
  if (other.value && (other.value === run.value || findRun(other.value).source !== source)) other.value = "";
}

function findRun(name) {
  return server.runs.find((each) => each.name === name);
}

function isPicture(source) {
  return source.startsWith("data:image/");
}

/** Creates a slot for each selected run; a run that has one already keeps it. */
function updateSlots(states = []) {
  showInput();
  const names = [run.value, other.value].filter(Boolean);
  slots = names.map((name, index) => slots.find((slot) => slot.run.name === name) ?? createSlot(name, states[index]));
  panels.replaceChildren(...slots.map(({ panel }) => panel.node));
  const { length_penalty: defaultPenalty, examples: sentences } = slots[0].run;
  penalty.placeholder = String(defaultPenalty);
  examples.replaceChildren(...(sentences.length ? ["Examples"] : []), ...sentences.map(exampleButton));
}

function exampleButton(example) {
  const use = () => {
    text.value = example;
    if (isPicture(example)) pictureInput.show(example);
    translateNewText();
  };
  if (isPicture(example)) {
    return element("button", { type: "button", onclick: use }, element("img", { src: example, alt: "example picture" }));
  }
  return element("button", { type: "button", dir: "auto", lang: "", title: example, onclick: use }, example);
}

function createSlot(name, state = {}) {
  const slotRun = findRun(name);
  const slot = { run: slotRun, about: describeRun(slotRun), prefix: state.prefix ?? [] };
  const force = (prefix) => {
    slot.prefix = prefix;
    sendRequests([slot]);
  };
  const choose = () => {
    updateUrl();
    if (slot.panel.lacksAttention()) sendRequests([slot]);
  };
  const events = {
    onForce: force,
    onChoice: choose,
    onView: openView,
    onHighlight: (source) =>
      highlightTogether(
        slots.map((each) => each.panel),
        slot.panel,
        source,
      ),
  };
  slot.panel = new Panel(name, slot.about, initialChoice({ ...state, view }), events, slotRun.self_attention);
  slot.request = latestTranslation(
    requestToken,
    (translation, body) => {
      slot.panel.show(translation, body.texts[0], body.prefix.length);
      updateUrl(); // a rank in the URL may not exist
      markBusyWhileTyping(slot);
      const lacksAttention = slot.panel.lacksAttention() && !body.self_attention;
      const isIncomplete = (view === "beam" && !body.tree) || lacksAttention;
      if (isIncomplete) sendRequests([slot]); // the view was chosen after the request
    },
    (message, isFinal) => {
      if (isFinal) slot.panel.fail(message, slot.prefix.length ? () => force([]) : null);
      else slot.panel.warn(message);
      markBusyWhileTyping(slot);
    },
  );
  return slot;
}

/** A result is outdated if the user has continued to type. */
function markBusyWhileTyping({ panel }) {
  if (pending) panel.wait();
}

function describeRun({ description, encoder, decoder, attention, parameters }) {
  const architecture = encoder === decoder ? `${encoder} encoder and decoder` : `${encoder} encoder, ${decoder} decoder`;
  const mechanism = attention === "none" ? "no attention" : `${attention} attention`;
  return `${description} · ${architecture}, ${mechanism}, ${parameters.toLocaleString("en")} parameters`;
}

/** Opens the same view in all panels; beam trees are requested when their view is first opened. */
function openView(name) {
  view = name;
  for (const { panel } of slots) panel.open(name);
  if (name === "beam") sendRequests(slots.filter(({ panel }) => panel.translation && !panel.translation.tree));
  updateUrl();
}

/** Runs an action after a typing pause. A new text takes precedence over changed options. */
function schedule(action) {
  clearTimeout(pending?.timer);
  const next = pending?.action === translateNewText ? translateNewText : action;
  pending = { action: next, timer: setTimeout(next, TYPING_PAUSE) };
  for (const { panel } of slots) panel.wait();
}

/** For another text or run: forced prefixes belong to the old one. */
function translateNewText() {
  for (const slot of slots) slot.prefix = [];
  translateFromStart();
}

/** For other search options: the selected rank and step belong to the old result. */
function translateFromStart() {
  clearTimeout(pending?.timer);
  pending = null;
  for (const { panel } of slots) Object.assign(panel.choice, { rank: 0, step: null });
  sendRequests();
}

function sendRequests(selected = slots) {
  for (const slot of selected) {
    slot.panel.wait();
    slot.request(requestBody(slot, view === "beam", slot.run.self_attention.includes(slot.panel.choice.attention)));
  }
  updateUrl();
}

function requestBody(slot, tree, selfAttention) {
  const width = beamWidth();
  return {
    texts: [text.value],
    run: slot.run.name,
    beam: width,
    n_best: Math.min(width, MAX_N_BEST),
    length_penalty: lengthPenalty(),
    prefix: slot.prefix,
    attention: true,
    self_attention: selfAttention,
    alternatives: ALTERNATIVES,
    tree,
  };
}

/** The translation that a panel shows, with its beam tree and self-attention. */
async function fetchComplete({ panel, ...slot }) {
  const { self_attention: names } = slot.run;
  if (panel.translation.tree && names.every((name) => panel.isRecorded(name))) return panel.translation;
  const body = { ...requestBody(slot, true, names.length > 0), texts: [panel.text] };
  return (await callApi("api/translate", requestToken, body)).translations[0];
}

/** The beam width; the server checks its upper limit. */
function beamWidth() {
  return Math.max(Math.round(beam.valueAsNumber) || 1, 1);
}

function lengthPenalty() {
  return Number.isFinite(penalty.valueAsNumber) ? penalty.valueAsNumber : null;
}

/** Writes the state of the page into the URL. */
function updateUrl() {
  const fragment = formatFragment({
    text: text.value.length <= MAX_LINK_CHARACTERS ? text.value : null,
    runs: slots.map((slot) => slot.run.name),
    beam: beamWidth(),
    penalty: lengthPenalty(),
    view,
    panels: slots.map(({ panel, prefix }) => ({ ...panel.choice, prefix })),
  });
  history.replaceState(null, "", fragment);
}

start();
