// Files as one zip, as they are: photos are packed already. The parts stay where they are until the zip is saved.

import { ask as text } from "./strings.js";

const MOST = 0xffffffff;
const TABLE = Uint32Array.from({ length: 256 }, (_, n) => {
  for (let k = 0; k < 8; k += 1) n = n & 1 ? 0xedb88320 ^ (n >>> 1) : n >>> 1;
  return n >>> 0;
});

export function crc32(bytes) {
  let sum = 0xffffffff;
  for (let i = 0; i < bytes.length; i += 1) sum = TABLE[(sum ^ bytes[i]) & 255] ^ (sum >>> 8);
  return (sum ^ 0xffffffff) >>> 0;
}

// Fields are [bytes, value], little-endian.
function packed(fields) {
  const found = new Uint8Array(fields.reduce((sum, [size]) => sum + size, 0));
  const view = new DataView(found.buffer);
  let at = 0;
  for (const [size, value] of fields) {
    if (size === 2) view.setUint16(at, value, true);
    else view.setUint32(at, value, true);
    at += size;
  }
  return found;
}

// No two files of one path: the second has a number.
function freePath(path, taken) {
  const dot = path.lastIndexOf(".") > path.lastIndexOf("/") ? path.lastIndexOf(".") : path.length;
  for (let number = 1; ; number += 1) {
    const made = number > 1 ? `${path.slice(0, dot)}-${number}${path.slice(dot)}` : path;
    if (taken.has(made.toLowerCase())) continue;
    taken.add(made.toLowerCase());
    return made;
  }
}

// Entries are {path, file}, a `Blob` each.
export async function zipOf(entries) {
  const [parts, directory, taken] = [[], [], new Set()];
  let offset = 0;
  for (const { path, file } of entries) {
    const name = new TextEncoder().encode(freePath(path, taken));
    const sum = crc32(new Uint8Array(await file.arrayBuffer()));
    const date = new Date(Math.max(file.lastModified ?? 0, Date.UTC(1980, 1, 1)));
    const day = ((date.getFullYear() - 1980) << 9) | ((date.getMonth() + 1) << 5) | date.getDate();
    const time = (date.getHours() << 11) | (date.getMinutes() << 5) | (date.getSeconds() >> 1);
    // Bit 11: the name is UTF-8. Method 0: as it is.
    const about = [[2, 20], [2, 0x800], [2, 0], [2, time], [2, day], [4, sum], [4, file.size], [4, file.size], [2, name.length], [2, 0]];
    parts.push(packed([[4, 0x04034b50], ...about]), name, file);
    directory.push(packed([[4, 0x02014b50], [2, 20], ...about, [2, 0], [2, 0], [2, 0], [4, 0], [4, offset]]), name);
    offset += 30 + name.length + file.size;
    if (offset > MOST || entries.length > 0xffff) throw new Error(text.zipTooLarge);
  }
  const size = directory.reduce((total, part) => total + part.length, 0);
  const end = packed([[4, 0x06054b50], [2, 0], [2, 0], [2, entries.length], [2, entries.length], [4, size], [4, offset], [2, 0]]);
  return new Blob([...parts, ...directory, end], { type: "application/zip" });
}
