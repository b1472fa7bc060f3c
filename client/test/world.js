// A world without a network and with a clock that tests set: a service that is none, and people with devices.
import { readFileSync } from "node:fs";

export const START = 1_800_000_000; // a day in 2027
export const LEFT = 185; // seconds after a decision, unless told otherwise: its report has left
export const TEXT = readFileSync(new URL("../client.js", import.meta.url), "utf8");

/** The module with one piece of its text replaced; a piece that is not there any more, or twice, is a mistake. */
export function mutant(piece, other) {
  if (TEXT.split(piece).length !== 2) throw new Error(`not once in client.js: ${piece}`);
  return import(`data:text/javascript,${encodeURIComponent(TEXT.replace(piece, () => other))}`);
}

/** Seconds and answers; installs itself in place of the clock and of fetch. */
export class World {
  at = START;
  ahead = 0; // of the server's clock
  reportAfter = 60;
  expiresAfter = 86_400;
  decision = {}; // changes what a decision answers
  fails = () => ""; // "before" or "after" it is taken in, for the n-th report
  answers = null; // [status, text or content, headers] instead of anything else
  questions = [];
  requests = [];
  arrivals = []; // every report, also those that got no answer: when, how long, and what it said
  taken = new Map(); // what is learned from, by token
  visitors = new Map();
  ends = new Map(); // by token, when it is too late
  #count = 0;

  constructor() {
    Date.now = () => Math.round(1000 * this.at);
    globalThis.fetch = async (url, options) => this.#fetched(url, options);
  }

  async #fetched(url, options) {
    this.requests.push({ url, ...options });
    const content = JSON.parse(options.body);
    const [status, said, headers] = this.answers ?? this.#answered(url, content, options.body.length);
    if (status === 0) throw new TypeError("fetch failed");
    const text = typeof said === "string" ? said : JSON.stringify(said);
    return new Response(text, { status, headers: { date: "Thu, 01 Jan 1970 00:00:00 GMT", ...headers } });
  }

  #answered(url, content, size) {
    if (url.endsWith("/decisions")) return [200, this.#decided(content)];
    this.arrivals.push({ at: this.at, size, ...content });
    const failure = this.fails(this.arrivals.length);
    if (failure === "before") return [0];
    if (this.at + this.ahead >= this.ends.get(content.token)) return [410, { status: 410, code: "late" }];
    const status = this.taken.has(content.token) ? "duplicate" : "accepted";
    if (status === "accepted") this.taken.set(content.token, content.bit ?? content.answer);
    return failure === "after" ? [0] : [200, { status }];
  }

  #decided(question) {
    this.questions.push(question);
    if (this.visitors.has(question.visitor)) {
      const without = question.participate === false ? { token: null, participate: false } : {};
      return { ...this.visitors.get(question.visitor), now: Math.floor(this.at + this.ahead), ...without };
    }
    const now = Math.floor(this.at + this.ahead);
    const token = `token-of-${String(this.#count++).padStart(8, "0")}`;
    const told = { token, arm: question.eligible_arms?.[0] ?? "plain", payload: { text: "Hello" }, epsilon: 1 };
    const times = { now, report_at: now + this.reportAfter, expires: now + this.expiresAfter };
    Object.assign(told, { ...times, experiment: "headline", participate: true });
    if (question.participate === false) Object.assign(told, { token: null, participate: false });
    Object.assign(told, this.decision);
    this.ends.set(told.token, told.expires);
    if (question.visitor !== undefined) this.visitors.set(question.visitor, told);
    return told;
  }

  /** Let time pass, second by second, and the devices do what is due. */
  async pass(seconds, ...devices) {
    for (let i = 0; i < seconds; i++) {
      this.at += 1;
      for (const device of devices) await device.sendDue();
    }
  }
}

/** A device whose test says when it sends. */
export function opened(client, options = {}, url = "https://bandits.example.org/") {
  const terms = { cap: 1000, maxEpsilon: 2, background: false, sticky: false, store: client.inMemory(), ...options };
  return new client.Device(url, "headline", terms);
}
