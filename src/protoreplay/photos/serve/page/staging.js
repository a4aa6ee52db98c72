// Photos on their way into the model: they can be seen, removed, moved to another class, named and taught.

import { button, el, freshId, icon, name } from "./dom.js";
import { openMenu, toast } from "./dialogs.js";
import { recordClasses } from "./camera.js";
import { teachPhotos } from "./lesson.js";
import { droppable, photoInput, picture, releasePhotos, removeButton } from "./photos.js";
import { classOf, labels, tried } from "./store.js";
import { camera as cameraText, common, files as filesText, teach as text } from "./strings.js";

const SHOWN = 48;
let groups = [];
let sending = null;
let draw = () => {};
let learned = () => {};

export const isStaged = () => groups.length > 0;

// Adds groups [{label, photos}]; `into` puts them all into that class.
export function stage(given, into) {
  for (const { label, photos } of given) {
    const wanted = (into ?? label).normalize("NFC").trim().slice(0, 200);
    const known = groups.find((group) => (wanted ? group.label === wanted : !group.label && !given.some((one) => one.label)));
    if (known) known.photos.push(...photos);
    else groups.push({ id: freshId("group"), label: wanted, photos, shown: SHOWN });
  }
  draw();
}

function drop(group) {
  releasePhotos(group.photos);
  groups = groups.filter((one) => one !== group);
  draw();
}

function take(photo) {
  for (const group of groups) group.photos = group.photos.filter((one) => one !== photo);
  groups = groups.filter((group) => group.photos.length || group.label);
}

function remove(photo) {
  take(photo);
  groups = groups.filter((group) => group.photos.length);
  releasePhotos([photo]);
  draw();
}

function move(photo, group) {
  take(photo);
  if (group) group.photos.push(photo);
  groups = groups.filter((one) => one.photos.length);
  draw();
}

const find = (id) => groups.flatMap((group) => group.photos).find((photo) => photo.id === id);

// A photo that is dragged onto the card of a class that is known.
export function moveToClass(id, label) {
  const photo = find(id);
  if (!photo) return;
  take(photo);
  groups = groups.filter((group) => group.photos.length);
  stage([{ label, photos: [photo] }]);
}

function thumb(photo, group) {
  const menu = () => openMenu(open, [
    ...groups.filter((other) => other !== group).map((other) => [text.moveTo(other.label || filesText.unnamed), () => move(photo, other)]),
    ...labels().filter((label) => !groups.some((other) => other.label === label)).slice(0, 12).map((label) => [text.moveTo(label), () => moveToClass(photo.id, label)]),
    [text.moveToNew, () => { take(photo); groups = groups.filter((one) => one.photos.length); groups.push({ id: freshId("group"), label: "", photos: [photo], shown: SHOWN }); draw(); }],
    null,
    [text.remove, () => remove(photo), "red"],
  ]);
  const open = el("button", { type: "button", class: "thumb", "aria-haspopup": "menu", "aria-label": text.photoMenu(photo.name), title: photo.name, onclick: menu, draggable: true }, picture(photo, ""));
  open.addEventListener("dragstart", (event) => {
    event.dataTransfer.setData("text/photo", String(photo.id));
    event.dataTransfer.effectAllowed = "move";
  });
  return el("li", {}, open, removeButton(common.removed(photo.name), () => remove(photo)));
}

function problems(group) {
  const bad = group.photos.filter((photo) => photo.problem);
  return bad.length ? el("ul", { class: "problems", "aria-label": text.notUsed(bad.length) }, bad.map((photo) =>
    el("li", {}, icon("alert"), el("span", {}, name(photo.name), `: ${photo.problem}`), removeButton(common.removed(photo.name), () => remove(photo))))) : null;
}

