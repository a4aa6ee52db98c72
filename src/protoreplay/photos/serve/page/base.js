// What all views share: calls of the API, elements, messages, questions.

export function make(tag, given = {}, ...children) {
  const element = document.createElement(tag);
  for (const [key, value] of Object.entries(given)) {
    if (key in element && key !== "list" && key !== "form") element[key] = value;
    else element.setAttribute(key, value);
  }
  element.append(...children);
  return element;
}

export async function call(path, body, method) {
  const given = { method: method ?? (body === undefined ? "GET" : "POST") };
  if (body instanceof FormData) given.body = body;
  else if (body !== undefined && body !== null) {
    given.body = JSON.stringify(body);
    given.headers = { "Content-Type": "application/json" };
  }
  let answer;
  try {
    answer = await fetch(`/api/${path}`, given);
  } catch {
    throw new Error("the server does not answer: is it still running?");
  }
  const content = answer.status === 204 ? null : await answer.json().catch(() => ({ detail: answer.statusText }));
  if (!answer.ok) throw new Error(content?.detail ?? answer.statusText);
  return content;
}

export function form(photos, given = {}) {
  const body = new FormData();
  for (const [key, value] of Object.entries(given)) body.append(key, value);
  // The server has no use for names of files.
  photos.forEach((photo, number) => body.append("photos", photo, String(number + 1)));
  return body;
}

let fading;
export function toast(text, action) {
  const box = make("div", {}, make("span", { textContent: text }));
  if (action) box.append(make("button", { type: "button", textContent: action[0], onclick: () => { clear(); action[1](); } }));
  const clear = () => document.getElementById("toast").replaceChildren();
  document.getElementById("toast").replaceChildren(box);
  clearTimeout(fading);
  fading = setTimeout(clear, action ? 20000 : 8000);
}

// Wraps what a person starts, so that a failure is said and nothing else breaks.
export function tried(work) {
  return async (...given) => {
    try {
      return await work(...given);
    } catch (error) {
      toast(error.message);
    }
  };
}

const changed = [];
export const onChange = (listener) => changed.push(listener);
// One after the other, so that what is drawn last is what was asked for last.
let told = Promise.resolve();
export const tellChange = () => (told = told.catch(() => {}).then(() => Promise.all(changed.map((listener) => listener()))));

export const undo = tried(async () => {
  await call("undo", null, "POST");
  await tellChange();
  toast("Undone.");
});

export function question(text, yes, { field, value, choice, options } = {}) {
  const dialog = document.getElementById("question");
  const inner = dialog.querySelector("form");
  dialog.querySelector("p").textContent = text;
  inner.querySelector("button").textContent = yes;
  const [fieldLabel, choiceLabel] = inner.querySelectorAll("label");
  fieldLabel.hidden = !field;
  fieldLabel.querySelector("span").textContent = field ?? "";
  inner.value.value = value ?? "";
  inner.value.required = Boolean(field);
  choiceLabel.hidden = !choice;
  choiceLabel.querySelector("span").textContent = choice ?? "";
  inner.choice.replaceChildren(...(options ?? []).map((name) => make("option", { textContent: name, value: name })));
  dialog.returnValue = "no";
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.onclose = () => resolve(dialog.returnValue === "yes" ? (field ? inner.value.value.trim() : choice ? inner.choice.value : true) : null);
  });
}

export function droppable(element, take) {
  const over = (on) => (event) => {
    event.preventDefault();
    element.classList.toggle("over", on);
  };
  element.addEventListener("dragover", over(true));
  element.addEventListener("dragleave", over(false));
  element.addEventListener("drop", (event) => {
    over(false)(event);
    const photos = [...event.dataTransfer.files];
    if (photos.length) take(photos);
  });
}

export function fileInput(label, take) {
  const input = make("input", { type: "file", accept: "image/*", multiple: true, className: "unseen" });
  const box = make("label", { className: "button" }, label, input);
  input.onchange = () => {
    take([...input.files]);
    input.value = "";
  };
  return box;
}

export function picture(photo, alt) {
  const image = make("img", { alt, src: URL.createObjectURL(photo) });
  // What the browser cannot show, the server may still read.
  image.onload = image.onerror = () => URL.revokeObjectURL(image.src);
  return image;
}

export const plural = (count, word) => `${count} ${word}${count === 1 ? "" : word.endsWith("s") ? "es" : "s"}`;
export const percent = (share) => (share > 0 && share < 0.01 ? "< 1 %" : `${Math.round(100 * share)} %`);
export const size = (bytes) => (bytes < 1e6 ? `${Math.round(bytes / 1e3)} KB` : `${(bytes / 1e6).toFixed(1)} MB`);
