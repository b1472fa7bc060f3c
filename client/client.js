/**
 * A person's device in a browser: asks which arm to show, masks what came of it, and reports that later, at a random time.
 * All of it is in this file, which imports nothing; docs/client.md says how to put it on a page.
 *
 *     decide()         the server's offer is doubted; its report is paid for and promised, or it takes no part
 *     report(reward)   the reward is masked here; the masked answer is kept, the reward is not; nothing is sent
 *     report_at        no reward came: what a masked 0 says is kept instead; from now on the answer is fixed
 *     a minute later   it leaves, at a random moment of a minute, whatever it says; if nobody answers, the same leaves
 *                      again, at most 20 times
 *
 * Whether it takes part is settled before a reward can be known. Nothing is sent at a click, nor when a page goes
 * (no sendBeacon, no fetchLater): the time would tell. What a page leaves behind leaves after the next visit begins.
 *
 * To trust the mask, read as far as the end of the class Device: chance, mask, what a server may say, what is sent and when.
 */

// ---- Chance: words of the operating system's generator, and of nothing else

function filled(array) {
  if (typeof globalThis.crypto?.getRandomValues !== "function") {
    throw new Error("there is no crypto.getRandomValues here, so nothing can be masked: use another browser");
  }
  return globalThis.crypto.getRandomValues(array); // at most 65,536 bytes a call
}

const chance = () => filled(new Uint32Array(1))[0] / 2 ** 32; // in [0, 1), for delays
const hex = (bytes) => Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");

// ---- The mask: exact arithmetic, and the same numbers as in Python (both are held to vectors.json)

const WORDS = 1n << 64n;
const MILLION = 1_000_000;
const MOST = 16; // epsilon: above it nothing is hidden

const up = (dividend, divisor) => (dividend + divisor - 1n) / divisor; // a quotient, rounded up

/** Whole millionths of the decimal number that was written, so that 0.1 is a tenth, rounded down. */
function inMillionths(number) {
  const [whole, part = ""] = number < 1e-6 ? ["0"] : String(number).split(".");
  return Number(whole + part.padEnd(6, "0").slice(0, 6));
}

/** An epsilon in millionths; 0 if it is none that hides something and tells something. */
export function asEpsilon(value) {
  return typeof value === "number" && value > 0 && value <= MOST ? inMillionths(value) : 0;
}

/** Integers around 2^precision e^(x / 10^6): its Taylor series, summed rounded down and rounded up. */
function expBetween(x, precision) {
  let low = 0n;
  let high = 0n;
  let below = 1n << precision; // the term to be added, rounded down
  let above = below; // and rounded up
  for (let divisor = BigInt(MILLION); above > 1n || divisor <= 2n * x; divisor += BigInt(MILLION)) {
    low += below;
    high += above;
    below = (below * x) / divisor;
    above = up(above * x, divisor);
  }
  return [low, high + 2n * above]; // the terms have begun to halve: what is left is less than twice the next
}

const thresholds = new Map();

/**
 * How many of the 2^64 words make one false answer: ceil(2^64 / (e^epsilon + answers - 1)). Rounded up, so that the
 * real epsilon is never above the stated one; e^epsilon is enclosed ever closer until both ends give the same.
 */
export function threshold(millionths, answers = 2) {
  const key = `${millionths} ${answers}`;
  for (let precision = 128n; !thresholds.has(key); precision *= 2n) {
    const [low, high] = expBetween(BigInt(millionths), precision);
    const others = BigInt(answers - 1) << precision;
    const each = up(WORDS << precision, high + others);
    if (BigInt(answers) * each > WORDS) throw new RangeError("so many answers are finer than a word can draw");
    if (each === up(WORDS << precision, low + others)) thresholds.set(key, each);
  }
  return thresholds.get(key);
}

/** The answer that a word makes of the truth: so many steps further round, and no branch on the truth. */
export function answerOf(truth, answers, each, word) {
  return (truth + Number(word / each + 1n) * Number(word < each * BigInt(answers - 1))) % answers;
}

/** Bits as masked answers to a question, drawn now, a word each. Every answer that leaves a device is drawn here. */
export function masked(bits, { answers, truthOf, epsilon }) {
  const each = threshold(epsilon, answers);
  const words = filled(new BigUint64Array(bits.length));
  return bits.map((bit, at) => answerOf(truthOf(bit), answers, each, words[at]));
}

