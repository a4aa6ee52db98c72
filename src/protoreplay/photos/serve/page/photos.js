// Photos that a person has given: found in what is dropped or chosen, checked, and shown small.

import { button, el, icon } from "./dom.js";
import { toast } from "./dialogs.js";
import { bytes, files as text } from "./strings.js";

export const MOST_BYTES = 20 * 2 ** 20;
export const PORTION = { photos: 16, bytes: 24 * 2 ** 20 };
const SIDE = 240;
const NO_PHOTO = /^(\.|desktop\.ini$|thumbs\.db$)|\.(txt|json|csv|xmp|md|html?|mp4|mov|avi|zip|pdf)$/i;
export const onPhone = matchMedia("(pointer: coarse)").matches;
let numbered = 0;

// One photo, wherever it is shown: `problem` says why it cannot be used.
export function photoOf(file) {
  const problem = file.size > MOST_BYTES ? text.tooLarge(bytes(file.size), bytes(MOST_BYTES)) : file.size ? "" : text.empty;
  return { id: ++numbered, file, name: file.name, problem, thumb: null };
}

// Small pictures are made one after the other, so that a thousand photos do not fill the memory.
let queue = Promise.resolve();
export function preview(photo) {
  photo.thumb ??= queue = queue.then(() => drawn(photo.file)).catch(() => null);
  return photo.thumb;
}

async function drawn(file) {
  const whole = await createImageBitmap(file);
  const scale = SIDE / Math.min(whole.width, whole.height);
  const canvas = el("canvas", { width: SIDE, height: SIDE });
  const [width, height] = [whole.width * scale, whole.height * scale];
  const paper = canvas.getContext("2d");
  paper.imageSmoothingQuality = "high";
  paper.drawImage(whole, (SIDE - width) / 2, (SIDE - height) / 2, width, height);
  whole.close();
  const small = await new Promise((resolve) => canvas.toBlob(resolve, "image/jpeg", 0.85));
  return URL.createObjectURL(small);
}

const seen = new IntersectionObserver((entries) => {
  for (const { isIntersecting, target } of entries) {
    if (!isIntersecting) continue;
    seen.unobserve(target);
    target.fill();
  }
}, { rootMargin: "300px" });

// The photo as a square, drawn when it comes near the screen; what the browser cannot read, the server may (`instead`).
export function picture(photo, alt, instead = () => "") {
  const image = el("img", { alt, draggable: false });
  image.fill = async () => {
    const url = (await preview(photo)) || instead();
    if (photo.released) return;
    if (url) image.src = url;
    else image.replaceWith(el("span", { class: "blank", role: "img", "aria-label": alt }, icon("photos")));
  };
  seen.observe(image);
  return image;
}

export function releasePhotos(photos) {
  for (const photo of photos) {
    photo.released = true;
    photo.thumb?.then((url) => url && URL.revokeObjectURL(url));
  }
}

// Groups of photos, [{label, photos}]: the folder right above a photo is its class; photos in no folder have no label.
function grouped(found) {
  const groups = new Map();
  for (const { file, folder } of found) {
    if (NO_PHOTO.test(file.name)) continue;
    if (!groups.has(folder)) groups.set(folder, []);
    groups.get(folder).push(photoOf(file));
  }
  return [...groups].sort().map(([label, photos]) => ({ label, photos: photos.sort((a, b) => a.name.localeCompare(b.name, undefined, { numeric: true })) }));
}

const readBatch = (reader) => new Promise((resolve, reject) => reader.readEntries(resolve, reject));
async function walked(entry, folder, found) {
  if (entry.isFile) {
    const file = await new Promise((resolve, reject) => entry.file(resolve, reject)).catch(() => null);
    if (file) found.push({ file, folder });
  } else if (entry.isDirectory && !entry.name.startsWith(".")) {
    const reader = entry.createReader();
    for (let some = await readBatch(reader); some.length; some = await readBatch(reader)) {
      for (const one of some) await walked(one, entry.name, found);
    }
  }
}

export async function droppedGroups(data) {
  // Entries must be taken before anything is awaited: afterwards the browser has cleared them.
  const entries = [...data.items].map((item) => item.webkitGetAsEntry?.()).filter(Boolean);
  const found = [];
  if (entries.length) for (const entry of entries) await walked(entry, "", found);
  else for (const file of data.files) found.push({ file, folder: "" });
  return grouped(found);
}

export const chosenGroups = (list) =>
  grouped([...list].map((file) => ({ file, folder: file.webkitRelativePath.split("/").at(-2) ?? "" })));

// `take` is given groups; photos that are dragged inside the page (`move`) are told apart from files.
export function droppable(element, take, move) {
  let depth = 0;
  const carries = (event) => [...event.dataTransfer.types].some((type) => type === "Files" || (move && type === "text/photo"));
  const mark = (change) => (event) => {
    if (!carries(event)) return;
    event.preventDefault();
    event.stopPropagation();
    depth = Math.max(0, depth + change);
    element.classList.toggle("over", depth > 0);
  };
  element.addEventListener("dragenter", mark(1));
  element.addEventListener("dragover", mark(0));
  element.addEventListener("dragleave", mark(-1));
  element.addEventListener("drop", async (event) => {
    event.preventDefault();
    event.stopPropagation();
    depth = 0;
    element.classList.remove("over");
    const moved = event.dataTransfer.getData("text/photo");
    if (moved && move) move(Number(moved));
    else given(await droppedGroups(event.dataTransfer), take);
  });
}

function given(groups, take) {
  if (groups.length) take(groups);
  else toast(text.noPhotos);
}

export function photoInput(take, label = onPhone ? text.chooseOnPhone : text.choose, { strong = false, sign = "photos", hint } = {}) {
  const input = el("input", { type: "file", accept: "image/*,.heic,.heif", multiple: true, class: "unseen", "aria-label": hint });
  input.onchange = () => { given(chosenGroups(input.files), take); input.value = ""; };
  return el("label", { class: strong ? "button strong" : "button" }, icon(sign), el("span", { text: label }), input);
}

export function folderInput(take) {
  const input = el("input", { type: "file", multiple: true, class: "unseen", webkitdirectory: true });
  input.onchange = () => { given(chosenGroups(input.files), take); input.value = ""; };
  return onPhone ? null : el("label", { class: "button" }, icon("folder"), el("span", { text: text.folder }), input);
}

export function portions(photos) {
  const found = [];
  let size = 0;
  for (const photo of photos) {
    const last = found.at(-1);
    if (!last || last.length >= PORTION.photos || size + photo.file.size > PORTION.bytes || last[0].label !== photo.label) {
      found.push([photo]);
      size = photo.file.size;
    } else {
      last.push(photo);
      size += photo.file.size;
    }
  }
  return found;
}

export const removeButton = (label, onclick) => button("", onclick, { class: "square remove", "aria-label": label, title: label }, "cross");
