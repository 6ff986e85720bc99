// Where the page gets its answers: the service that it came from.

let token = sessionStorage.getItem("vdsh-token");

export function useToken(value) {
  token = value;
  sessionStorage.setItem("vdsh-token", value);
}

async function ask(path, options = {}) {
  const headers = { ...options.headers };
  if (token) headers.Authorization = `Bearer ${token}`;
  const answer = await fetch(path, { ...options, headers });
  if (answer.ok) return answer;
  const { error } = await answer.json().catch(() => ({}));
  throw Object.assign(new Error(error ?? `The service answers ${answer.status}.`),
    { status: answer.status });
}

export const where = "The network runs in the service.";
export const filters = true;

export async function about() {
  return (await ask("v1/about")).json();
}

export async function map() {
  return (await ask("v1/map")).json();
}

/** { code, hits: [{ id, distance, payload }], total } near a row or item. */
export async function search({ row, id }, { k, radius, rerank, filter }) {
  let answer;
  if (row) {
    const params = new URLSearchParams({ k, rerank });
    if (radius !== null) params.set("radius", radius);
    if (filter) params.set("filter", filter);
    answer = await ask(`v1/search?${params}`, {
      method: "POST", body: row,
      headers: { "Content-Type": "application/octet-stream" },
    });
  } else {
    const body = { ids: [id], k, rerank };
    if (radius !== null) body.radius = radius;
    if (filter) body.filter = filter;
    answer = await ask("v1/search", {
      method: "POST", body: JSON.stringify(body),
      headers: { "Content-Type": "application/json" },
    });
  }
  return (await answer.json()).results[0];
}

export async function item(id) {
  return (await ask(`v1/items/${id}`)).json();
}

export async function list(after) {
  return (await (await ask(`v1/items?after=${after}&limit=50`)).json()).items;
}

/** An address of the picture of an item. */
export async function picture(id) {
  const path = `v1/items/${id}/picture`;
  if (!token) return path;
  return URL.createObjectURL(await (await ask(path)).blob());
}