/** A reward in [0, 1] as a bit that has it for its mean, exactly: a float is a multiple of 2^-1074, words are finer. */
export function bitOf(reward, word = BigInt(`0x${hex(filled(new Uint8Array(135)))}`)) {
  const value = typeof reward === "boolean" ? Number(reward) : reward;
  if (typeof value !== "number" || !(value >= 0 && value <= 1)) {
    throw new RangeError("a reward is a number in [0, 1]: bring it there first"); // and not a word of what it was
  }
  const float = new BigUint64Array(new Float64Array([value + 0]).buffer)[0]; // + 0: there is a -0
  const exponent = float >> 52n;
  const fraction = float & ((1n << 52n) - 1n);
  const normal = BigInt(exponent > 0n);
  return Number(word < (fraction + (normal << 52n)) << (exponent - normal + 6n)); // in 2^-1080ths
}

// ---- What a server offers, all of it doubted. Of what decides about privacy it may name an epsilon, and that is taken
// ---- only downwards. No threshold and no probability is taken from anywhere.

class Away extends Error {} // the server, or what it says is of no use

const DAY = 86_400;
const WAKE = 60; // seconds: browsers wake a hidden page once in so many
const FLOORS = { report: 60, window: 3600, jitter: WAKE }; // seconds, at least; no server lowers them
const DEMONSTRATION = { report: 0, window: 1, jitter: 0 }; // instead of them, if the page's own code asks for it
const LONGEST = 30 * DAY; // seconds from a decision to the end of its token, at most
const ROUNDING = 5; // seconds: report_at and Date are rounded, and a slow answer is dated late
const MAX_BYTES = 1 << 20; // of an answer
const UNSEEN = /(?![\u200c\u200d])[\p{C}\p{Zl}\p{Zp}]/u; // but what joins letters in some scripts
const isLine = (text) => typeof text === "string" && text.trim() !== "" && !UNSEEN.test(text);

/** How many answers there are, and which is true: without groups the bit, with signs the bit turned round by the own
 * one, else group and bit together. Whatever a server's signs are, they decide what is masked and never how. */
export function questionOf(groups, own = 0, signs = null) {
  if (groups === 0 || signs) return { answers: 2, truthOf: (bit) => bit ^ (groups && signs[own]) };
  return { answers: 2 * groups, truthOf: (bit) => 2 * own + bit };
}

const secondsTo = (time, now) => (typeof time === "number" ? time - now : NaN);
const firstOf = (faults) => Object.keys(faults).find((fault) => faults[fault]) ?? "";

/** Why a report cannot be promised for these times, in seconds from now: its moment of sending would tell of the reward. */
function faultOfTimes(at, end, { report, window }) {
  return firstOf({
    [`the server's report_at is not at least ${report} s away`]: !(at >= report - ROUNDING),
    [`the server's expires is not at least ${window} s after its report_at`]: !(end - Math.max(at, 0) >= window),
    [`the server's expires is more than ${LONGEST / DAY} days away`]: !(end <= LONGEST + ROUNDING),
  });
}

/** The text of an answer, if it is not too long. */
async function textOf(answer) {
  const [reader, decoder] = [answer.body?.getReader(), new TextDecoder()];
  let [text, size] = ["", 0];
  for (let piece = await reader?.read(); piece && !piece.done; piece = await reader.read()) {
    size += piece.value.length;
    if (size > MAX_BYTES) {
      reader.cancel().catch(() => undefined);
      throw new Away(`the server's answer is longer than ${MAX_BYTES} bytes`);
    }
    text += decoder.decode(piece.value, { stream: true });
  }
  return text + decoder.decode();
}

/** What an object has by a name, and not what every object has: an arm may be called "constructor". */
const ownOf = (object, name) => (Object.hasOwn(Object(object), name) ? object[name] : null);

