// Why a photo is answered as it is: bars, the parts that matter, the kept photos most like it, and what is right.

import { photoForm, post, thumbnail } from "./api.js";
import { best, certainty, correct } from "./asked.js";
import { SIGNS, verdict } from "./ask_tile.js";
import { button, el, freshId, icon, name } from "./dom.js";
import { openDialog } from "./dialogs.js";
import { labels, tried } from "./store.js";
import { ask as askText, details as text, percent } from "./strings.js";

export function bars(answer) {
  return el("ul", { class: answer.label === null ? "bars refused" : "bars" }, answer.choices.map((choice) =>
    el("li", {}, name(choice.label), el("progress", { max: 1, value: choice.probability, "aria-label": text.probability(choice.label) }), el("span", { class: "number", text: percent(choice.probability) }))));
}

// Warm where a part speaks for the answer, cool where it speaks against it; smooth, over the greyed photo.
function overlay(canvas, image, lead) {
  const [rows, columns] = [lead.length, lead[0].length];
  const strongest = Math.max(...lead.flat().map(Math.abs)) || 1;
  const small = el("canvas", { width: columns, height: rows });
  const paper = small.getContext("2d");
  const pixels = paper.createImageData(columns, rows);
  lead.flat().forEach((value, i) => {
    const share = value / strongest;
    pixels.data.set([...(share > 0 ? [226, 96, 20] : [40, 110, 210]), 190 * Math.abs(share) ** 0.8], 4 * i);
  });
  paper.putImageData(pixels, 0, 0);
  const over = canvas.getContext("2d");
  [canvas.width, canvas.height] = [image.naturalWidth, image.naturalHeight];
  over.filter = "grayscale(0.85)";
  over.drawImage(image, 0, 0);
  over.filter = "none";
  over.imageSmoothingQuality = "high";
  over.drawImage(small, 0, 0, canvas.width, canvas.height);
}

function whereShown(found, alt) {
  const image = el("img", { src: found.square, alt });
  if (!found.lead.length) return [image, el("p", { class: "soft small", text: found.note })];
  const canvas = el("canvas", { class: "overlay", "aria-hidden": "true" });
  image.onload = () => overlay(canvas, image, found.lead);
  const box = el("input", { type: "checkbox", checked: true, onchange: () => { canvas.hidden = !box.checked; } });
  return [el("div", { class: "stacked" }, image, canvas), el("label", { class: "check" }, box, el("span", { text: text.overlay })),
    el("p", { class: "soft small", text: text.legend(...found.labels), dir: "auto" })];
}

function nearest(found) {
  return el("ul", { class: "thumbs like" }, found.nearest.map((one) => el("li", {},
    one.thumbnail ? el("img", { class: "thumb", src: thumbnail(one.thumbnail), alt: "" }) : el("span", { class: "blank" }, el("small", { text: text.noPicture })),
    el("span", { class: "small" }, name(one.label), el("span", { class: "soft", text: text.likeness(one.likeness) })))));
}

function corrections(photo, done) {
  const id = freshId("other");
  const teach = tried(async (label) => { await correct([photo], label); done(); });
  const others = photo.answer.choices.map((choice) => choice.label).filter((label) => label !== photo.answer.label);
  const input = el("input", { id, list: `${id}-list`, maxLength: 200, autocomplete: "off", placeholder: text.other, dir: "auto" });
  const form = el("form", { class: "row" }, el("label", { htmlFor: id, text: text.itIs }), input,
    el("datalist", { id: `${id}-list` }, labels().map((label) => el("option", { value: label }))), el("button", { class: "strong", text: text.teach }));
  form.onsubmit = (event) => { event.preventDefault(); if (input.value.trim()) teach(input.value.trim()); else input.focus(); };
  return el("div", { class: "corrections" },
    el("div", { class: "row" },
      photo.answer.label === null ? null : button(text.isRight, () => teach(undefined), { class: "confirm" }, "check"),
      others.slice(0, 3).map((label) => button(label, () => teach(label), { "aria-label": `${text.itIs} ${label}`, dir: "auto" }))), form);
}

function numbers(answer) {
  return el("details", {}, el("summary", { text: text.numbers }),
    el("ul", { class: "small soft" }, answer.choices.map((choice) => el("li", { text: text.distance(choice.label, choice.distance), dir: "auto" })),
      answer.off ? el("li", { text: text.off(answer.off) }) : null));
}

// The details of one of the photos that `matching` gives; the arrows go through them.
export function showDetails(first, matching) {
  const content = el("div", { class: "details" });
  const dialog = openDialog("", content, { wide: true });
  let photo = first;
  const step = (by) => {
    const all = matching().filter((one) => one.answer);
    photo = all[(all.indexOf(photo) + by + all.length) % all.length] ?? photo;
    fill();
  };
  const fill = tried(async () => {
    const shown = photo;
    const kind = certainty(photo);
    dialog.querySelector("h2").textContent = text.title(photo.name);
    const where = el("div", { class: "where", "aria-busy": "true" }, el("div", { class: "placeholder" }));
    const like = el("div", {}, el("h3", { text: text.nearest }), el("div", { class: "placeholder low" }));
    content.replaceChildren(where, el("div", { class: "stack" },
      el("p", { class: `big said ${kind}` }, icon(SIGNS[kind]), el("span", { text: verdict(photo), dir: "auto" })),
      bars(photo.answer), corrections(photo, () => dialog.close()), like, numbers(photo.answer),
      el("div", { class: "row end" }, button("", () => step(-1), { class: "square", "aria-label": text.previous }, "left"), button("", () => step(1), { class: "square", "aria-label": text.next }, "right"))));
    const found = await post("explain", photoForm([photo.file], {}, "photo"));
    if (photo !== shown) return;
    where.setAttribute("aria-busy", "false");
    where.replaceChildren(el("h3", { text: text.where }), ...whereShown(found, askText.details(photo.name, verdict(photo))));
    like.replaceChildren(el("h3", { text: text.nearest }), nearest(found));
  });
  dialog.addEventListener("keydown", (event) => {
    if (event.target.tagName === "INPUT") return;
    if (event.key === "ArrowLeft") step(-1);
    if (event.key === "ArrowRight") step(1);
  });
  fill();
  return best(photo);
}
