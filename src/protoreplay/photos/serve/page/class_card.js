// A class with its photos, how it is doing, and what can be done with it.

import { thumbnail } from "./api.js";
import { button, el, icon, name } from "./dom.js";
import { openDialog, openMenu, question } from "./dialogs.js";
import { recordClasses } from "./camera.js";
import { droppable, photoInput, removeButton } from "./photos.js";
import { moveToClass, stage } from "./staging.js";
import { change, classOf, labels, tried } from "./store.js";
import { common, files as filesText, teach as text } from "./strings.js";

const SHOWN = 7;
const SIGNS = { enough: ["check", "good"], mixed: ["alert", "poor"], unknown: ["photos", ""] };

export function status(one, judged) {
  const verdict = judged?.verdict ?? (one.photos < 5 ? "few" : "unknown");
  const [sign, kind] = SIGNS[verdict] ?? ["plus", "poor"];
  return el("p", { class: `status ${kind}` }, icon(sign), el("span", { text: text.status[verdict](one.photos, judged?.taken_for[0]?.[0]), dir: "auto" }));
}

const rename = tried(async (label) => {
  const wanted = await question(text.renameAsk(label), text.rename.replace(" …", ""), { value: label, label: text.name });
  if (wanted && wanted !== label) await change("rename", { label, new: wanted }, text.renamed(label, wanted));
});

export const unite = tried(async (label, other) => {
  const options = other ? [other] : labels().filter((one) => one !== label);
  const into = await question(text.uniteAsk(label), text.unite.replace(" …", ""), { options, label: text.uniteInto });
  if (into) await change("unite", { label, into }, text.united(label, into));
});

const forget = tried(async (label) => {
  if (await question(text.forgetAsk(label), text.forgetYes, { danger: true })) await change("forget", { label }, text.forgotten(label));
});

function showPhotos(label) {
  const list = el("ul", { class: "thumbs large" });
  const hint = el("p", { class: "soft", dir: "auto" });
  const fill = () => {
    const one = classOf(label);
    if (!one) { dialog.close(); return; }
    hint.textContent = one.thumbnails.length ? (one.exact ? text.keptOf : text.keptNear)(one.thumbnails.length, one.photos) : text.noneKept;
    list.replaceChildren(...one.thumbnails.map((key, i) => el("li", {},
      el("span", { class: "thumb" }, el("img", { src: thumbnail(key), alt: text.keptPhoto(i + 1, label) })),
      one.fixed.includes(key) ? null : removeButton(text.removeKept(i + 1, label), tried(async () => {
        await change("forget-photo", { label, key }, text.removedKept(label));
        fill();
      })))));
  };
  const content = el("div", { class: "stack" }, hint, list);
  const dialog = openDialog(text.photosOf(label), content, { wide: true });
  fill();
}

function menuItems(one) {
  return [
    [text.showPhotos, () => showPhotos(one.label)],
    navigator.mediaDevices?.getUserMedia ? [filesText.camera, () => recordClasses((label, photos) => stage([{ label, photos }]), one.label)] : null,
    [text.rename, () => rename(one.label)],
    labels().length > 1 ? [text.unite, () => unite(one.label)] : null,
    null,
    [text.forget, () => forget(one.label), "red"],
  ].filter((item, i, all) => item !== null || i === all.length - 2);
}

export function classCard(one, judged) {
  const menu = button("", () => openMenu(menu, menuItems(one)), { class: "quiet square", "aria-haspopup": "menu", "aria-expanded": "false", "aria-label": common.menuOf(one.label) }, "more");
  const kept = one.thumbnails.slice(0, SHOWN).map((key) => el("li", {}, el("img", { class: "thumb", src: thumbnail(key), alt: "", loading: "lazy", width: 96, height: 96 })));
  const add = photoInput((given) => stage(given, one.label), text.addPhotos, { sign: "plus", hint: text.addTo(one.label) });
  const element = el("article", { class: "card class", "aria-label": one.label, data: { label: one.label } },
    el("div", { class: "card-head" }, el("h3", {}, name(one.label)), menu),
    status(one, judged),
    el("ul", { class: "thumbs" }, kept, el("li", {}, add)));
  droppable(element, (given) => stage(given, one.label), (id) => moveToClass(id, one.label));
  return element;
}

