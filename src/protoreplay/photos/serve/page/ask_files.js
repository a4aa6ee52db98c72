// Answers to take away: as a table, and as the photos themselves, in a folder for each answer.

import { best, certainty } from "./asked.js";
import { download } from "./dom.js";
import { classOf } from "./store.js";
import { ask as text } from "./strings.js";
import { zipOf } from "./zip.js";

const quoted = (value) => (/[",\n\r]/.test(value) ? `"${value.replaceAll('"', '""')}"` : value);

// The columns of `protoreplay predict --format csv`.
export function csvOf(photos) {
  const rows = photos.filter((photo) => photo.answer || photo.problem).map((photo) => {
    const first = best(photo);
    const values = first ? [first.probability.toFixed(4), first.label, String(Number(photo.answer.familiarity.toPrecision(5)))] : ["", "", ""];
    return [photo.name, photo.answer?.label ?? "", ...values, photo.problem].map(quoted).join(",");
  });
  return ["photo,label,probability,nearest,familiarity,error", ...rows, ""].join("\r\n");
}

export const saveCsv = (photos) => download(new Blob([csvOf(photos)], { type: "text/csv" }), text.csvName);

// The folder where `protoreplay sort` would put a photo.
export function folderOf(photo) {
  const kind = certainty(photo);
  return kind === "sure" ? classOf(photo.answer.label)?.folder ?? "unsure" : kind;
}

export async function saveZip(photos, button) {
  const before = button.lastChild.textContent;
  button.disabled = true;
  button.lastChild.textContent = text.zipProgress;
  try {
    const entries = photos.filter((photo) => photo.answer).map((photo) => ({ path: `${folderOf(photo)}/${photo.name.replaceAll(/[/\\]/g, "_")}`, file: photo.file }));
    download(await zipOf(entries), text.zipName);
  } finally {
    button.disabled = false;
    button.lastChild.textContent = before;
  }
}
