// The photos that were asked about, with their answers, which are asked for again when the model has changed.

import { photoForm, post } from "./api.js";
import { lastOnly } from "./dom.js";
import { toast } from "./dialogs.js";
import { releasePhotos } from "./photos.js";
import { refresh, revisionOf, store, undo } from "./store.js";
import { ask as text, common } from "./strings.js";

const AT_ONCE = 8;
const IN_FLIGHT = 2;
const KEYS = 500;
export const asked = { photos: [], total: 0, done: 0, revision: "" };
const listeners = new Set();
export const onAnswers = (listener) => listeners.add(listener);
const tell = () => { for (const listener of listeners) listener(); };
let waiting = [];
let running = 0;

// "sure", "unsure", "unknown", "unread" or "waiting".
export function certainty(photo) {
  const answer = photo.answer;
  if (!answer) return photo.problem ? "unread" : "waiting";
  if (answer.label === null) return "unknown";
  return answer.choices[0].probability >= store.state.unsure ? "sure" : "unsure";
}

export const best = (photo) => photo.answer?.choices[0];

function settle(photo, answer) {
  photo.problem = answer.error;
  photo.answer = answer.error ? null : answer;
}

async function answered(some) {
  try {
    const found = await post("predict?remember=true&nearest=false", photoForm(some.map((photo) => photo.file)));
    found.answers.forEach((answer, i) => settle(some[i], answer));
  } catch (error) {
    // If none of them can be read, the answer is the reasons of all: asked singly, each has its own.
    if (some.length > 1 && [413, 422].includes(error.status)) for (const photo of some) await answered([photo]);
    else settle(some[0], { error: error.message.replace(/^photo 1: /, "") });
    if (some.length > 1 && ![413, 422].includes(error.status)) for (const photo of some) settle(photo, { error: error.message });
  }
}

async function pump() {
  if (running >= IN_FLIGHT) return;
  running += 1;
  while (waiting.length) {
    const some = waiting.splice(0, AT_ONCE);
    await answered(some);
    asked.done += some.length;
    if (asked.done >= asked.total) Object.assign(asked, { done: 0, total: 0 });
    tell();
  }
  running -= 1;
}

function send(photos) {
  waiting.push(...photos);
  asked.total += photos.length;
  for (let i = 0; i < IN_FLIGHT; i += 1) pump();
}

// New photos, the latest first.
export function askAbout(photos) {
  asked.revision ||= revisionOf(store.state);
  asked.photos.unshift(...photos);
  send(photos.filter((photo) => !photo.problem));
  tell();
}

export function clearAsked() {
  releasePhotos(asked.photos);
  waiting = [];
  Object.assign(asked, { photos: [], total: 0, done: 0 });
  tell();
}

// Asks again, without an upload where the server remembers the photo.
export const askAgain = lastOnly(async () => {
  const now = revisionOf(store.state);
  if (asked.revision === now || !asked.photos.length || !store.state.classes.length) return;
  const known = new Map(asked.photos.filter((photo) => photo.answer).map((photo) => [photo.answer.key, []]));
  for (const photo of asked.photos) if (photo.answer) known.get(photo.answer.key).push(photo);
  const keys = [...known.keys()];
  const missing = [];
  for (let from = 0; from < keys.length; from += KEYS) {
    const found = await post("answers", { keys: keys.slice(from, from + KEYS) });
    for (const answer of found.answers) for (const photo of known.get(answer.key)) settle(photo, answer);
    missing.push(...found.missing.flatMap((key) => known.get(key)));
  }
  asked.revision = now;
  // Also those that could not be asked about, because the server did not answer.
  const failed = asked.photos.filter((photo) => !photo.answer && photo.problem === common.gone);
  for (const photo of failed) photo.problem = "";
  send([...missing, ...failed]);
  tell();
});

async function correctOnce(label, photos) {
  return post("correct", { label, keys: photos.map((photo) => photo.answer.key) });
}

async function correctKeys(label, photos) {
  const done = await correctOnce(label, photos);
  if (!done.missing.length) return done;
  // The server was started again, or has seen too many others since.
  const again = photos.filter((photo) => done.missing.includes(photo.answer.key));
  for (let from = 0; from < again.length; from += AT_ONCE) {
    const some = again.slice(from, from + AT_ONCE);
    const found = await post("predict?remember=true&nearest=false", photoForm(some.map((photo) => photo.file)));
    found.answers.forEach((answer, i) => settle(some[i], answer));
  }
  return correctOnce(label, photos);
}

// Teaches photos as `label`, or each as it was answered.
export async function correct(photos, label) {
  const wanted = new Map();
  for (const photo of photos.filter((one) => one.answer)) {
    const own = label ?? photo.answer.label;
    if (own !== null) wanted.set(own, [...(wanted.get(own) ?? []), photo]);
  }
  let [count, moved, steps, warnings] = [0, 0, 0, []];
  for (const [own, some] of wanted) {
    const done = await correctKeys(own, some);
    count += done.learned;
    moved += done.moved;
    steps += done.learned || done.moved ? 1 : 0;
    warnings = warnings.concat(done.warnings);
    for (const photo of some) photo.taught = own;
  }
  const told = !count ? text.already : label ? text.corrected(count, label) : text.confirmed(count);
  await refresh();
  toast(told + (moved ? text.moved(moved) : ""), steps ? [common.undo, () => undo(steps)] : undefined);
  return warnings;
}

export const smallPicture = (photo) => (photo.answer?.key ? `/api/asked/${photo.answer.key}` : "");
