// Calls of the HTTP API.

import { common } from "./strings.js";

export class ApiError extends Error {
  constructor(message, status) {
    super(message);
    this.status = status;
  }
}

async function request(path, given) {
  let answer;
  try {
    answer = await fetch(`/api/${path}`, given);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(common.gone, 0);
  }
  if (answer.ok) return answer;
  const content = await answer.json().catch(() => null);
  throw new ApiError(typeof content?.detail === "string" ? content.detail : answer.statusText, answer.status);
}

export async function get(path, given) {
  return (await request(path, given)).json();
}

export async function post(path, body = null, given = {}) {
  const sent = { method: "POST", ...given };
  if (body instanceof FormData) sent.body = body;
  else if (body !== null) {
    sent.body = JSON.stringify(body);
    sent.headers = { "Content-Type": "application/json" };
  }
  return (await request(path, sent)).json();
}

export const postForBlob = async (path) => (await request(path, { method: "POST" })).blob();
export const remove = (path) => request(path, { method: "DELETE" });

export function photoForm(files, fields = {}, name = "photos") {
  const body = new FormData();
  for (const [key, value] of Object.entries(fields)) body.append(key, value);
  // The server has no use for names of files.
  files.forEach((file, number) => body.append(name, file, String(number + 1)));
  return body;
}

export const thumbnail = (key) => `/api/thumbnails/${key}`;
