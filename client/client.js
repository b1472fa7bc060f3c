/**
 * The device of one person in a browser: it asks which arm to show, masks the reward, and reports it later, at a random time.
 * This file is complete and imports nothing. docs/browser_client.md explains how to put it on a page.
 *
 *     decide()         asks for an offer and checks it; pays for the report and promises it, or takes no part
 *     adopt(offer)     does the same with an offer that your own server has asked for
 *     report(reward)   masks the reward; stores the masked answer, not the reward; sends nothing
 *     report_at        without a reward, stores a masked 0 instead; from now on the answer is fixed
 *     a minute later   sends the answer at a random moment of a minute; without a reply, sends the same again, at most
 *                      20 times
 *
 * Participation is decided before the reward is known. Nothing is sent at a click or when a page closes (no sendBeacon, no
 * fetchLater), because the time would reveal the click. Reports that a page leaves behind are sent by report-worker.js at their
 * time if your site has it, and else after the next visit begins.
 *
 * To trust the mask, read to the end of the class Device: random numbers, mask, limits on the server, what is sent and when.
 */

// ---- Random numbers: from the operating system's generator alone

function fillRandom(array) {
  if (typeof globalThis.crypto?.getRandomValues !== "function") {
    throw new Error("crypto.getRandomValues is missing, so nothing can be masked: use another browser");
  }
  return globalThis.crypto.getRandomValues(array); // at most 65,536 bytes a call
}

const chance = () => fillRandom(new Uint32Array(1))[0] / 2 ** 32; // in [0, 1), for delays
const hex = (bytes) => Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");

// ---- The mask: exact arithmetic with the same results as in Python (vectors.json checks both)

const WORDS = 1n << 64n;
const MILLION = 1_000_000;
const MAX_EPSILON = 16; // above it nothing is hidden

const up = (dividend, divisor) => (dividend + divisor - 1n) / divisor; // division, rounded up

/** The decimal number in whole millionths, rounded down, so that 0.1 is exactly a tenth. */
function inMillionths(number) {
  const [whole, part = ""] = number < 1e-6 ? ["0"] : String(number).split(".");
  return Number(whole + part.padEnd(6, "0").slice(0, 6));
}

/** An epsilon in millionths; 0 if it is not a valid one. */
export function asEpsilon(value) {
  return typeof value === "number" && value > 0 && value <= MAX_EPSILON ? inMillionths(value) : 0;
}

/** Integers around 2^precision e^(x / 10^6): its Taylor series with terms rounded down and rounded up. */
function expBetween(x, precision) {
  let low = 0n;
  let high = 0n;
  let below = 1n << precision; // the next term, rounded down
  let above = below; // and rounded up
  for (let divisor = BigInt(MILLION); above > 1n || divisor <= 2n * x; divisor += BigInt(MILLION)) {
    low += below;
    high += above;
    below = (below * x) / divisor;
    above = up(above * x, divisor);
  }
  return [low, high + 2n * above]; // terms at least halve from here on: the rest is less than twice the next
}

const thresholds = new Map();

/**
 * The number of the 2^64 words that give one false answer: ceil(2^64 / (e^epsilon + answers - 1)). It is rounded up, so the
 * real epsilon is never above the stated one. The precision of e^epsilon grows until both bounds give the same result.
 */
export function threshold(millionths, answers = 2) {
  const key = `${millionths} ${answers}`;
  for (let precision = 128n; !thresholds.has(key); precision *= 2n) {
    const [low, high] = expBetween(BigInt(millionths), precision);
    const others = BigInt(answers - 1) << precision;
    const each = up(WORDS << precision, high + others);
    if (BigInt(answers) * each > WORDS) throw new RangeError("too many answers for one random word");
    if (each === up(WORDS << precision, low + others)) thresholds.set(key, each);
  }
  return thresholds.get(key);
}

/** The masked answer for a random word: a rotation of the truth, without a branch on the truth. */
export function answerOf(truth, answers, each, word) {
  return (truth + Number(word / each + 1n) * Number(word < each * BigInt(answers - 1))) % answers;
}

/** Masked answers to a question, one random word for each bit. Every answer that leaves a device is drawn here. */
export function masked(bits, { answers, truthOf, epsilon }) {
  const each = threshold(epsilon, answers);
  const words = fillRandom(new BigUint64Array(bits.length));
  return bits.map((bit, at) => answerOf(truthOf(bit), answers, each, words[at]));
}

/** A random bit whose mean is exactly the reward in [0, 1]: floats are multiples of 2^-1074, and the word is finer. */
export function bitOf(reward, word = BigInt(`0x${hex(fillRandom(new Uint8Array(135)))}`)) {
  const value = typeof reward === "boolean" ? Number(reward) : reward;
  if (typeof value !== "number" || !(value >= 0 && value <= 1)) {
    throw new RangeError("reward must be a number in [0, 1]: scale it first"); // without the reward itself
  }
  const float = new BigUint64Array(new Float64Array([value + 0]).buffer)[0]; // + 0: turns -0 into 0
  const exponent = float >> 52n;
  const fraction = float & ((1n << 52n) - 1n);
  const normal = BigInt(exponent > 0n);
  return Number(word < (fraction + (normal << 52n)) << (exponent - normal + 6n)); // in 2^-1080ths
}

