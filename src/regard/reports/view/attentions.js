// What a map can show: the attention of the output to the source, or the self-attention of encoder or decoder.

import { inputSide, outputSide, sourceSide } from "./tokens.js";
import { mapsOf } from "./weights.js";

export const ATTENTIONS = ["source", "encoder", "decoder"];

/** { name, maps, columns, rows }; the tokens of the columns are attended to. `maps` is empty if nothing is recorded. */
export function attentionOf(name, translation, hypothesis) {
  const [source, output] = [sourceSide(translation), outputSide(hypothesis)];
  if (name === "source") {
    return { name, maps: mapsOf(hypothesis.attention, translation.axes), columns: source, rows: output };
  }
  const recorded = name === "encoder" ? translation.encoder_attention : hypothesis.decoder_attention;
  const maps = recorded ? mapsOf(recorded.weights, recorded.axes) : [];
  if (name === "encoder") return { name, maps, columns: source, rows: source };
  return { name, maps, columns: recorded ? inputSide(recorded) : output, rows: output };
}