/** What an answer offers. Nothing here may depend on the person's group but the arm: what is done then would tell. */
export function readOffer({ status, content, date }, among, { most, groups, group, floors = FLOORS }) {
  if (status !== 200 || typeof content !== "object" || content === null) {
    throw new Away(`the server answers with status ${status}`);
  }
  const table = groups ? content.arms : [content.arm];
  if (!Array.isArray(table) || table.length !== (groups ?? table).length || !table.every(isLine)) {
    throw new Away(groups ? "the server does not name an arm for each group" : "the server names no arm");
  }
  if (among && !table.every((arm) => among.includes(arm))) throw new Away("the server names an arm not to be shown");
  const own = groups ? groups.indexOf(group) : 0;
  const payload = (groups ? ownOf(content.payloads, table[own]) : content.payload) ?? null;
  const asked = asEpsilon(content.epsilon);
  const signs = groups ? content.signs : null;
  const at = secondsTo(content.report_at, date);
  const end = secondsTo(content.expires, date);
  const areSigns = Array.isArray(signs) && signs.length === table.length && signs.every((sign) => [0, 1].includes(sign));
  const faults = {
    "the server wants no report": content.participate !== true,
    "the server gives no token": !/^[A-Za-z0-9_-]{16,1024}$/.test(content.token) || typeof content.token !== "string",
    "the server names no epsilon that masks anything": asked === 0,
    "the server does not name a sign for each group": signs !== null && !areSigns,
  };
  return {
    arm: table[own],
    payload,
    why: firstOf(faults),
    token: content.token,
    epsilon: Math.min(asked, most),
    faultOfTimes: faultOfTimes(at, end, floors), // unless it is promised already: then the times of that promise count
    reportIn: Math.max(at, floors.report), // seconds from now
    expiresIn: end,
    date,
    ...questionOf(groups ? table.length : 0, own, signs),
  };
}

// ---- The device

const BOOK = "book"; // what was spent and is promised; beside it, by name, the masked answer of each decision
const silence = (name) => `${name} silent`; // the masked answer to silence, until a reward takes its place or its time comes
const SENT = "sent"; // in place of an answer that is needed no more; it stays, so that none is drawn again
const [WAITING, FIXED, LEAVING] = ["waiting for a reward", "its answer is fixed", "to be sent"]; // what a row may be
const FINAL = ["accepted", "duplicate", "late", "forged", "foreign", "invalid"]; // after which nothing is tried again
const [FIRST, LAST] = [30, DAY]; // seconds from one try to the next: twice as many each time, up to a day
const MAX_TRIES = 20; // of a report; then it is given up
const MAX_LATE_TRIES = 3; // of them, after its end by this clock, which may be wrong
const MAX_QUIET = 3600; // seconds for which a server may ask to be left alone
const LOOK = 60; // seconds after which it looks at the clock in any case
const UNSTEADY = 5; // seconds that a clock may differ between two looks without having been set
const SUDDEN = 300; // seconds from one look to the next that are many: perhaps a clock was put right
const WRITING = 0.25; // seconds in which an answer is written down: where many are, none leaves before all of them may be
const PUNCTUAL = 1 / 30; // of the time in which hidden pages wake: a timer that is no later than that was not held up
const EARLIEST = 1_735_689_600; // the year 2025: a clock that says less was never set

const NEVER_SET = "the clock was never set";

const clock = () => Date.now() / 1000;
const bytesOf = (text) => new TextEncoder().encode(text);
const isHere = ({ hostname }) => ["127.0.0.1", "localhost", "[::1]"].includes(hostname);
const within = (value, least, most) => typeof value === "number" && value >= least && value <= most;

function check(holds, complaint) {
  if (!holds) throw new TypeError(complaint);
}

/**
 * Take a row whose time has come further; tell whether it leaves now. Its jitter begins at report_at and is at least a
 * minute; it leaves in the minute after that, at a random moment. Browsers wake a hidden page once a minute, at a random
 * moment of it: such a one leaves then. So both come alike, and nobody sees who looks at another page, perhaps because of a
 * click. Only demonstrations have less than a minute for each.
 */
