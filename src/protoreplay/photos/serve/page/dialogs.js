// What comes up over the page: messages, questions and menus.

import { button, el, freshId } from "./dom.js";
import { common } from "./strings.js";

let fading;
// A message for a while; with an action it stays longer. A screen reader reads it out.
export function toast(text, action) {
  const place = document.getElementById("toast");
  const clear = () => place.replaceChildren();
  const box = el("div", {}, el("span", { text }));
  if (action) box.append(button(action[0], () => { clear(); action[1](); }, { class: "plain" }));
  box.append(button("", clear, { class: "plain square", "aria-label": common.close }, "cross"));
  place.replaceChildren(box);
  clearTimeout(fading);
  fading = setTimeout(clear, action ? 12_000 : 6_000);
}

// A dialog with this content; it is removed from the page when it closes.
export function openDialog(title, content, { wide = false, onclose = () => {} } = {}) {
  const id = freshId("dialog");
  const close = button("", () => dialog.close(), { class: "quiet square", "aria-label": common.close }, "cross");
  const heading = el("h2", { id, text: title, tabIndex: -1, dir: "auto" });
  const dialog = el("dialog", { class: wide ? "wide" : "", "aria-labelledby": id }, el("header", {}, heading, close), content);
  dialog.addEventListener("close", () => { dialog.remove(); onclose(); });
  dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
  document.body.append(dialog);
  dialog.showModal();
  return dialog;
}

// Asks for a yes, a text (`value`) or one of `options`; null if it is not given.
export function question(text, yes, { value, options, label, danger = false } = {}) {
  return new Promise((resolve) => {
    let result = null;
    const id = freshId("field");
    const field = options
      ? el("select", { id }, options.map((one) => el("option", { value: one, text: one })))
      : value === undefined ? null : el("input", { id, value, maxLength: 200, required: true, autocomplete: "off", dir: "auto" });
    const form = el("form", { method: "dialog", class: "stack" },
      field && el("label", { htmlFor: id, text: label }), field,
      el("div", { class: "row end" },
        button(common.cancel, () => dialog.close(), { class: "quiet" }),
        el("button", { class: danger ? "danger" : "strong", text: yes })));
    form.onsubmit = () => { result = field ? field.value.trim() : true; };
    const dialog = openDialog(text, form, { onclose: () => resolve(result) });
    (field ?? form.querySelector("button:last-child")).focus();
    field?.select?.();
  });
}

// A menu below `anchor`: items are [text, action, kind], or null for a line between them.
export function openMenu(anchor, items) {
  const menu = el("div", { class: "menu", role: "menu", popover: "auto" });
  const entries = items.map((item) => item === null ? el("hr", { role: "separator" })
    : button(item[0], () => { menu.hidePopover(); item[1](); }, { role: "menuitem", tabIndex: -1, class: item[2] ?? "", dir: "auto" }));
  menu.append(...entries);
  const choices = entries.filter((entry) => entry.tagName === "BUTTON");
  menu.addEventListener("keydown", (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (event.key === "Tab") menu.hidePopover();
    if (!step) return;
    event.preventDefault();
    choices[(choices.indexOf(document.activeElement) + step + choices.length) % choices.length].focus();
  });
  anchor.setAttribute("aria-expanded", "true");
  menu.addEventListener("toggle", (event) => {
    if (event.newState !== "closed") return;
    anchor.setAttribute("aria-expanded", "false");
    menu.remove();
    if (document.activeElement === document.body) anchor.focus();
  });
  // Inside an open dialog, the rest of the page cannot be reached.
  (anchor.closest("dialog") ?? document.body).append(menu);
  menu.showPopover();
  const place = anchor.getBoundingClientRect();
  const own = menu.getBoundingClientRect();
  const left = getComputedStyle(anchor).direction === "rtl" ? place.left : place.right - own.width;
  menu.style.left = `${Math.max(8, Math.min(left, innerWidth - own.width - 8))}px`;
  menu.style.top = `${place.bottom + own.height + 8 > innerHeight ? Math.max(8, place.top - own.height - 4) : place.bottom + 4}px`;
  choices[0]?.focus();
}
