// A panel with the translation of one run: its output, the views (map, lines, beam), and downloads.

import { element } from "./elements.js";
import { outputSide, sourceSide } from "./tokens.js";
import { hasNoAttention, selectedMap } from "./weights.js";
import { attentionOf, ATTENTIONS } from "./attentions.js";
import { describePosition } from "./wording.js";
import { drawMap } from "./map.js";
import { drawLines } from "./lines.js";
import { drawHeads } from "./heads.js";
import { drawAttentionChoice } from "./attention_choice.js";
import { drawSourceImage } from "./source_image.js";
import { drawResult, releaseButton } from "./result.js";
import { drawStage } from "./stage.js";
import { drawSteps } from "./steps.js";
import { drawTable } from "./table.js";
import { createTabs } from "./tabs.js";
import { downloadRow } from "./download_row.js";

const PADDING = 24; // pixels, the most that view.css gives a panel
const VIEWS = { map: "Map", lines: "Lines", beam: "Beam" };
const DRAWINGS = {
  map: [drawMap, "Attention map. Use the arrow keys to move; the weight is announced."],
  lines: [drawLines, "Lines from output to source. Use the arrow keys to move; the weight is announced."],
};

/** The initial selection of a panel: { view, attention, rank, layer, head, step }; null: the mean, or the last step. */
export function initialChoice(choice = {}) {
  const view = choice.view in VIEWS ? choice.view : "map";
  return {
    view,
    attention: ATTENTIONS.includes(choice.attention) ? choice.attention : "source",
    rank: choice.rank ?? 0,
    layer: choice.layer ?? null,
    head: choice.head ?? null,
    step: choice.step ?? null,
  };
}

export class Panel {
  /**
   * `choice` is what the panel shows of the translation. The panel changes it and calls `events`: onChoice(),
   * onView(view), onHighlight(index of a source token, or null), and onForce(prefix), which is null without a server.
   * `offered` are the names of the self-attentions that a server returns on request.
   */
  constructor(name, about, choice, events, offered = []) {
    Object.assign(this, { name, choice, events, offered, translation: null, text: "", forced: 0, focusAfter: null });
    const live = { "aria-live": "polite" };
    this.alert = element("p", { class: "problem", role: "alert" });
    this.outputText = element("p", { class: "translation", dir: "auto", lang: "", translate: "no", ...live });
    this.sourceImage = element("div");
    this.result = element("div", { class: "result" });
    this.readout = element("p", { class: "readout", ...live });
    this.heads = element("div");
    this.extras = element("div", { class: "extras" });
    this.tabs = createTabs("Views of the translation", VIEWS, (view) => events.onView(view));
    const below = [this.readout, this.heads, this.extras];
    this.views = element("div", { class: "views" }, this.tabs.list, Object.values(this.tabs.panels), below);
    this.body = element("div", { class: "body" }, this.sourceImage, this.outputText, this.result, this.views);
    const heading = element("h2", { dir: "auto" }, name);
    const header = element("header", {}, heading, element("p", { class: "about", dir: "auto" }, about));
    header.hidden = !name && !about; // in a notebook
    const parts = [header, this.alert, this.body];
    this.node = element("section", { class: "panel", "aria-label": name || "translation" }, parts);
    this.body.hidden = true;
    this.watchWidth();
  }

  /** Redraws the picture when the width of the panel changes. */
  watchWidth() {
    let width = 0;
    new ResizeObserver(([entry]) => {
      const changed = Math.abs(entry.contentRect.width - width) > 1;
      width = entry.contentRect.width;
      if (changed) requestAnimationFrame(() => this.open(this.choice.view));
    }).observe(this.node);
  }

  /** Shows that a request is pending; the last translation stays visible, dimmed. */
  wait() {
    this.node.setAttribute("aria-busy", "true");
  }

  /** Shows a message; a translation may still follow. */
  warn(message) {
    this.alert.textContent = message;
  }

