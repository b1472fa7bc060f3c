// Requests to the service, with the key in a header: addresses end up in logs.

const KEY = "maskedbandits.key";

// The key is stored for this tab alone.
export const key = {
  get: () => sessionStorage.getItem(KEY),
  keep: (text) => sessionStorage.setItem(KEY, text),
  forget: () => sessionStorage.removeItem(KEY),
};

class Refused extends Error {
  constructor(status, text) { super(text); this.status = status; }
}

async function ask(path, options = {}) {
  const headers = key.get() === null ? {} : { authorization: `Bearer ${key.get()}` };
  const reply = await fetch(path, { ...options, headers, cache: "no-store", referrerPolicy: "no-referrer" });
  if (reply.ok) return reply;
  const told = await reply.json().catch(() => ({}));
  throw new Refused(reply.status, told.detail || `the service answered ${reply.status}`);
}

export const send = (method, path, body) => ask(path, { method, ...(body && { body: JSON.stringify(body) }) });

// Server-sent events by fetch, as EventSource sends no header: "event: ...", "data: ...", and an empty line.
async function read(reply, hear) {
  const reader = reply.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const events = (rest + value).split("\n\n");
    rest = events.pop();
    for (const text of events) {
      const found = /^event: (.*)\ndata: (.*)$/.exec(text);
      if (found) hear(found[1], JSON.parse(found[2]));
    }
  }
}

// Callbacks of the page: accepted, refused, waiting.
export const page = { admitted() {}, refused() {}, say() {} };

let open = new AbortController(), followed = null;

// Follow a stream until the next call; reopen one that ends or breaks.
export async function follow(path, hear) {
  open.abort();
  followed = [path, hear];
  const own = (open = new AbortController());
  for (let wait = 1; !own.signal.aborted; wait = Math.min(2 * wait, 15)) {
    try {
      const reply = await ask(path, { signal: own.signal });
      page.admitted();
      await read(reply, (...told) => { wait = 1; if (!own.signal.aborted) hear(...told); });
    } catch (error) {
      if (own.signal.aborted) return;
      if ([401, 403, 404].includes(error.status)) return page.refused(error);
      page.say(error instanceof Refused ? `Not now: ${error.message}` : "The service does not answer; trying again");
    }
    await new Promise((done) => setTimeout(done, 1000 * wait));
  }
}

// A hidden page holds no connection: browsers allow six to one server, for all tabs together.
document.addEventListener("visibilitychange", () => {
  if (document.hidden) open.abort();
  else if (followed) follow(...followed);
});
