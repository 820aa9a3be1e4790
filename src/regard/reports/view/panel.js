// One run's answer: its output, the map, lines and beam to look at, and the files to take away.

import { element } from "./elements.js";
import { outputSide, sourceSide } from "./tokens.js";
import { chosenMap, looksNowhere, mapsOf } from "./weights.js";
import { placeInWords } from "./wording.js";
import { drawMap } from "./map.js";
import { drawLines } from "./lines.js";
import { drawHeads } from "./heads.js";
import { drawResult, releaseButton } from "./result.js";
import { drawStage } from "./stage.js";
import { drawSteps } from "./steps.js";
import { drawTable } from "./table.js";
import { createTabs } from "./tabs.js";
import { downloadRow } from "./takeaway.js";

const VIEWS = { map: "Map", lines: "Lines", beam: "Beam" };
const DRAWINGS = {
  map: [drawMap, "Attention map. Arrow keys move through it; the weight is read out."],
  lines: [drawLines, "Lines from output to source. Arrow keys move through them; the weight is read out."],
};

/** How a panel opens: { view, rank, layer, head, step }, where null is the mean of all, or the last step. */
export function firstChoice(choice = {}) {
  const view = choice.view in VIEWS ? choice.view : "map";
  return {
    view,
    rank: choice.rank ?? 0,
    layer: choice.layer ?? null,
    head: choice.head ?? null,
    step: choice.step ?? null,
  };
}

export class Panel {
  /**
   * `choice` is what of the answer is looked at; the panel changes it, and tells by `events`:
   * onChoice(), onView(view), onLight(source token or null), and onForce(prefix), null where nobody can be asked.
   */
  constructor(name, about, choice, events) {
    Object.assign(this, { name, choice, events, answer: null, text: "", forced: 0, focusAfter: null });
    const aloud = { "aria-live": "polite" };
    this.alert = element("p", { class: "problem", role: "alert" });
    this.translation = element("p", { class: "translation", dir: "auto", lang: "", translate: "no", ...aloud });
    this.result = element("div", { class: "result" });
    this.readout = element("p", { class: "readout", ...aloud });
    this.heads = element("div");
    this.extras = element("div", { class: "extras" });
    this.tabs = createTabs("Views of the translation", VIEWS, (view) => events.onView(view));
    const below = [this.readout, this.heads, this.extras];
    this.views = element("div", { class: "views" }, this.tabs.list, Object.values(this.tabs.panels), below);
    this.body = element("div", { class: "body" }, this.translation, this.result, this.views);
    const heading = element("h2", { dir: "auto" }, name);
    const header = element("header", {}, heading, element("p", { class: "about", dir: "auto" }, about));
    header.hidden = !name && !about; // in a notebook
    this.node = element("section", { class: "panel", "aria-label": name || "translation" }, header, this.alert, this.body);
    this.body.hidden = true;
    this.watchWidth();
  }

  /** Pictures are drawn to the width there is, so another width is another picture. */
  watchWidth() {
    let width = 0;
    new ResizeObserver(([entry]) => {
      const changed = Math.abs(entry.contentRect.width - width) > 1;
      width = entry.contentRect.width;
      if (changed) requestAnimationFrame(() => this.open(this.choice.view));
    }).observe(this.node);
  }

  /** Until the next answer is there, the last one stays, dimmed. */
  wait() {
    this.node.setAttribute("aria-busy", "true");
  }

  /** Something is not as it should be, but an answer may still come. */
  warn(message) {
    this.alert.textContent = message;
  }

  /** `onRelease` is what may help if it was a forced token that could not be; null: there was none. */
  fail(message, onRelease) {
    this.warn(message);
    if (onRelease) this.alert.append(" ", releaseButton(onRelease));
    this.node.setAttribute("aria-busy", "false");
    this.body.hidden = true;
    this.answer = null;
  }

  /** `text` is what was translated, and `forced` says how many of the first tokens were given. */
  show(answer, text, forced = 0) {
    Object.assign(this, { answer, text, forced });
    this.tabs.offer("beam", Boolean(this.events.onForce ?? answer.tree)); // nobody can be asked for one any more
    this.node.setAttribute("aria-busy", "false");
    this.alert.textContent = "";
    this.body.hidden = false;
    this.choice.rank = Math.min(this.choice.rank, answer.n_best.length - 1);
    this.draw();
  }

  draw() {
    this.hypothesis = this.answer.n_best[this.choice.rank];
    this.source = sourceSide(this.answer);
    this.output = outputSide(this.hypothesis);
    this.maps = mapsOf(this.answer, this.hypothesis);
    this.translation.textContent = this.hypothesis.text;
    const isEmpty = !this.output.tokens.length || !this.source.tokens.length;
    this.views.hidden = isEmpty;
    if (isEmpty) this.drawNothing();
    else {
      this.drawResult();
      this.drawView();
    }
  }