// ---- The server's offer, which is not trusted. It may lower the epsilon and nothing else that matters for privacy: no
// ---- threshold and no probability comes from outside.

/** The server cannot be reached, or its reply cannot be used; `isBrief` if it may be back soon. */
class Away extends Error {
  constructor(why, isBrief = false) {
    super(why);
    this.isBrief = isBrief;
  }
}

const DAY = 86_400;
const WAKE = 60; // seconds between two wake-ups of a hidden page
const FLOORS = { report: 60, window: 3600, jitter: WAKE }; // minimal seconds; no server can lower them
const DEMONSTRATION = { report: 0, window: 1, jitter: 0 }; // used instead if the page's own code asks for it
const MAX_LIFETIME = 30 * DAY; // seconds from a decision to the end of its token
const ROUNDING = 5; // seconds: the server rounds its times
const MAX_BYTES = 1 << 20; // of a reply
const UNSEEN = /(?![\u200c\u200d])[\p{C}\p{Zl}\p{Zp}]/u; // invisible characters, except the joiners of some scripts
const isLine = (text) => typeof text === "string" && text.trim() !== "" && !UNSEEN.test(text);

/** The number of answers, and the true one: the bit; with signs the bit, flipped by the group's sign; else group and bit.
 * The server's signs decide what is masked, never how. */
export function questionOf(groups, own = 0, signs = null) {
  if (groups === 0 || signs) return { answers: 2, truthOf: (bit) => bit ^ (groups && signs[own]) };
  return { answers: 2 * groups, truthOf: (bit) => 2 * own + bit };
}

const secondsTo = (time, now) => (typeof time === "number" ? time - now : NaN);
const firstOf = (faults) => Object.keys(faults).find((fault) => faults[fault]) ?? "";

/** The reason why these times, in seconds from now, are unsafe: the moment of sending would reveal the reward. */
function faultOfTimes(at, end, { report, window }) {
  return firstOf({
    [`the server's report_at is less than ${report} s after the decision`]: !(at >= report - ROUNDING),
    [`the server's expires is less than ${window} s after its report_at`]: !(end - Math.max(at, 0) >= window),
    [`the server's expires is more than ${MAX_LIFETIME / DAY} days after the decision`]: !(end <= MAX_LIFETIME + ROUNDING),
  });
}

/** The text of a reply, if it is not too long. */
async function textOf(answer) {
  const [reader, decoder] = [answer.body?.getReader(), new TextDecoder()];
  let [text, size] = ["", 0];
  for (let piece = await reader?.read(); piece && !piece.done; piece = await reader.read()) {
    size += piece.value.length;
    if (size > MAX_BYTES) {
      reader.cancel().catch(() => undefined);
      throw new Away(`the server's reply is longer than ${MAX_BYTES} bytes`);
    }
    text += decoder.decode(piece.value, { stream: true });
  }
  return text + decoder.decode();
}

/** An object's own property: an arm may be called "constructor". */
const ownOf = (object, name) => (Object.hasOwn(Object(object), name) ? object[name] : null);

/** The offer in a reply. Only the arm may depend on the person's group: other differences would reveal it. Its times are
 * differences to the server's own time in it, which proxies leave alone; `age` is what has passed since. */
export function readOffer(content, among, { most, groups, group, floors = FLOORS }, age = 0) {
  if (typeof content !== "object" || content === null) throw new Away("the server's reply is not an object");
  const table = groups ? content.arms : [content.arm];
  if (!Array.isArray(table) || table.length !== (groups ?? table).length || !table.every(isLine)) {
    throw new Away(groups ? "the server's reply does not name one arm for each group" : "the server's reply has no arm");
  }
  if (among && !table.every((arm) => among.includes(arm))) throw new Away("the server chose an arm that is not in eligibleArms");
  const own = groups ? groups.indexOf(group) : 0;
  const payload = (groups ? ownOf(content.payloads, table[own]) : content.payload) ?? null;
  const asked = asEpsilon(content.epsilon);
  const signs = groups ? content.signs : null;
  const now = typeof content.now === "number" ? content.now : clock(); // an older server sends none
  const at = secondsTo(content.report_at, now);
  const end = secondsTo(content.expires, now);
  const window = end - Math.max(at, floors.report);
  const areSigns = Array.isArray(signs) && signs.length === table.length && signs.every((sign) => [0, 1].includes(sign));
  const faults = {
    "the server requests no report": content.participate !== true,
    "the server's reply has no token": !/^[A-Za-z0-9_-]{16,1024}$/.test(content.token) || typeof content.token !== "string",
    "the server's epsilon is not a number above 0 and up to 16": asked === 0,
    "the server's reply does not have one sign for each group": signs !== null && !areSigns,
  };
  return {
    arm: table[own],
    payload,
    why: firstOf(faults),
    token: content.token,
    epsilon: Math.min(asked, most),
    // ignored for a promised report, which keeps its times
    faultOfTimes: faultOfTimes(at, end, floors) || (window > age ? "" : "the offer has expired"),
    reportIn: Math.max(at, floors.report), // seconds from now
    expiresIn: end - age,
    window,
    now,
    ...questionOf(groups ? table.length : 0, own, signs),
  };
}