function card(group) {
  const good = group.photos.filter((photo) => !photo.problem);
  const shown = good.slice(0, group.shown);
  const input = el("input", { id: group.id, value: group.label, maxLength: 200, autocomplete: "off", placeholder: text.namePlaceholder, dir: "auto", list: "known-classes" });
  const hint = el("p", { class: "soft small" });
  const tell = () => { hint.textContent = classOf(input.value.trim()) ? text.addsTo(input.value.trim()) : ""; };
  input.oninput = () => { group.label = input.value.trim(); tell(); };
  input.onchange = () => { group.label = input.value.normalize("NFC").trim(); updateBar(); };
  input.onkeydown = (event) => { if (event.key === "Enter") teachStaged(); };
  tell();
  const more = good.length - shown.length;
  const element = el("article", { class: "card staged", "aria-label": group.label || filesText.unnamed },
    el("div", { class: "card-head" }, el("label", { htmlFor: group.id, text: text.nameOf }), removeButton(text.dropGroup, () => drop(group))),
    input, hint,
    el("ul", { class: "thumbs" }, shown.map((photo) => thumb(photo, group)),
      el("li", {}, photoInput((given) => stage(given, group.label || undefined), text.addPhotos, { sign: "plus", hint: text.addTo(group.label || filesText.unnamed) }))),
    more > 0 ? button(filesText.more(more), () => { group.shown += 200; draw(); }, { class: "quiet" }) : null,
    problems(group));
  droppable(element, (given) => { group.photos.push(...given.flatMap((one) => one.photos)); draw(); }, (id) => { const photo = find(id); if (photo) move(photo, group); });
  return element;
}

// The bar is changed in place: whoever presses a button just now must not find another one under the pointer.
let bar, go, clear, moving;
function updateBar() {
  if (!bar) return;
  const good = groups.map((group) => group.photos.filter((photo) => !photo.problem).length);
  const count = good.reduce((sum, one) => sum + one, 0);
  const named = new Set(groups.filter((_, i) => good[i]).map((group) => group.label || group.id));
  go.lastChild.textContent = text.teach(count, named.size);
  go.hidden = Boolean(sending) || !count;
  clear.hidden = Boolean(sending);
  moving.hidden = !sending;
  if (!sending) return;
  const [progress, told] = moving.children;
  Object.assign(progress, { max: sending.total, value: sending.done });
  told.textContent = text.progress(sending.done, sending.total);
}

function makeBar() {
  go = button("", () => teachStaged(), { class: "strong large" }, "teach");
  go.append(el("span"));
  clear = button(text.clear, () => { groups.forEach((group) => releasePhotos(group.photos)); groups = []; draw(); }, { class: "quiet" });
  moving = el("div", { class: "row", hidden: true }, el("progress", { max: 1, value: 0, "aria-label": text.staged }), el("span", { class: "soft" }),
    button(common.cancel, () => sending?.abort(), { class: "quiet" }));
  bar = el("div", { class: "bar", role: "group", "aria-label": text.staged }, go, clear, moving);
}

const teachStaged = tried(async () => {
  if (sending) return;
  const nameless = groups.find((group) => !group.label && group.photos.some((photo) => !photo.problem));
  if (nameless) {
    document.getElementById(nameless.id).focus();
    toast(text.nameFirst);
    return;
  }
  const photos = groups.flatMap((group) => group.photos.filter((photo) => !photo.problem).map((photo) => Object.assign(photo, { label: group.label })));
  if (!photos.length) return;
  sending = Object.assign(new AbortController(), { done: 0, total: photos.length });
  updateBar();
  try {
    const tell = (done) => { sending.done = done; updateBar(); };
    if (await teachPhotos(photos, { signal: sending.signal, tell })) {
      const done = photos.filter((photo) => !photo.problem);
      releasePhotos(done);
      for (const group of groups) group.photos = group.photos.filter((photo) => photo.problem);
      groups = groups.filter((group) => group.photos.length);
      learned();
    }
  } catch (error) {
    if (error.name !== "AbortError") throw error;
    toast(text.cancelled);
  } finally {
    sending = null;
    draw();
  }
});

export const record = () => recordClasses((label, photos) => stage([{ label, photos }]));

// The section of the page in which all of this is shown; `onDraw` hears that something came or went.
export function startStaging(onDraw, onLearned) {
  learned = onLearned;
  const cards = el("div", { class: "grid" });
  makeBar();
  const section = el("section", { class: "staging", "aria-labelledby": "staged-title", hidden: true },
    el("h2", { id: "staged-title", text: text.staged }), el("p", { class: "soft", text: text.stagedHint }),
    cards, bar, el("datalist", { id: "known-classes" }));
  draw = () => {
    section.hidden = !groups.length;
    section.querySelector("datalist").replaceChildren(...labels().map((label) => el("option", { value: label })));
    cards.replaceChildren(...groups.map(card));
    updateBar();
    onDraw();
  };
  return section;
}

export const recordButton = () => navigator.mediaDevices?.getUserMedia
  ? button(filesText.camera, record, { title: cameraText.title }, "camera") : null;
