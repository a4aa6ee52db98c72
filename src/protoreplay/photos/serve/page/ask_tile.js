// One photo with its answer.

import { best, certainty, smallPicture } from "./asked.js";
import { el, icon, name } from "./dom.js";
import { picture } from "./photos.js";
import { ask as text, percent } from "./strings.js";

export const SIGNS = { sure: "check", unsure: "unsure", unknown: "unknown", unread: "alert", waiting: "more" };

// What is said of a photo, in one line.
export function verdict(photo) {
  const kind = certainty(photo);
  if (kind === "waiting") return text.waiting;
  if (kind === "unread") return photo.problem;
  const first = best(photo);
  if (kind === "unknown") return text.refusal(first.label);
  return text[kind](first.label, percent(first.probability));
}

export function answerTile(photo, { pick, open }) {
  const box = el("input", { type: "checkbox", "aria-label": text.select(photo.name) });
  box.onclick = (event) => pick(photo, box.checked, event.shiftKey);
  const shown = el("button", { type: "button", class: "open", onclick: () => photo.answer && open(photo) }, picture(photo, "", () => smallPicture(photo)));
  const said = el("p", { class: "said" });
  const element = el("li", { class: "tile" }, shown, el("label", { class: "pick" }, box), said);
  return { element, box, shown, said, content: "", mark: (on) => { box.checked = on; element.classList.toggle("selected", on); } };
}

export function updateTile(tile, photo, selected) {
  tile.mark(selected);
  const kind = certainty(photo);
  const content = JSON.stringify([kind, verdict(photo), photo.taught]);
  if (content === tile.content) return;
  tile.content = content;
  tile.element.className = `tile ${kind}`;
  tile.element.classList.toggle("selected", selected);
  tile.element.setAttribute("aria-busy", String(kind === "waiting"));
  tile.box.disabled = !photo.answer;
  tile.shown.setAttribute("aria-label", text.details(photo.name, verdict(photo)));
  const first = best(photo);
  const words = kind === "unknown"
    ? [el("b", { text: text.unknown }), el("span", { class: "soft small" }, text.refusal(first.label))]
    : first && kind !== "unread" ? [el("b", {}, name(first.label)), el("span", { class: "soft" }, percent(first.probability))]
      : [el("span", { class: "soft small" }, kind === "unread" ? `${photo.name}: ${verdict(photo)}` : verdict(photo))];
  tile.said.replaceChildren(icon(SIGNS[kind]), el("span", { class: "words" }, words), photo.taught ? el("span", { class: "badge", text: text.taught(photo.taught), dir: "auto" }) : "");
}