// ---- The device

const BOOK = "book"; // payments and promises; the masked answer of each decision is stored under its name
const visitKey = (visitor) => `visit ${visitor}`; // the latest offer to a visitor, as the server sent it
const spentOf = (content) => ({ ...content, token: null, participate: false }); // what is kept of an offer without a report
const silence = (name) => `${name} silent`; // the masked answer of silence, until a reward replaces it or its time comes
const SENT = "sent"; // replaces an answer for good, so that none is drawn again
const [WAITING, FIXED, LEAVING] = ["waiting for a reward", "its answer is fixed", "to be sent"]; // states of a row
const FINAL = ["accepted", "duplicate", "late", "forged", "foreign", "invalid"]; // after which a report is not sent again
const [FIRST, LAST] = [30, DAY]; // seconds between tries: doubled each time, up to a day
const MAX_TRIES = 20; // of a report
const MAX_LATE_TRIES = 3; // after its expiry by this clock, which may be wrong
const MAX_QUIET = 3600; // seconds: limit of Retry-After
const REPORT_TIMEOUT = 10; // seconds, at least: nobody waits for the reply
const LOOK = 60; // longest pause of the timer, in seconds
const UNSTEADY = 5; // seconds by which a clock may drift between two looks
const SUDDEN = 300; // seconds between two looks that may mean a corrected clock
const WRITING = 0.25; // seconds to write an answer: of many at once, none leaves before all may be written
const PUNCTUAL = 1 / 30; // of the wake-up time: a timer that is late by less was not throttled
const EARLIEST = 1_735_689_600; // the year 2025: a clock before that was never set

const NEVER_SET = "the clock was never set";

const clock = () => Date.now() / 1000;
const sinceThen = (at) => Math.max(clock() - at, 0);
const bytesOf = (text) => new TextEncoder().encode(text);
const isHere = ({ hostname }) => ["127.0.0.1", "localhost", "[::1]"].includes(hostname);
const within = (value, least, most) => typeof value === "number" && value >= least && value <= most;

function check(holds, complaint) {
  if (!holds) throw new TypeError(complaint);
}

/**
 * Advance a row that is due; tell whether it leaves now. Its jitter begins at report_at and lasts at least a minute. It leaves
 * at a random moment of the minute after that. Browsers wake a hidden page once a minute, at a random moment, so rows of hidden
 * pages leave then. Both look the same, and nobody can see that a page is hidden, perhaps because of a click. Only
 * demonstrations have less than a minute for each.
 */
function advanceRow(row, at, isNewVisit, others) {
  const wake = Math.min(row.step, WAKE);
  const punctual = wake * PUNCTUAL;
  const spread = punctual + wake * chance();
  if (row.state === WAITING) {
    row.state = FIXED;
    row.due += wake + (row.step - wake) * chance() + others * Math.min(WRITING, wake);
    if (at < row.due) return false;
    isNewVisit = true; // equivalent: nothing ran here for a long time
  }
  if (isNewVisit) {
    row.state = LEAVING;
    row.due = at + spread;
    return false;
  }
  if (row.state === FIXED) {
    row.state = LEAVING;
    const late = at - row.due;
    if (late <= punctual) row.due += spread;
    else if (late > wake + punctual) row.due = at + spread;
  }
  return row.due <= at;
}

/** The address of a service, without a slash at its end. */
function addressOf(url) {
  const address = new URL(url, globalThis.location?.href);
  const extras = address.username + address.password + address.search + address.hash;
  check(/^https?:$/.test(address.protocol) && !extras, "url: give an address such as https://bandits.example.org");
  return [address.origin + address.pathname.replace(/\/+$/, ""), address];
}

/** A decision: an arm to show, and `report(reward)`. The first reward counts, until report_at. */
function buildDecision({ arm, payload = null, why, epsilon }, keep = () => false) {
  const decision = { arm, payload, participates: !why, why, epsilon: why ? 0 : epsilon / MILLION };
  return Object.freeze({ ...decision, report: async (reward) => keep(bitOf(reward)) });
}

/** A device on a page, for one experiment of one server. */
export class Device {
  #url; #experiment; #own; #terms; #headers; #jitter; #timeout; #store; #change; #sticky; #worker;
  #cost = 0; #quiet = 0; #isNew = true; #trouble = ""; #timer = null; #isClosed = false;

