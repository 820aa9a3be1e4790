// The choice of the attention that a map shows.

import { element, uniqueId } from "./elements.js";

const TITLES = { source: "to the source", encoder: "within the encoder", decoder: "within the decoder" };

/** A group of radio buttons, one for each of these attentions; `onChoose(name)` is called with the name of one. */
export function drawAttentionChoice(names, chosen, onChoose) {
  const group = uniqueId("attention");
  const choices = names.map((name) => {
    const radio = element("input", { type: "radio", name: group, onchange: () => onChoose(name) });
    radio.checked = name === chosen;
    return element("label", {}, radio, " ", TITLES[name]);
  });
  return element("fieldset", { class: "attentions" }, element("legend", {}, "Attention"), choices);
}
