// Model: its history with undo and redo, the map, what is kept, and its way in and out.

import { get, photoForm, postForBlob } from "./api.js";
import { button, download, el, icon, lastOnly, name, namesOf } from "./dom.js";
import { toast } from "./dialogs.js";
import { drawMap, mapFigure } from "./map.js";
import { change, redo, store, tried, undo } from "./store.js";
import { bytes, model as text } from "./strings.js";

let root, steps, ledger, code;
const when = (time) => (time ? new Date(1000 * time).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "short" }) : "");
const told = (step) => text.steps[step.kind](namesOf(step.classes, 3, text.andMore), step.into, step.photos);

function stepRow(step, kind, action) {
  return el("li", { class: kind }, el("span", { class: "what", text: told(step), dir: "auto" }), el("time", { class: "soft small", text: when(step.time) }), action);
}

function olderEvents(place) {
  const list = el("ul", { class: "small" });
  const details = el("details", {}, el("summary", { text: text.older }), list);
  details.ontoggle = tried(async () => {
    if (!details.open) return;
    const events = await get("history");
    list.replaceChildren(...events.toReversed().map((event) => {
      const names = Object.entries(event.classes).map(([label, count]) => `${label} (${count})`);
      return el("li", { text: `${when(event.time)}: ${text.actions[event.action] ?? event.action} ${names.join(", ") || text.goneClass}`, dir: "auto" });
    }));
  });
  place.append(details);
}

async function drawSteps() {
  const found = await get("steps");
  const rows = [
    ...found.redo.map((step, i) => stepRow(step, "redo", i === 0
      ? button(text.redo, () => redo(1), { "aria-label": `${text.redo}: ${told(step)}` })
      : button(text.forwardTo, () => redo(i + 1), { class: "quiet", "aria-label": `${text.forwardTo}: ${told(step)}` }))).reverse(),
    el("li", { class: "now" }, el("span", { text: text.now })),
    ...found.undo.map((step, i) => stepRow(step, "undo", i === found.undo.length - 1
      ? button(text.undo, () => undo(1), { "aria-label": `${text.undo}: ${told(step)}` })
      : button(text.backTo, () => undo(found.undo.length - i), { class: "quiet", "aria-label": `${text.backTo}: ${told(step)}` }))).reverse(),
  ];
  const none = !found.undo.length && !found.redo.length;
  steps.replaceChildren(el("h2", { text: text.history }), none ? el("p", { class: "soft", text: text.historyNone }) : el("ol", { class: "steps-list" }, rows),
    found.saved ? "" : el("p", { class: "soft small", text: text.notSaved }));
  olderEvents(steps);
}

function drawLedger() {
  const parts = ["features", "gaussian", "keys", "thumbnails"];
  const row = (label, photos, kept, tag) => el("tr", {}, el("th", { scope: "row" }, tag ?? name(label)), [photos.toLocaleString(), ...parts.map((part) => bytes(kept[part])), bytes(parts.reduce((sum, part) => sum + kept[part], 0))].map((value) => el("td", { class: "number", text: value })));
  const all = store.state.classes;
  const total = Object.fromEntries(parts.map((part) => [part, all.reduce((sum, one) => sum + one.kept[part], 0)]));
  ledger.replaceChildren(el("h2", { text: text.ledger }), el("p", { class: "soft", text: text.ledgerHint }),
    el("div", { class: "scroll", tabIndex: 0, role: "region", "aria-label": text.ledger }, el("table", {},
      el("thead", {}, el("tr", {}, text.ledgerHead.map((head, i) => el("th", { scope: "col", class: i ? "number" : "", text: head })))),
      el("tbody", {}, row("", all.reduce((sum, one) => sum + one.photos, 0), total, el("b", { text: text.ledgerTotal })), all.map((one) => row(one.label, one.photos, one.kept))))));
  code.textContent = text.code(store.state.name);
}

function packButton() {
  const pack = button(text.browser, tried(async () => {
    pack.disabled = true;
    pack.lastChild.textContent = text.browserBusy;
    try {
      download(await postForBlob("browser.zip"), `${store.state.name}-browser.zip`);
    } finally {
      pack.disabled = false;
      pack.lastChild.textContent = text.browser;
    }
  }), {}, "download");
  return pack;
}

function transfer() {
  const link = (label, href) => el("a", { class: "button", href, download: "" }, icon("download"), el("span", { text: label }));
  const item = (control, hint) => el("li", {}, control, el("p", { class: "soft small", text: hint }));
  const input = el("input", { type: "file", class: "unseen" });
  input.onchange = tried(async () => {
    const [file] = input.files;
    input.value = "";
    if (!file) return;
    await change("import", photoForm([file], {}, "model"));
    toast(text.imported(store.state.classes.length));
  });
  const taking = el("label", { class: "button" }, icon("plus"), el("span", { text: text.import }), input);
  code = el("code");
  const copy = button(text.copy, tried(async () => { await navigator.clipboard.writeText(code.textContent); toast(text.copied); }), { class: "quiet" });
  return el("section", { class: "card take" }, el("h2", { text: text.take }),
    el("ul", { class: "takes" }, item(link(text.file, "/api/model"), text.fileHint), item(link(text.onnx, "/api/model.onnx"), text.onnxHint), item(packButton(), text.browserHint), item(taking, text.importHint)),
    el("div", { class: "row" }, el("h3", { text: text.python }), navigator.clipboard ? copy : null), el("pre", { tabIndex: 0 }, code),
    el("p", {}, el("a", { href: "/docs", text: text.api })));
}

const draw = lastOnly(tried(async () => {
  if (root.hidden) return;
  drawLedger();
  await Promise.all([drawSteps(), drawMap()]);
}));

export const view = {
  name: "model",
  start(place) {
    root = place;
    steps = el("section", { class: "card history" });
    ledger = el("section", { class: "card ledger" });
    const map = el("section", { class: "card map-card" }, el("h2", { text: text.map }), mapFigure());
    root.append(el("div", { class: "board" }, map, steps, transfer(), ledger));
  },
  changed: draw,
};