  /** `cap` limits the cost of all reports (`per` a time) and `maxEpsilon` that of each, whatever the server says. */
  constructor(url, experiment, { cap, maxEpsilon, per = null, groups = null, group = null, ...others }) {
    const { key = null, timeout = 0.5, background = true, store = null, change = false } = others;
    const { demonstration = false, jitter = FLOORS.jitter, sticky = true, worker = null } = others;
    const floors = demonstration ? DEMONSTRATION : FLOORS;
    const [plain, address] = addressOf(url);
    const [, many, unit] = /^([1-9][0-9]{0,8}) *(week|day|hour|minute|second)s?$/.exec(per) ?? [];
    check(isLine(experiment), "experiment: give its name");
    check(within(cap, 0, 1e9), "cap: give a number of at least 0");
    check(asEpsilon(maxEpsilon) > 0, "maxEpsilon: give a number from 0.000001 to 16");
    check(per === null || many, "per: give a time such as '30 days'");
    check(within(jitter, floors.jitter, DAY), `jitter: give seconds, from ${floors.jitter} to 86400`);
    check(!demonstration || isHere(address), "demonstration: use it only with a service at 127.0.0.1 or localhost");
    check(!worker || !store, "worker: leave out store, because the worker reads the browser's");
    check(within(timeout, 1e-3, 3600), "timeout: give seconds, at most 3600");
    const isOneOf = Array.isArray(groups) && new Set(groups).size === groups.length && groups.includes(group);
    check(groups === null || isOneOf, "groups: give a list of different names; group: give the person's own from that list");
    fillRandom(new Uint8Array(1)); // throws without random numbers
    this.#url = plain;
    this.#own = { most: asEpsilon(maxEpsilon), groups, group, floors };
    this.#headers = { "Content-Type": "application/json", ...(key === null ? {} : { Authorization: `Bearer ${key}` }) };
    this.#terms = { cap: inMillionths(cap), per: per === null ? 0 : many * UNITS[unit] };
    this.#change = change;
    this.#experiment = experiment;
    this.#jitter = jitter;
    this.#timeout = timeout;
    this.#store = store ?? inBrowser();
    this.#sticky = sticky;
    this.#worker = worker && { path: worker, message: { url: plain, experiment, key, demonstration } };
    if (background) this.#run();
  }