  /** Shows an error. `onRelease` removes forced tokens, which may have caused it; null if there are none. */
  fail(message, onRelease) {
    this.warn(message);
    if (onRelease) this.alert.append(" ", releaseButton(onRelease));
    this.node.setAttribute("aria-busy", "false");
    this.body.hidden = true;
    this.translation = null;
  }

  /** Shows a translation of `text`, whose first `forced` tokens were forced. */
  show(translation, text, forced = 0) {
    const title = translation.source_image ? translation.text : text; // for file names
    Object.assign(this, { translation, text, title, forced });
    this.tabs.setAvailable("beam", Boolean(this.events.onForce ?? translation.tree)); // a saved page may have none
    this.node.setAttribute("aria-busy", "false");
    this.alert.textContent = "";
    this.body.hidden = false;
    this.choice.rank = Math.min(this.choice.rank, translation.n_best.length - 1);
    this.draw();
  }

  draw() {
    this.hypothesis = this.translation.n_best[this.choice.rank];
    this.source = sourceSide(this.translation);
    this.output = outputSide(this.hypothesis);
    this.outputText.textContent = this.hypothesis.text;
    this.drawSourceImage();
    const isEmpty = !this.output.tokens.length || !this.source.tokens.length;
    this.views.hidden = isEmpty;
    if (isEmpty) this.drawEmptyNote();
    else {
      this.drawResult();
      this.drawView();
    }
  }

  drawEmptyNote() {
    const why = this.source.tokens.length ? "The output is empty." : "Enter a text to translate.";
    this.result.replaceChildren(element("p", { class: "note" }, why));
  }

  drawSourceImage() {
    const { source_image: image } = this.translation;
    const highlight = (position) => this.highlight(position);
    this.image = image ? drawSourceImage(image, this.node.clientWidth - 2 * PADDING, highlight) : null;
    this.sourceImage.replaceChildren(...(image ? [this.image.node] : []));
  }

  drawResult() {
    const force = (prefix) => {
      this.focusAfter = Math.max(prefix.length - 1, 0); // the token that was replaced
      this.choice.rank = 0;
      this.events.onForce(prefix);
    };
    const open = (rank) => {
      this.choose({ rank });
      this.draw();
      this.result.querySelector("select").focus();
    };
    const highlight = (position) => {
      if (this.attention.name !== "encoder") return this.highlight(position);
      this.tokens.highlight(position ?? { output: null }); // the map has no output tokens
    };
    this.tokens = drawResult(this, this.events.onForce && force, open, highlight);
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
    if (this.translation && !this.views.hidden) this.drawView();
  }

  /** The names of the attentions that this panel can show. */
  attentionNames() {
    return ATTENTIONS.filter((name) => name === "source" || this.offered.includes(name) || this.isRecorded(name));
  }

  isRecorded(name) {
    return attentionOf(name, this.translation, this.hypothesis).maps.length > 0;
  }

  /** True if the translation lacks the self-attention that is selected, and a request would return it. */
  lacksAttention() {
    const { attention } = this.choice;
    if (!this.translation?.source_tokens.length) return false;
    return this.offered.includes(attention) && !this.isRecorded(attention);
  }

  /** Draws the view of the selected tab; the others are empty until they are selected. */
  drawView() {
    const { view } = this.choice;
    const names = this.attentionNames();
    const name = names.includes(this.choice.attention) ? this.choice.attention : "source";
    this.attention = attentionOf(name, this.translation, this.hypothesis);
    this.tabs.select(view);
    for (const [name, panel] of Object.entries(this.tabs.panels)) if (name !== view) panel.replaceChildren();
    this.picture = this.stage = this.weights = null;
    this.heads.replaceChildren();
    this.readout.replaceChildren();
    this.readout.hidden = view === "beam";
    if (view === "beam") this.drawBeam(this.tabs.panels.beam);
    else this.drawAttention(this.tabs.panels[view], view, names);
    const { maps, columns, rows } = this.attention;
    const map = view === "beam" || hasNoAttention(maps) ? null : selectedMap(maps, this.choice);
    const wasOpen = this.extras.querySelector("details")?.open ?? false;
    const table = map ? [drawTable(columns, rows, map.weights, wasOpen)] : [];
    this.extras.replaceChildren(...table, downloadRow(this, map));
  }