function leaves(row, at, isNewVisit, others) {
  const wake = Math.min(row.step, WAKE);
  const punctual = wake * PUNCTUAL;
  const spread = punctual + wake * chance();
  if (row.state === WAITING) {
    row.state = FIXED;
    row.due += wake + (row.step - wake) * chance() + others * Math.min(WRITING, wake);
    if (at < row.due) return false;
    isNewVisit = true; // as good as one: nothing ran here for a long time
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

/** An arm to show; `report` a reward in [0, 1]: it is masked, to leave later. The first counts, until report_at. */
function decided({ arm, payload = null, why, epsilon }, keep = () => false) {
  const told = { arm, payload, participates: !why, why, epsilon: why ? 0 : epsilon / MILLION };
  return Object.freeze({ ...told, report: async (reward) => keep(bitOf(reward)) });
}

/** What runs on a page, for one experiment of one server. */
export class Device {
  #url; #experiment; #own; #terms; #headers; #jitter; #timeout; #store; #change;
  #cost = 0; #quiet = 0; #isNew = true; #trouble = ""; #timer = null; #isClosed = false;

  /** All reports together may cost the `cap` (`per` a time), and one of them `maxEpsilon`, whatever the server says. */
  constructor(url, experiment, { cap, maxEpsilon, per = null, groups = null, group = null, ...others }) {
    const { key = null, timeout = 10, background = true, store = inBrowser(), change = false } = others;
    const { demonstration = false, jitter = FLOORS.jitter } = others;
    const floors = demonstration ? DEMONSTRATION : FLOORS;
    const address = new URL(url, globalThis.location?.href);
    const extras = address.username + address.password + address.search + address.hash;
    const [, many, unit] = /^([1-9][0-9]{0,8}) *(week|day|hour|minute|second)s?$/.exec(per) ?? [];
    check(/^https?:$/.test(address.protocol) && !extras, "url: give an address such as https://bandits.example.org");
    check(isLine(experiment), "experiment: give its name");
    check(within(cap, 0, 1e9), "cap: give a number of at least 0");
    check(asEpsilon(maxEpsilon) > 0, "maxEpsilon: give a number from 0.000001 to 16");
    check(per === null || many, "per: give a time such as '30 days'");
    check(within(jitter, floors.jitter, DAY), `jitter: give seconds, from ${floors.jitter} to a day`);
    check(!demonstration || isHere(address), "demonstration: it is for services on this machine, at 127.0.0.1 or localhost");
    check(within(timeout, 1e-3, 3600), "timeout: give seconds, at most an hour");
    const isOneOf = Array.isArray(groups) && new Set(groups).size === groups.length && groups.includes(group);
    check(groups === null || isOneOf, "groups: give a list of names, and the person's own among them as group");
    filled(new Uint8Array(1)); // throws where nothing could be masked
    this.#url = address.origin + address.pathname.replace(/\/+$/, "");
    this.#own = { most: asEpsilon(maxEpsilon), groups, group, floors };
    this.#headers = { "Content-Type": "application/json", ...(key === null ? {} : { Authorization: `Bearer ${key}` }) };
    this.#terms = { cap: inMillionths(cap), per: per === null ? 0 : many * UNITS[unit] };
    this.#change = change;
    this.#experiment = experiment;
    this.#jitter = jitter;
    this.#timeout = timeout;
    this.#store = store;
    if (background) this.#run();
  }

  /** Ask which arm to show; the fallback, if the server is away. The same visitor gets the same arm, and pays once. */
  async decide({ visitor, eligibleArms, fallback = null } = {}) {
    const areNames = Array.isArray(eligibleArms) && eligibleArms.length > 0 && eligibleArms.every(isLine);
    check(eligibleArms === undefined || areNames, "eligibleArms: give a list of names");
    check(visitor === undefined || (visitor && typeof visitor === "string"), "visitor: give a text");
    let pseudonym;
    let away = await this.#tried(() => this.#takesNoPart());
    if (visitor !== undefined) {
      away = await this.#tried(async () => {
        pseudonym = await this.#pseudonym(visitor);
        return away;
      });
    }
    let isOpen = false; // a decision that is paid for and can still be rewarded: its token is needed again
    if (away && pseudonym) await this.#tried(async () => void (isOpen = await this.#isOpen(pseudonym)));
    const question = { ...(away && !isOpen && { participate: false }), eligible_arms: eligibleArms };
    if (pseudonym !== undefined) question.visitor = pseudonym;
    let offer;
    try {
      const answer = await this.#post(`/v1/experiments/${encodeURIComponent(this.#experiment)}/decisions`, question);
      offer = readOffer(answer, eligibleArms, this.#own);
    } catch (error) {
      if (!(error instanceof Away)) throw error;
      return decided({ arm: fallback, why: error.message });
    }
    this.#cost = offer.epsilon;
    if (offer.why || !crypto.subtle) return decided({ ...offer, why: away || offer.why });
    const name = hex(new Uint8Array(await crypto.subtle.digest("SHA-256", bytesOf(offer.token)))).slice(0, 32);
    const why = await this.#tried(() => this.#promised(name, offer, pseudonym));
    if (why) return decided({ ...offer, why });
    return decided(offer, (bit) => this.#rewarded(name, masked([bit], offer)[0]));
  }

  /** Send the reports whose time has come; return how many were answered for good. A page does it by itself. */
  async sendDue() {
    const answers = await Promise.all(await this.#look());
    return answers.filter((isFinal) => isFinal === true).length;
  }

  /** What is left of the cap. */
  async remaining() {
    return (await this.#left()) / MILLION;
  }

  /** Stop sending; what has not left yet leaves after the next visit begins. */
  close() {
    this.#isClosed = true;
    clearTimeout(this.#timer);
  }

  /** Flip n times on this page, and tell what that hides, beside what is promised. */
  proveIt(n, where) {
    return proveIt(n, this.#own.most / MILLION, where);
  }

  async #run() {
    const trouble = await this.#tried(() => this.#look().then(() => "")); // a slow answer holds up no other report
    await this.#plan(trouble ? LOOK : 0); // what could not be written stays due: not again at once
  }

  /** Send what leaves now, and fix what has to be; return what is on its way. Nothing of a reward holds up what leaves. */
  async #look() {
    const at = clock();
    if (at < EARLIEST || this.#isClosed) return [];
    const leaving = await this.#store.locked(() => this.#leaving(at));
    const sending = leaving.map(([name, row]) => this.#tried(() => this.#sent(name, row)));
    await this.#store.locked(() => this.#fix(at));
    this.#isNew = false; // what the visits before left behind has its delay now
    return sending;
  }

  /** Look again when something is due, and in any case now and then. */
  async #plan(least = 0) {
    let soonest = Infinity;
    await this.#tried(async () => {
      const rows = Object.values((await this.#store.get(BOOK))?.rows ?? {});
      soonest = Math.min(...rows.filter(({ url }) => url === this.#url).map(({ due }) => due));
    });
    clearTimeout(this.#timer);
    if (this.#isClosed) return;
    const wait = Math.min(Math.max(soonest - clock(), least), LOOK);
    this.#timer = setTimeout(() => this.#run(), Math.ceil(1000 * wait)); // timers drop fractions, and would run too early
    this.#timer.unref?.(); // Node may end
  }

  async #post(path, content, blanks = 0) {
    const quiet = this.#quiet - clock();
    if (quiet > 0 && quiet <= MAX_QUIET) throw new Away("the server has asked to be left alone for a while");
    const options = { redirect: "error", credentials: "omit", cache: "no-store", referrerPolicy: "no-referrer" };
    const signal = AbortSignal.timeout(1000 * this.#timeout);
    const body = JSON.stringify(content) + " ".repeat(blanks);
    const question = { method: "POST", headers: this.#headers, body, signal, ...options };
    let answer;
    let text;
    try {
      answer = await fetch(this.#url + path, question);
      text = await textOf(answer);
    } catch (error) {
      if (error instanceof Away) throw error;
      throw new Away(`the server is away, or slower than ${this.#timeout} s: ${error?.name}`);
    }
    const wait = Number(answer.headers.get("retry-after"));
    const date = Date.parse(answer.headers.get("date")) / 1000;
    if (wait > 0) this.#quiet = clock() + Math.min(wait, MAX_QUIET);
    try {
      return { status: answer.status, content: JSON.parse(text), date: date || clock() }; // clocks may be hours apart
    } catch {
      throw new Away("the server's answer is not JSON");
    }
  }

  /** What is kept, begun if there is none. A clock that was never set moves nothing. */
  async #book(at) {
    const empty = { ...this.#terms, total: 0, payments: [], rows: {}, seen: at, back: 0 };
    const book = (await this.#store.get(BOOK)) ?? { ...empty, secret: filled(new Uint8Array(32)) };
    if (at >= EARLIEST) followClock(book, at);
    return book;
  }

  /** Hold the book to the terms that were promised, before anything is paid: what was paid for is sent in any case. */
  #agree(book, at) {
    if (this.#change && book.per !== this.#terms.per) {
      const counts = this.#terms.per > book.per ? book.total : spent(book, at); // what is old may count again
      book.payments = [[dated(book, at), counts]];
    }
    if (this.#change) Object.assign(book, this.#terms);
    if (this.#terms.cap > book.cap || this.#terms.per !== book.per) {
      throw new Trouble("another cap was promised here: keep to it, or to a lower one, or give change: true once");
    }
  }

  /** What is left of the cap, in whole millionths, as far as this clock knows. */
  async #left() {
    return this.#store.locked(async () => {
      const book = await this.#book(clock());
      this.#agree(book, clock());
      if (this.#change) await this.#store.put([[BOOK, book]]);
      return Math.max(Math.min(this.#terms.cap, book.cap) - spent(book, clock()), 0);
    });
  }

  /** Why no report can be promised, as far as that is known before it is asked for. */
  async #takesNoPart() {
    if (clock() < EARLIEST) return NEVER_SET;
    if (this.#isClosed) return "this device is closed";
    if (!crypto.subtle) return "browsers keep crypto.subtle to https pages, and nothing is remembered without it";
    const left = await this.#left();
    if (left > 0 && left >= this.#cost) return "";
    return `${left / MILLION} is left of the cap of ${this.#terms.cap / MILLION}, and a report costs more`;
  }

  /** Whether a decision of this visitor can still be rewarded. */
  async #isOpen(visitor) {
    const rows = Object.values((await this.#store.get(BOOK))?.rows ?? {});
    return rows.some((row) => row.url === this.#url && row.visitor === visitor && row.state === WAITING);
  }

  /** Pay for a report and promise it; return why not, if so. A token that comes again is the same promise. */
  #promised(name, offer, visitor) {
    const { token, epsilon, answers, reportIn, expiresIn, date } = offer;
    const at = clock();
    const [silent] = masked([0], offer); // is said if no reward comes; so the group is not kept
    return this.#store.locked(async () => {
      const book = await this.#book(at);
      const row = book.rows[name];
      if (row) return row.epsilon === epsilon && row.answers === answers ? "" : "the server has changed its terms";
      if ((await this.#store.get(name)) !== undefined) return "this decision was reported already, and each is once";
      if (at < EARLIEST) return NEVER_SET;
      if (offer.faultOfTimes) return offer.faultOfTimes;
      if (date > at + 366 * DAY) return "the server's clock is more than a year ahead"; // what is paid then would never be old
      this.#agree(book, at);
      const earlier = Math.min(at, date);
      if (spent(book, earlier) + epsilon > Math.min(this.#terms.cap, book.cap)) return "a report would pass the cap";
      book.total += epsilon;
      book.payments = book.per ? [...counting(book, earlier), [dated(book, Math.max(at, date)), epsilon]] : [];
      const step = Math.min(this.#jitter, (expiresIn - reportIn) / 4); // of an hour at least, unless it is a demonstration
      const times = { due: at + reportIn, step, expires: at + expiresIn, tries: 0, late: 0 };
      const asked = { token, url: this.#url, visitor, epsilon, answers, isBit: !this.#own.groups };
      book.rows[name] = { ...asked, state: WAITING, ...times };
      await this.#store.put([[silence(name), silent], [BOOK, book]]);
      if (this.#timer !== null) queueMicrotask(() => this.#plan());
      return "";
    });
  }

  /** Keep a masked answer; tell whether it is the first, and not too late. */
  async #rewarded(name, answer) {
    let counts = false;
    await this.#tried(async () => {
      const isFirst = await this.#store.add(name, answer, silence(name));
      counts = isFirst && name in ((await this.#store.get(BOOK))?.rows ?? {});
    });
    return counts;
  }

  /** The rows that leave now, put off to their next try. What was tried often enough is given up. */
  async #leaving(at) {
    const book = await this.#book(at);
    const over = [];
    const leaving = [];
    for (const [name, row] of Object.entries(book.rows)) {
      const isForgotten = row.url !== this.#url && row.expires + LONGEST <= at; // no page has such a device any more
      if (isForgotten || row.tries >= MAX_TRIES || row.late >= MAX_LATE_TRIES) {
        over.push([name, SENT], [silence(name), SENT]);
        delete book.rows[name];
      } else if (row.url === this.#url && row.due <= at && row.state !== WAITING) {
        if (leaves(row, at, this.#isNew, 0)) leaving.push([name, this.#putOff(row, at)]);
      }
    }
    if (over.length || Object.keys(book.rows).length) await this.#store.put([...over, [BOOK, book]]);
    return leaving;
  }

  /** Fix the answers whose time has come: none is taken any more. */
  async #fix(at) {
    const book = await this.#book(at);
    const isWaiting = ([, row]) => row.url === this.#url && row.due <= at && row.state === WAITING;
    const waiting = Object.entries(book.rows).filter(isWaiting);
    for (const [name, row] of waiting) {
      const silent = await this.#store.get(silence(name));
      if (silent !== undefined) await this.#store.add(name, silent, silence(name)); // unless a reward came
      leaves(row, at, this.#isNew, waiting.length - 1); // not before its jitter is over
    }
    if (waiting.length) await this.#store.put([[BOOK, book]]);
  }

  /** Plan the next try. The end by this clock is not the end, since the clock may be wrong; but few tries follow it. */
  #putOff(row, at) {
    const isLate = row.expires <= at;
    const pause = isLate ? LAST : Math.min(FIRST * 2 ** row.tries, LAST);
    row.due = at + pause * (0.5 + chance() / 2);
    row.tries += 1;
    if (isLate) row.late += 1;
    return row;
  }

  /** Send a report; tell whether it was answered for good. */
  async #sent(name, { token, epsilon, answers, isBit }) {
    const answer = await this.#store.get(name); // kept when it was drawn: a retry says the same
    if (typeof answer !== "number" || this.#isClosed) return false;
    const report = { token, [isBit ? "bit" : "answer"]: answer, epsilon: epsilon / MILLION };
    const blanks = String(answers - 1).length - String(answer).length; // all reports of a token have the same length
    try {
      const { content } = await this.#post("/v1/reports", report, blanks);
      if (!FINAL.includes(content?.status)) return false;
    } catch (error) {
      if (!(error instanceof Away)) throw error;
      return false; // it is sent again later
    }
    await this.#store.locked(async () => {
      const book = await this.#book(clock());
      delete book.rows[name];
      await this.#store.put([[name, SENT], [BOOK, book]]);
    });
    return true;
  }

  /** A name that is the same for a visitor of this browser, and means nothing elsewhere, nor to another service. */
  async #pseudonym(visitor) {
    const secret = await this.#store.locked(async () => {
      const book = await this.#book(clock());
      await this.#store.put([[BOOK, book]]);
      return book.secret;
    });
    const key = await crypto.subtle.importKey("raw", secret, { name: "HMAC", hash: "SHA-256" }, false, ["sign"]);
    const signed = await crypto.subtle.sign("HMAC", key, bytesOf(`${this.#url}\n${this.#experiment}\n${visitor}`));
    return hex(new Uint8Array(signed)).slice(0, 32);
  }

  /** Do something with what is kept; what is wrong with that is returned, and said once until it works again. */
  async #tried(work) {
    try {
      const why = await work();
      this.#trouble = "";
      return why;
    } catch (error) {
      const before = this.#trouble;
      this.#trouble = error?.message || String(error); // of whatever kind: who sends must not die of it
      if (!before) console.warn(`this device takes no part: ${this.#trouble}`);
      return this.#trouble;
    }
  }
}

// ==== What follows is not needed to trust the mask: it keeps count, keeps what is written, and proves.

// ---- The clock, which may be wrong

/** What is left to wait stays as it is when the clock is set back, and when that is put right again. */
function followClock(book, at) {
  const rows = Object.values(book.rows);
  const jump = at - book.seen;
  if (rows.length === 0) book.back = 0;
  if (Math.abs(jump) <= UNSTEADY) return;
  let move = 0; // set ahead, or nobody looked for so long: who could tell
  if (jump < 0) move = jump;
  else if (jump >= Math.max(book.back - UNSTEADY, SUDDEN)) move = book.back;
  for (const row of rows) {
    row.due += move;
    row.expires += move;
  }
  book.back -= move;
  book.seen = at;
}

// ---- What was spent. A payment counts for one period from when it was made. It is dated by the later of this clock and the
// ---- server's, to the next whole second and never before another; it is judged by the earlier one. So a clock that is set
// ---- ahead makes no payment old as long as the server's is right, and one that is set back gives nothing back.

const UNITS = { week: 7 * DAY, day: DAY, hour: 3600, minute: 60, second: 1 };
const dated = (book, at) => book.payments.reduce((last, [moment]) => Math.max(last, moment), Math.floor(at) + 1);
const counting = (book, at) => book.payments.filter(([moment]) => moment + book.per > Math.floor(at));
const spent = (book, at) => (book.per ? counting(book, at).reduce((sum, [, cost]) => sum + cost, 0) : book.total);

// ---- What is kept: in IndexedDB, whose writes are whole or not at all and outlive a crash; local storage promises
// ---- neither. Web Locks let one tab at a time read what was spent, think, and write.

class Trouble extends Error {} // with what is kept

/** What a browser keeps for a site: all its pages share one cap. */
export function inBrowser(name = "maskedbandits") {
  const opening = new Promise((done, failed) => {
    if (!globalThis.indexedDB || !globalThis.navigator?.locks || !globalThis.crypto.subtle) {
      throw new Trouble("nothing can be kept here: open the page over https, with storage allowed");
    }
    const request = indexedDB.open(name, 1);
    request.onupgradeneeded = () => request.result.createObjectStore("kept");
    request.onerror = () => failed(request.error);
    request.onsuccess = () => done(request.result);
  }).then((database) => {
    database.onversionchange = () => database.close(); // it is being cleared: this page takes no part any more
    return database;
  });
  const told = (error) => {
    throw error instanceof Trouble ? error : new Trouble(`nothing can be kept here: ${error?.name}`, { cause: error });
  };
  opening.catch(() => undefined); // told to whoever asks for something
  const asked = async (mode, work) => {
    const database = await opening.catch(told);
    return new Promise((done, failed) => {
      const transaction = database.transaction("kept", mode, { durability: "strict" });
      const request = work(transaction.objectStore("kept"));
      transaction.oncomplete = () => done(request.result);
      transaction.onabort = () => failed(transaction.error);
      transaction.commit(); // at once: the page may be gone the next moment
    }).catch(told);
  };
  return {
    get: (key) => asked("readonly", (kept) => kept.get(key)),
    put: (entries) => asked("readwrite", (kept) => entries.map(([key, value]) => kept.put(value, key)).at(-1)),
    add: async (key, value, instead) => {
      try {
        return Boolean(await asked("readwrite", (kept) => (instead && kept.delete(instead), kept.add(value, key))));
      } catch (error) {
        if (error.cause?.name !== "ConstraintError") throw error;
        return false; // something is there already, and stays
      }
    },
    locked: async (work) => {
      await opening.catch(told);
      return navigator.locks.request(name, { signal: AbortSignal.timeout(10_000) }, work).catch((error) => {
        throw error?.name === "TimeoutError" ? new Trouble("another page has been writing for 10 s") : error;
      });
    },
  };
}

/** Forgotten with the process, and the cap with it: for programs without a browser. */
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

// ---- Proof, for whoever looks at the page

/** The ends of an interval that misses a probability at most twice in 1/level: Chernoff's bound, for any n. */
export function interval(hits, n, level) {
  const share = hits / n;
  const term = (a, b) => (a === 0 ? 0 : a * Math.log(a / b));
  const isFar = (p) => n * (term(share, p) + term(1 - share, 1 - p)) > Math.log(1 / level);
  const edge = (end) => {
    if (share === end) return end;
    let near = share;
    let out = end;
    for (let i = 0; i < 60; i++) { // halved until floats end; what is not surely too far belongs to it
      const middle = (near + out) / 2;
      if (isFar(middle)) out = middle;
      else near = middle;
    }
    return out;
  };
  return [edge(0), edge(1)];
}

/** Mask n bits as reports are, half of them 0 and half 1, and tell the epsilon that is seen, with 99 % confidence. */
export function proveIt(n, epsilon, where = null) {
  check(Number.isInteger(n) && n >= 2 && n <= 1e9, "n: give a whole number of flips, at least 2");
  const promise = asEpsilon(epsilon);
  const half = Math.ceil(n / 2);
  const ones = [0, 0]; // of so many zeros, and of so many ones
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
  const told = (number) => (Number.isFinite(number) ? number.toFixed(4) : "more than so few flips can tell");
  const text = `${proof.flips} flips: epsilon ${told(proof.measured)}, between ${told(proof.low)} and ${told(proof.high)} `
    + `with 99 % confidence; promised is at most ${proof.promise}, which ${holds ? "they do not contradict" : "IS NOT TRUE"}`;
  if (where) where.textContent = text;
  return { ...proof, holds, toString: () => text };
}
