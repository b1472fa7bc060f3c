/**
 * A service worker of your site that sends reports at their time, also when the page is gone. It is optional: put it beside
 * client.js on your own site, and give its path to the Device: `new Device(url, name, { worker: "/report-worker.js", ... })`.
 *
 * A page writes to it at a decision, never at a click, and says where to send. The reports are in the storage that both
 * share, with their times. So whether the page or the worker sends, a report leaves at the time that was fixed before the reward.
 * Its scope is this file alone: it sees no requests of your site, and stands in the way of no other service worker.
 */
import { Device } from "./client.js";

const LIFE = 290; // seconds for one message: browsers end longer work, Chromium after 300
const devices = new Map(); // by service

self.addEventListener("install", () => self.skipWaiting());
self.addEventListener("message", (event) => event.waitUntil(sendFor(event.data)));

async function sendFor({ url, experiment, key, demonstration }) {
  const known = devices.get(url);
  const device = known?.device ?? new Device(url, experiment, { cap: 0, maxEpsilon: 1, key, demonstration }); // promises nothing
  const own = { device };
  devices.set(url, own);
  await new Promise((done) => setTimeout(done, 1000 * LIFE));
  if (devices.get(url) !== own) return; // a later message goes on
  devices.delete(url);
  device.close();
}