  drawAttention(container, view, names) {
    const { maps, columns, rows } = this.attention;
    const choice = names.length > 1 ? [this.drawAttentionChoice(names)] : [];
    if (!maps.length || hasNoAttention(maps)) {
      const none = names.length > 1 ? "This model has no attention to the source." : "This model has no attention.";
      const unknown = this.node.getAttribute("aria-busy") === "true"
        ? "Loading the self-attention …"
        : "The attention of this translation was not recorded.";
      container.replaceChildren(...choice, element("p", { class: "note" }, maps.length ? none : unknown));
      return;
    }
    const [drawing, label] = DRAWINGS[view];
    const map = selectedMap(maps, this.choice);
    if (maps.length > 1) this.drawHeadChoice(map); // first, because it may reduce the width of the picture
    const picture = drawing(columns, rows, map.weights, container.clientWidth - 2);
    this.picture = picture.node;
    this.stage = drawStage(label, picture, columns, rows, (position) => this.highlight(position));
    container.replaceChildren(...choice, this.stage.node);
    this.weights = map.weights;
  }

  drawAttentionChoice(names) {
    const choose = (attention) => {
      this.choose({ attention, layer: null, head: null });
      this.drawView();
      this.views.querySelector(".attentions input:checked").focus();
    };
    return drawAttentionChoice(names, this.attention.name, choose);
  }

  drawHeadChoice(map) {
    const choose = ({ indices }) => {
      this.choose({ layer: indices.layer ?? null, head: indices.head ?? null });
      this.drawView();
      this.heads.querySelector("input:checked").focus();
    };
    this.heads.replaceChildren(drawHeads(this.attention.maps, map, this.attention.columns.direction === "rtl", choose));
  }

  drawBeam(container) {
    const { tree } = this.translation;
    if (!tree?.length) {
      const unknown = this.events.onForce ? "Loading the beam …" : "The beam of this translation was not recorded.";
      container.replaceChildren(element("p", { class: "note" }, tree ? "The search has no steps." : unknown));
      return;
    }
    const steps = drawSteps(tree, this.choice.step, (step) => this.choose({ step }));
    this.picture = steps.picture;
    container.replaceChildren(...steps.parts);
    steps.scrollToStep();
  }

  /**
   * Highlights a position in all parts of the panel and describes it; null removes highlights. A position is that of a
   * cell, { output: row, source: column }; in self-attention, one of them is not a token of that side.
   */
  highlight(position) {
    const { name, columns, rows } = this.attention;
    this.tokens.highlight({ output: name === "encoder" ? null : (position?.output ?? null) });
    this.events.onHighlight(name === "decoder" ? null : (position?.source ?? null));
    this.highlightImage(position);
    if (!this.stage) return;
    this.stage.highlight(position);
    this.readout.replaceChildren(...(position ? describePosition(columns, rows, this.weights, position) : []));
  }

  /** Colors the patches of the picture by the weights of a row; the columns of the decoder are no patches. */
  highlightImage(position) {
    if (!this.image) return;
    const { output = null, source = null } = this.attention.name === "decoder" ? {} : (position ?? {});
    this.image.highlight(output === null ? null : (this.weights?.[output] ?? null), source);
  }

  /** Highlights a source token that is under the pointer in another panel. */
  highlightSource(source) {
    if (this.attention.name === "decoder") return; // its columns are not source tokens
    const position = source === null ? null : { output: null, source };
    this.stage?.highlight(position);
    this.highlightImage(position);
  }
}

/** Highlights a source token of one panel in the others, if they have the same source tokens. */
export function highlightTogether(panels, from, source) {
  for (const panel of panels) {
    const sameTokens = () => panel.translation.source_tokens.join("\n") === from.translation.source_tokens.join("\n");
    if (panel !== from && panel.translation && sameTokens()) panel.highlightSource(source);
  }
}
