/** The public interface of the browser's device; docs/browser_client.md explains it. */

/** Where the device stores its data: `inBrowser()` by default. */
export interface Store {
  get(key: string): Promise<unknown>;
  put(entries: [key: string, value: unknown][]): Promise<unknown>;
  /** Write a value unless there is one, and delete the one at `instead`, both or neither; tell whether it was written. */
  add(key: string, value: unknown, instead?: string): Promise<boolean>;
  /** Work while no other tab does; give up waiting at the signal. */
  locked<T>(work: () => Promise<T>, signal?: AbortSignal): Promise<T>;
}

export interface DeviceOptions {
  /** The limit of the cost of all reports ... */
  cap: number;
  /** ... in any period such as "30 days"; for ever by default. */
  per?: string | null;
  /** The limit of the cost of one report, whatever the server says: 0.000001 to 16. */
  maxEpsilon: number;
  /** A key with the role device, if the service needs one. It is part of the page, so it is public. */
  key?: string | null;
  /** Names of the groups of an experiment with private groups, as the experiment has them ... */
  groups?: readonly string[] | null;
  /** ... and the person's own group, which stays on the device. */
  group?: string | null;
  /** A report leaves between a minute and this number of seconds plus a minute after report_at; at least 60. */
  jitter?: number;
  /** Seconds for a decision: 0.5, after which the fallback is shown. Reports have at least 10. */
  timeout?: number;
  /** Whether decisions without a `visitor` have a random name of this browser, so that a reload shows the same arm: true. */
  sticky?: boolean;
  /** The path of report-worker.js on your site, which sends reports when the page is gone; none by default. */
  worker?: string | null;
  /** Whether it sends on its own; otherwise call `sendDue()` now and then. */
  background?: boolean;
  store?: Store;
  /** Whether cap and per replace those promised before. */
  change?: boolean;
  /** For demonstrations and tests on this machine: reports may leave within seconds, and their time reveals clicks. */
  demonstration?: boolean;
}

export interface Question {
  /** A name of the person for this browser; a pseudonym is sent. */
  visitor?: string;
  eligibleArms?: readonly string[];
  /** The arm to show without a server. */
  fallback?: string | null;
}

export interface Decision<Payload = unknown> {
  readonly arm: string | null;
  readonly payload: Payload | null;
  readonly participates: boolean;
  /** Why the device takes no part; empty if it does. */
  readonly why: string;
  /** The epsilon of the report, which is its cost; 0 without a report. */
  readonly epsilon: number;
  /** Mask a reward in [0, 1] and send it later; tell whether it counts: the first does, until report_at. */
  report(reward: number | boolean): Promise<boolean>;
}

export interface Proof {
  readonly flips: number;
  readonly promise: number;
  readonly measured: number;
  readonly low: number;
  readonly high: number;
  /** Whether the measurement is consistent with the promise. */
  readonly holds: boolean;
  toString(): string;
}

export class Device {
  constructor(url: string | URL, experiment: string, options: DeviceOptions);
  decide<Payload = unknown>(question?: Question): Promise<Decision<Payload>>;
  /** Take over an offer that your own server asked the service for: the service's reply. */
  adopt<Payload = unknown>(offer: unknown): Promise<Decision<Payload>>;
  /** Send the reports that are due; return how many got a final reply. */
  sendDue(): Promise<number>;
  /** The rest of the cap. */
  remaining(): Promise<number>;
  close(): void;
  proveIt(n: number, where?: { textContent: string | null } | null): Proof;
}

export function inBrowser(name?: string): Store;
export function inMemory(): Store;
export function proveIt(n: number, epsilon: number, where?: { textContent: string | null } | null): Proof;

/** The parts of the mask, for tests and audits. Epsilons are whole millionths here. */
export function asEpsilon(value: unknown): number;
export function threshold(millionths: number, answers?: number): bigint;
export function answerOf(truth: number, answers: number, each: bigint, word: bigint): number;
export function bitOf(reward: number | boolean, word?: bigint): 0 | 1;
export interface Answers {
  answers: number;
  truthOf(bit: number): number;
}
export function masked(bits: readonly number[], question: Answers & { epsilon: number }): number[];
export function questionOf(groups: number, own?: number, signs?: readonly number[] | null): Answers;
/** The offer in a server's reply; `why` says why it cannot be used. */
export function readOffer(
  content: unknown,
  among: readonly string[] | undefined,
  own: { most: number; groups: readonly string[] | null; group: string | null },
  age?: number,
): Answers & { epsilon: number; arm: string; why: string };
export function interval(hits: number, n: number, level: number): [number, number];