  /** Ask which arm to show; the fallback without a server. The same visitor gets the same arm, and pays once. */
  async decide({ visitor, eligibleArms, fallback = null } = {}) {
    const areNames = Array.isArray(eligibleArms) && eligibleArms.length > 0 && eligibleArms.every(isLine);
    check(eligibleArms === undefined || areNames, "eligibleArms: give a list of names");
    check(visitor === undefined || (visitor && typeof visitor === "string"), "visitor: give a text");
    const signal = AbortSignal.timeout(1000 * this.#timeout); // for storage and server together
    let visit = null;
    let isOpen = false; // a paid decision that can still get a reward: its token is needed again
    let away = await this.#attempt(() => this.#takesNoPart(signal), signal);
    if (crypto.subtle && (visitor !== undefined || this.#sticky)) {
      away = await this.#attempt(async () => {
        visit = await this.#visit(visitor, signal);
        isOpen = away !== "" && (await this.#isOpen(visit.own));
        return away;
      }, signal);
    }
    const question = { ...(away && !isOpen && { participate: false }), eligible_arms: eligibleArms };
    if (visit) question.visitor = visit.pseudonym;
    let [content, offer] = [null, null];
    try {
      content = await this.#ask(question, signal);
      offer = readOffer(content, eligibleArms, this.#own);
      const kept = content.stored === false && this.#keptOffer(visit, eligibleArms); // the server's store is away
      if (kept) [content, offer] = [null, kept];
    } catch (error) {
      if (!(error instanceof Away)) throw error;
      offer = error.isBrief && this.#keptOffer(visit, eligibleArms);
      if (!offer) return buildDecision({ arm: fallback, why: error.message });
    }
    const decision = await this.#accept(offer, away, visit?.own, signal);
    if (visit && content) this.#attempt(() => this.#keep(visit, decision.participates ? content : spentOf(content), offer));
    return decision;
  }

  /** Take over an offer that your own server asked for. The same offer is the same promise, and pays once. */
  async adopt(content) {
    const away = await this.#attempt(() => this.#takesNoPart());
    let offer;
    try {
      offer = readOffer(content, undefined, this.#own, sinceThen(content?.now));
    } catch (error) {
      if (!(error instanceof Away)) throw error;
      return buildDecision({ arm: null, why: error.message });
    }
    const isOther = "service" in content && !this.#isAt(content.service);
    const fault = firstOf({
      "the offer is not of this experiment": content.experiment !== this.#experiment,
      "the offer is not of this service": isOther,
      "the service cannot store this visitor's decision now, so the next one would cost again": content.stored === false,
      "the offer lacks its time, now: ask a newer service": typeof content.now !== "number",
    });
    return this.#accept({ ...offer, faultOfTimes: fault || offer.faultOfTimes }, away);
  }

  #isAt(url) {
    try {
      return addressOf(url)[0] === this.#url;
    } catch {
      return false;
    }
  }

  /** Promise the report of an offer, if that is possible. */
  async #accept(offer, away, visitor, signal) {
    this.#cost = offer.epsilon;
    if (offer.why || !crypto.subtle) return buildDecision({ ...offer, why: away || offer.why });
    const name = hex(new Uint8Array(await crypto.subtle.digest("SHA-256", bytesOf(offer.token)))).slice(0, 32);
    const why = await this.#attempt(() => this.#promise(name, offer, visitor, signal));
    if (why) return buildDecision({ ...offer, why });
    if (this.#worker) this.#handOver(); // whatever happens on the page
    return buildDecision(offer, (bit) => this.#reward(name, masked([bit], offer)[0]));
  }

  /** Send the reports that are due; return how many got a final reply. A page does this on its own. */
  async sendDue() {
    const answers = await Promise.all(await this.#look());
    return answers.filter((isFinal) => isFinal === true).length;
  }

  /** The rest of the cap. */
  async remaining() {
    return (await this.#left()) / MILLION;
  }

  /** Stop sending; open reports leave after the next visit begins. */
  close() {
    this.#isClosed = true;
    clearTimeout(this.#timer);
  }

  /** Flip n times on this page, and compare the measured epsilon with the promised one. */
  proveIt(n, where) {
    return proveIt(n, this.#own.most / MILLION, where);
  }

  async #run() {
    const trouble = await this.#attempt(() => this.#look().then(() => "")); // a slow reply does not delay other reports
    await this.#plan(trouble ? LOOK : 0); // after a failure, wait before the next try
  }

  /** Send what leaves now, and fix answers that are due; return the running requests. Rewards do not delay what leaves. */
  async #look() {
    const at = clock();
    if (at < EARLIEST || this.#isClosed) return [];
    const leaving = await this.#store.locked(() => this.#takeLeaving(at));
    const sending = leaving.map(([name, row]) => this.#attempt(() => this.#send(name, row)));
    await this.#store.locked(() => this.#fix(at));
    this.#isNew = false; // rows of earlier visits have their delay now
    return sending;
  }

  /** Set the timer for the next row, or for a while. */
  async #plan(least = 0) {
    let soonest = Infinity;
    await this.#attempt(async () => {
      const rows = Object.values((await this.#store.get(BOOK))?.rows ?? {});
      soonest = Math.min(...rows.filter(({ url }) => url === this.#url).map(({ due }) => due));
    });
    clearTimeout(this.#timer);
    if (this.#isClosed) return;
    const wait = Math.min(Math.max(soonest - clock(), least), LOOK);
    this.#timer = setTimeout(() => this.#run(), Math.ceil(1000 * wait)); // timers truncate, and would run too early
    this.#timer.unref?.(); // Node may end
  }

  /** The content of the server's reply to a question. */
  async #ask(question, signal) {
    const path = `/v1/experiments/${encodeURIComponent(this.#experiment)}/decisions`;
    const { status, content } = await this.#post(path, question, signal);
    if (status !== 200) throw new Away(`the server replied with status ${status}`, status === 429 || status >= 500);
    return content;
  }

  async #post(path, content, signal, blanks = 0) {
    const quiet = this.#quiet - clock();
    if (quiet > 0 && quiet <= MAX_QUIET) throw new Away("the server asked to wait before the next request", true);
    const options = { redirect: "error", credentials: "omit", cache: "no-store", referrerPolicy: "no-referrer" };
    const body = JSON.stringify(content) + " ".repeat(blanks);
    const question = { method: "POST", headers: this.#headers, body, signal, ...options };
    let answer;
    let text;
    try {
      answer = await fetch(this.#url + path, question);
      text = await textOf(answer);
    } catch (error) {
      if (error instanceof Away) throw error;
      throw new Away(`the server is unreachable, or slower than the timeout: ${error?.name}`, true);
    }
    const wait = Number(answer.headers.get("retry-after"));
    if (wait > 0) this.#quiet = clock() + Math.min(wait, MAX_QUIET);
    try {
      return { status: answer.status, content: JSON.parse(text) };
    } catch {
      throw new Away("the server's reply is not JSON", answer.status >= 500); // a gateway's page, perhaps
    }
  }

  /** The stored book, or a new one. A clock that was never set moves nothing. */
  async #book(at) {
    const empty = { ...this.#terms, total: 0, payments: [], rows: {}, seen: at, back: 0 };
    const book = (await this.#store.get(BOOK)) ?? { ...empty, secret: fillRandom(new Uint8Array(32)) };
    if (at >= EARLIEST) followClock(book, at);
    return book;
  }

  /** Check the terms against the promised ones before anything is paid. Paid reports are sent in any case. */
  #agree(book, at) {
    if (this.#change && book.per !== this.#terms.per) {
      const counts = this.#terms.per > book.per ? book.total : spent(book, at); // old payments may count again
      book.payments = [[dated(book, at), counts]];
    }
    if (this.#change) Object.assign(book, this.#terms);
    if (this.#terms.cap > book.cap || this.#terms.per !== book.per) {
      throw new Trouble("the stored cap or period differs: use the stored terms or a lower cap, or give change: true once");
    }
  }

  /** The rest of the cap in whole millionths, by this clock. */
  async #left(signal) {
    return this.#store.locked(async () => {
      const book = await this.#book(clock());
      this.#agree(book, clock());
      if (this.#change) await this.#store.put([[BOOK, book]]);
      return Math.max(Math.min(this.#terms.cap, book.cap) - spent(book, clock()), 0);
    }, signal);
  }

  /** The reason to take no part that is known before the request; "" if there is none. */
  async #takesNoPart(signal) {
    if (clock() < EARLIEST) return NEVER_SET;
    if (this.#isClosed) return "this device is closed";
    if (!crypto.subtle) return "browsers keep crypto.subtle to https pages, and nothing is remembered without it";
    const left = await this.#left(signal);
    if (left > 0 && left >= this.#cost) return "";
    return `${left / MILLION} is left of the cap of ${this.#terms.cap / MILLION}, less than a report costs`;
  }

  /** Whether a decision of this visitor can still get a reward. */
  async #isOpen(visitor) {
    const rows = Object.values((await this.#store.get(BOOK))?.rows ?? {});
    return rows.some((row) => row.url === this.#url && row.visitor === visitor && row.state === WAITING);
  }

  /** Pay for a report and promise it; return the reason if that is not possible. A known token is the same promise. */
  #promise(name, offer, visitor, signal) {
    const { token, epsilon, answers, reportIn, expiresIn, window, now } = offer;
    const at = clock();
    const [silent] = masked([0], offer); // sent without a reward; so the group need not be stored
    return this.#store.locked(async () => {
      const book = await this.#book(at);
      const row = book.rows[name];
      if (row) return row.epsilon === epsilon && row.answers === answers ? "" : "the server has changed its terms";
      if ((await this.#store.get(name)) !== undefined) return "this decision was already reported";
      if (at < EARLIEST) return NEVER_SET;
      if (offer.faultOfTimes) return offer.faultOfTimes;
      if (now > at + 366 * DAY) return "the server's clock is more than a year ahead"; // such a payment would never become old
      this.#agree(book, at);
      const earlier = Math.min(at, now);
      if (spent(book, earlier) + epsilon > Math.min(this.#terms.cap, book.cap)) return "a report would exceed the cap";
      book.total += epsilon;
      book.payments = book.per ? [...counting(book, earlier), [dated(book, Math.max(at, now)), epsilon]] : [];
      const step = Math.min(this.#jitter, window / 4); // of at least an hour, except in demonstrations
      const times = { due: at + reportIn, step, expires: at + expiresIn, tries: 0, late: 0 };
      const asked = { token, url: this.#url, visitor, epsilon, answers, isBit: !this.#own.groups };
      book.rows[name] = { ...asked, state: WAITING, ...times };
      await this.#store.put([[silence(name), silent], [BOOK, book]]);
      if (this.#timer !== null) queueMicrotask(() => this.#plan());
      return "";
    }, signal);
  }

  /** Store a masked answer; tell whether it is the first, and in time. */
  async #reward(name, answer) {
    let counts = false;
    await this.#attempt(async () => {
      const isFirst = await this.#store.add(name, answer, silence(name));
      counts = isFirst && name in ((await this.#store.get(BOOK))?.rows ?? {});
    });
    return counts;
  }

  /** The rows that leave now, with their next try scheduled. Rows with too many tries are dropped. */
  async #takeLeaving(at) {
    const book = await this.#book(at);
    const over = [];
    const leaving = [];
    for (const [name, row] of Object.entries(book.rows)) {
      const isForgotten = row.url !== this.#url && row.expires + MAX_LIFETIME <= at; // no page has this device any more
      if (isForgotten || row.tries >= MAX_TRIES || row.late >= MAX_LATE_TRIES) {
        over.push([name, SENT], [silence(name), SENT]);
        delete book.rows[name];
      } else if (row.url === this.#url && row.due <= at && row.state !== WAITING) {
        if (advanceRow(row, at, this.#isNew, 0)) leaving.push([name, this.#putOff(row, at)]);
      }
    }
    if (over.length || Object.keys(book.rows).length) await this.#store.put([...over, [BOOK, book]]);
    return leaving;
  }

  /** Fix the answers that are due: later rewards do not count. */
  async #fix(at) {
    const book = await this.#book(at);
    const isWaiting = ([, row]) => row.url === this.#url && row.due <= at && row.state === WAITING;
    const waiting = Object.entries(book.rows).filter(isWaiting);
    for (const [name, row] of waiting) {
      const silent = await this.#store.get(silence(name));
      if (silent !== undefined) await this.#store.add(name, silent, silence(name)); // unless there is a reward
      advanceRow(row, at, this.#isNew, waiting.length - 1); // not before its jitter is over
    }
    if (waiting.length) await this.#store.put([[BOOK, book]]);
  }

  /** Schedule the next try. After the expiry by this clock, which may be wrong, few tries follow. */
  #putOff(row, at) {
    const isLate = row.expires <= at;
    const pause = isLate ? LAST : Math.min(FIRST * 2 ** row.tries, LAST);
    row.due = at + pause * (0.5 + chance() / 2);
    row.tries += 1;
    if (isLate) row.late += 1;
    return row;
  }

  /** Send a report; tell whether the reply is final. */
  async #send(name, { token, visitor, epsilon, answers, isBit }) {
    const answer = await this.#store.get(name); // stored when it was drawn: a retry sends the same
    if (typeof answer !== "number" || this.#isClosed) return false;
    const report = { token, [isBit ? "bit" : "answer"]: answer, epsilon: epsilon / MILLION };
    const blanks = String(answers - 1).length - String(answer).length; // all reports of a token have the same length
    try {
      const signal = AbortSignal.timeout(1000 * Math.max(this.#timeout, REPORT_TIMEOUT));
      const { content } = await this.#post("/v1/reports", report, signal, blanks);
      if (!FINAL.includes(content?.code ?? content?.status)) return false; // a code where the report was refused
    } catch (error) {
      if (!(error instanceof Away)) throw error;
      return false; // it is sent again later
    }
    await this.#store.locked(async () => {
      const book = await this.#book(clock());
      delete book.rows[name];
      const visit = visitor && (await this.#store.get(visitKey(visitor)));
      const spent = visit?.content?.token === token ? [[visitKey(visitor), { ...visit, content: spentOf(visit.content) }]] : [];
      await this.#store.put([[name, SENT], [BOOK, book], ...spent]);
    });
    return true;
  }

  /**
   * What is stored of a visitor, and the name to send. A visitor that the page names has a pseudonym for this browser and
   * service, which means nothing elsewhere. The browser itself has a random name, and a new one once its offer has expired:
   * so names connect no visits beyond those that a token connects.
   */
  #visit(visitor, signal) {
    return this.#store.locked(async () => {
      const book = await this.#book(clock());
      const key = await crypto.subtle.importKey("raw", book.secret, { name: "HMAC", hash: "SHA-256" }, false, ["sign"]);
      const text = bytesOf(`${this.#url}\n${this.#experiment}\n${visitor ?? ""}`);
      const own = hex(new Uint8Array(await crypto.subtle.sign("HMAC", key, text))).slice(0, 32);
      const stored = await this.#store.get(visitKey(own));
      const left = stored ? stored.until - clock() : 0;
      if (left > 0 && left <= MAX_LIFETIME) return stored;
      const pseudonym = visitor === undefined ? hex(fillRandom(new Uint8Array(16))) : own;
      const visit = { own, pseudonym, content: null, at: clock(), until: clock() + DAY };
      await this.#store.put([[BOOK, book], [visitKey(own), visit]]); // before it is sent: a lost reply is asked for again
      return visit;
    }, signal);
  }

  /** Keep an offer to a visitor, for when the server is away. It does not depend on the person's group. */
  async #keep(visit, content, { expiresIn, faultOfTimes, why }) {
    const life = why || faultOfTimes ? DAY : expiresIn;
    await this.#store.put([[visitKey(visit.own), { ...visit, content, at: clock(), until: clock() + life }]]);
    return "";
  }

  /** The offer that a visitor got before, if its arm may still be shown. */
  #keptOffer(visit, eligibleArms) {
    try {
      return visit?.content ? readOffer(visit.content, eligibleArms, this.#own, sinceThen(visit.at)) : null;
    } catch (error) {
      if (!(error instanceof Away)) throw error;
      return null;
    }
  }

  /** Let the site's service worker send what is due in the next minutes, also when this page is gone. */
  async #handOver() {
    const { path, message } = this.#worker;
    try {
      const registration = await navigator.serviceWorker.register(path, { scope: path, type: "module" });
      const worker = registration.active ?? registration.waiting ?? registration.installing;
      if (worker.state === "activated") worker.postMessage(message);
      else worker.addEventListener("statechange", () => worker.state === "activated" && worker.postMessage(message));
    } catch (error) {
      console.warn(`reports wait for the next visit, because ${path} cannot be used: ${error?.message}`);
      this.#worker = null;
    }
  }

  /** Use the store; return the reason of a failure, which is logged once until the store works again. */
  async #attempt(work, signal = null) {
    try {
      const why = await (signal ? Promise.race([work(), endOf(signal)]) : work());
      this.#trouble = "";
      return why;
    } catch (error) {
      const before = this.#trouble;
      this.#trouble = error?.message || String(error); // of any kind: sending must go on
      if (!before) console.warn(`this device does not participate: ${this.#trouble}`);
      return this.#trouble;
    }
  }
}

// ==== The rest is not needed to trust the mask: the clock, the account, the store and the proof.

// ---- The clock, which may be wrong

/** Remaining waits stay the same when the clock is set back, and when it is corrected. */
function followClock(book, at) {
  const rows = Object.values(book.rows);
  const jump = at - book.seen;
  if (rows.length === 0) book.back = 0;
  if (Math.abs(jump) <= UNSTEADY) return;
  let move = 0; // set ahead, or not looked at for long: these cannot be told apart
  if (jump < 0) move = jump;
  else if (jump >= Math.max(book.back - UNSTEADY, SUDDEN)) move = book.back;
  for (const row of rows) {
    row.due += move;
    row.expires += move;
  }
  book.back -= move;
  book.seen = at;
}

// ---- The account. A payment counts for one period. It is dated by the later of this clock and the server's, at the next whole
// ---- second and never before another, and compared with the earlier one. So a clock that is set ahead makes no payment old
// ---- while the server's is right, and one that is set back returns nothing.

const UNITS = { week: 7 * DAY, day: DAY, hour: 3600, minute: 60, second: 1 };
const dated = (book, at) => book.payments.reduce((last, [moment]) => Math.max(last, moment), Math.floor(at) + 1);
const counting = (book, at) => book.payments.filter(([moment]) => moment + book.per > Math.floor(at));
const spent = (book, at) => (book.per ? counting(book, at).reduce((sum, [, cost]) => sum + cost, 0) : book.total);

// ---- The store: IndexedDB, whose writes are atomic and survive a crash; local storage guarantees neither. Web Locks let one
// ---- tab at a time read the account and write to it.

class Trouble extends Error {} // with the store

/** A promise that fails when a signal comes. */
const endOf = (signal) => new Promise((_, failed) => {
  const fail = () => failed(new Trouble("storage is slower than the timeout"));
  if (signal.aborted) fail();
  else signal.addEventListener("abort", fail, { once: true });
});

/** The store of a browser for a site, whose pages share one cap. */
export function inBrowser(name = "maskedbandits") {
  const opening = new Promise((done, failed) => {
    if (!globalThis.indexedDB || !globalThis.navigator?.locks || !globalThis.crypto.subtle) {
      throw new Trouble("storage is not available: open the page over https, and allow storage");
    }
    const request = indexedDB.open(name, 1);
    request.onupgradeneeded = () => request.result.createObjectStore("kept");
    request.onerror = () => failed(request.error);
    request.onsuccess = () => done(request.result);
  }).then((database) => {
    database.onversionchange = () => database.close(); // storage is being cleared: this page no longer participates
    return database;
  });
  const fail = (error) => {
    throw error instanceof Trouble ? error : new Trouble(`storage is not available: ${error?.name}`, { cause: error });
  };
  opening.catch(() => undefined); // reported at the first use
  const transact = async (mode, work) => {
    const database = await opening.catch(fail);
    return new Promise((done, failed) => {
      const transaction = database.transaction("kept", mode, { durability: "strict" });
      const request = work(transaction.objectStore("kept"));
      transaction.oncomplete = () => done(request.result);
      transaction.onabort = () => failed(transaction.error);
      transaction.commit(); // at once: the page may close
    }).catch(fail);
  };
  return {
    get: (key) => transact("readonly", (kept) => kept.get(key)),
    put: (entries) => transact("readwrite", (kept) => entries.map(([key, value]) => kept.put(value, key)).at(-1)),
    add: async (key, value, instead) => {
      try {
        return Boolean(await transact("readwrite", (kept) => (instead && kept.delete(instead), kept.add(value, key))));
      } catch (error) {
        if (error.cause?.name !== "ConstraintError") throw error;
        return false; // there is a value already
      }
    },
    locked: async (work, signal = AbortSignal.timeout(10_000)) => {
      await opening.catch(fail);
      return navigator.locks.request(name, { signal }, work).catch((error) => {
        throw error?.name === "TimeoutError" ? new Trouble("another page writes, for longer than the timeout") : error;
      });
    },
  };
}

/** A store in memory, for programs without a browser; it is lost with the process, and so is the cap. */
export function inMemory() {
  const kept = new Map();
  let last = Promise.resolve();
  return {
    get: async (key) => structuredClone(kept.get(key)),
    put: async (entries) => entries.forEach(([key, value]) => kept.set(key, structuredClone(value))),
    add: async (key, value, instead) => !kept.has(key) && Boolean(kept.set(key, value)) && (kept.delete(instead), true),
    locked: (work) => (last = last.then(work, work)),
  };
}

// ---- The proof, for a person who looks at the page

/** The ends of an interval, each of which misses a probability at most once in 1/level: Chernoff's bound, for any n. */
export function interval(hits, n, level) {
  const share = hits / n;
  const term = (a, b) => (a === 0 ? 0 : a * Math.log(a / b));
  const isFar = (p) => n * (term(share, p) + term(1 - share, 1 - p)) > Math.log(1 / level);
  const edge = (end) => {
    if (share === end) return end;
    let near = share;
    let out = end;
    for (let i = 0; i < 60; i++) { // bisection to the precision of floats, rounded outwards
      const middle = (near + out) / 2;
      if (isFar(middle)) out = middle;
      else near = middle;
    }
    return out;
  };
  return [edge(0), edge(1)];
}

/** Mask n bits as reports are, half of them 0 and half 1, and measure epsilon with 99 % confidence. */
export function proveIt(n, epsilon, where = null) {
  check(Number.isInteger(n) && n >= 2 && n <= 1e9, "n: give a whole number of flips from 2 to 1e9");
  const promise = asEpsilon(epsilon);
  const half = Math.ceil(n / 2);
  const ones = [0, 0]; // of zeros, and of ones
  check(promise > 0, "epsilon: give a number from 0.000001 to 16");
  const question = { ...questionOf(0), epsilon: promise };
  for (const truth of [0, 1]) {
    for (let left = half; left > 0; left -= 8192) {
      const bits = Array(Math.min(left, 8192)).fill(truth); // a word each: 65,536 bytes
      for (const answer of masked(bits, question)) ones[truth] += answer;
    }
  }
  const [[low0, high0], [low1, high1]] = ones.map((hits) => interval(hits, half, 0.01 / 4));
  const apart = (p0, p1) => Math.max(Math.log(p1 / p0), Math.log((1 - p0) / (1 - p1)), 0); // a 1 under 1, a 0 under 0
  const found = { flips: 2 * half, promise: promise / MILLION, measured: apart(ones[0] / half, ones[1] / half) };
  const proof = { ...found, low: apart(high0, low1), high: apart(low0, high1) };
  const holds = proof.low <= proof.promise;
  const format = (number) => (Number.isFinite(number) ? number.toFixed(4) : "too large for so few flips");
  const text = `${proof.flips} flips: epsilon ${format(proof.measured)}, between ${format(proof.low)} and ${format(proof.high)} `
    + `with 99 % confidence; promised is at most ${proof.promise}, which ${holds ? "the flips do not contradict" : "IS NOT TRUE"}`;
  if (where) where.textContent = text;
  return { ...proof, holds, toString: () => text };
}