  drawNothing() {
    const why = this.source.tokens.length ? "Nothing was produced." : "Type a sentence to translate it.";
    this.result.replaceChildren(element("p", { class: "note" }, why));
  }

  drawResult() {
    const force = (prefix) => {
      this.focusAfter = Math.max(prefix.length - 1, 0); // where one was when one chose
      this.choice.rank = 0;
      this.events.onForce(prefix);
    };
    const open = (rank) => {
      this.choose({ rank });
      this.draw();
      this.result.querySelector("select").focus();
    };
    this.tokens = drawResult(this, this.events.onForce && force, open, (place) => this.light(place));
    this.result.replaceChildren(this.tokens.node);
    if (this.focusAfter !== null) this.tokens.focus(this.focusAfter);
    this.focusAfter = null;
  }

  choose(change) {
    Object.assign(this.choice, change);
    this.events.onChoice();
  }

  open(view) {
    this.choice.view = view;
    if (this.answer && !this.views.hidden) this.drawView();
  }

  /** The view of the open tab; the others are empty until they are opened. */
  drawView() {
    const { view } = this.choice;
    this.tabs.select(view);
    for (const [name, panel] of Object.entries(this.tabs.panels)) if (name !== view) panel.replaceChildren();
    this.picture = this.stage = null;
    this.heads.replaceChildren();
    this.readout.replaceChildren();
    this.readout.hidden = view === "beam";
    if (view === "beam") this.drawBeam(this.tabs.panels.beam);
    else this.drawAttention(this.tabs.panels[view], view);
    const map = view === "beam" || looksNowhere(this.maps) ? null : chosenMap(this.maps, this.choice);
    const wasOpen = this.extras.querySelector("details")?.open ?? false;
    const table = map ? [drawTable(this.source, this.output, map.weights, wasOpen)] : [];
    this.extras.replaceChildren(...table, downloadRow(this, map));
  }

  drawAttention(place, view) {
    const { maps, source, output, choice } = this;
    if (!maps.length || looksNowhere(maps)) {
      const none = "This model has no attention: it translates without looking back at the source.";
      const why = maps.length ? none : "The attention of this translation was not recorded.";
      place.replaceChildren(element("p", { class: "note" }, why));
      return;
    }
    const [drawing, label] = DRAWINGS[view];
    const map = chosenMap(maps, choice);
    if (maps.length > 1) this.drawHeadChoice(map); // first: it may take room from the picture
    const picture = drawing(source, output, map.weights, place.clientWidth - 2);
    this.picture = picture.node;
    this.stage = drawStage(label, picture, source, output, (at) => this.light(at));
    place.replaceChildren(this.stage.node);
    this.weights = map.weights;
  }

  drawHeadChoice(map) {
    const choose = ({ place }) => {
      this.choose({ layer: place.layer ?? null, head: place.head ?? null });
      this.drawView();
      this.heads.querySelector("input:checked").focus();
    };
    this.heads.replaceChildren(drawHeads(this.maps, map, this.source.direction === "rtl", choose));
  }

  drawBeam(place) {
    const { tree } = this.answer;
    if (!tree?.length) {
      const unknown = this.events.onForce ? "Asking for the beam …" : "The beam of this translation was not recorded.";
      place.replaceChildren(element("p", { class: "note" }, tree ? "No hypothesis was looked at." : unknown));
      return;
    }
    const steps = drawSteps(tree, this.choice.step, (step) => this.choose({ step }));
    this.picture = steps.picture;
    place.replaceChildren(...steps.parts);
    steps.settle();
  }

  /** Lights up a place, { output, source }, wherever it is to be seen, and says what is there; null: nothing. */
  light(place) {
    this.tokens.light(place ?? { output: null });
    this.events.onLight(place?.source ?? null);
    if (!this.stage) return;
    this.stage.light(place);
    this.readout.replaceChildren(...(place ? placeInWords(this.source, this.output, this.weights, place) : []));
  }

  /** The same for a source token that lies under the pointer elsewhere. */
  lightSource(source) {
    this.stage?.light(source === null ? null : { output: null, source });
  }
}

/** A source token under the pointer of one panel lights up in the other, if both read the same tokens. */
export function lightTogether(panels, from, source) {
  for (const panel of panels) {
    const sameTokens = () => panel.answer.source_tokens.join("\n") === from.answer.source_tokens.join("\n");
    if (panel !== from && panel.answer && sameTokens()) panel.lightSource(source);
  }
}
