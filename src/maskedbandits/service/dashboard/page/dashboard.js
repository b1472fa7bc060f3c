// The dashboard: asks for a key if needed, and shows all experiments or one of them.
import { follow, key, page, send } from "./requests.js";
import { Table, element, head, once, say, whole } from "./elements.js";
import { Page } from "./experiment.js";

const main = document.getElementById("main"), link = document.getElementById("link");
const enter = document.getElementById("enter"), forget = document.getElementById("forget");

page.say = (text) => say(link, text);
page.admitted = () => {
  say(link, "Live");
  enter.hidden = true;
  forget.hidden = key.get() === null;
};
page.refused = (error) => {
  say(link, "");
  if (error.status === 404) {
    main.replaceChildren(element("h1", {}, "Not here"), element("p", {}, error.message));
    return;
  }
  main.replaceChildren();
  const had = key.get() !== null;
  key.forget();
  forget.hidden = true;
  enter.hidden = false;
  document.getElementById("refused").textContent = had || error.status === 403 ? `Refused: ${error.message}` : "";
  document.getElementById("key").focus();
};

enter.addEventListener("submit", (event) => {
  event.preventDefault();
  const field = document.getElementById("key");
  const text = field.value.trim(), isOne = /^[!-~]+$/.test(text); // headers allow no other characters
  document.getElementById("refused").textContent = isOne ? "" : "That is no key: it begins with mb_.";
  field.value = "";
  if (!isOne) return;
  key.keep(text);
  route();
});
forget.addEventListener("click", () => { key.forget(); route(); });

// All experiments: those that are not archived from the stream, archived ones from pages of the list

const WORDS = { suspect: "suspect reports", unmasked: "reports without mask", surge: "a surge of reports",
  held_back: "reports held back", silent: "no reports come", bias: "estimates may be biased", stuck: "a stuck policy",
  aside: "not followed" };
const concerns = (one) => [...new Set(one.concerns.map(({ kind }) => WORDS[kind]))].join(", ") || "nothing";

const HEADS = ["Experiment", "Status", "To look into", "Reports", "Arms", "Changes", "ε"];
const ARCHIVED_HEADS = ["Experiment", "Policy", "Events", "Arms", "Created", "ε"];
const PAGE = 50; // archived experiments at once

function list() {
  const table = new Table("Experiments"), none = element("p"), trouble = element("p", { class: "said", role: "status" });
  const search = element("input", { type: "search", maxlength: "64", placeholder: "Search by name", "aria-label": "Search by name" });
  const archive = archived(search);
  let all = null;
  table.box.classList.add("experiments");
  table.box.hidden = true;
  const show = () => {
    if (all === null) return;
    const found = all.filter(({ name }) => name.includes(search.value.trim().toLowerCase()));
    say(none, found.length ? "" : all.length ? "No name contains this text." : "No experiments yet. Create one with POST /v1/experiments.");
    none.hidden = !(table.box.hidden = !found.length);
    table.show(HEADS, found.map(({ name }) => name), (cells, place) => line(found[place], cells));
  };
  search.addEventListener("input", () => { show(); archive.reload(); });
  main.replaceChildren(head("Experiments"), search, trouble, none, table.box, archive.box);
  follow("v1/live", (event, content) => {
    if (event !== "experiments") return;
    say(trouble, content.trouble);
    all = content.experiments;
    show();
  });
}

// Archived experiments, loaded when the section is opened.
function archived(search) {
  const table = new Table("Archived experiments"), said = element("p", { class: "said", role: "status" });
  const more = element("button", { type: "button", hidden: true, onclick: () => load() }, "Show more");
  const box = element("details", {}, element("summary", {}, "Archived experiments"), table.box, said, more);
  let found = [], next = null, turn = 0;
  table.box.hidden = true;
  async function load() {
    const own = ++turn, text = search.value.trim();
    const query = new URLSearchParams({ status: "archived", limit: PAGE, ...(text && { search: text }), ...(next && { cursor: next }) });
    try {
      const page = await (await send("GET", `v1/experiments?${query}`)).json();
      if (own !== turn) return; // the text has changed meanwhile
      found = [...found, ...page.experiments];
      next = page.next;
      say(said, found.length ? "" : "None.");
    } catch (error) {
      say(said, error.message);
    }
    table.box.hidden = !found.length;
    more.hidden = next === null;
    table.show(ARCHIVED_HEADS, found.map(({ name }) => name), ([name, ...cells], place) => {
      const one = found[place], created = one.created.slice(0, 10);
      once(name, () => [element("a", { href: `#${one.name}` }, one.name)]);
      [one.policy, whole(one.seq), whole(one.arms), created, String(one.epsilon)].forEach((text, cell) => say(cells[cell], text));
    });
  }
  const reload = () => { found = []; next = null; if (box.open) load(); };
  box.addEventListener("toggle", reload);
  return { box, reload };
}

function line(one, [name, state, look, ...numbers]) {
  once(name, () => [element("a", { href: `#${one.name}` }, one.name)]);
  const [badge] = once(state, () => [element("span")]);
  badge.className = `status ${one.status}`;
  say(badge, one.status);
  look.className = one.concerns.length ? "wide said" : "wide";
  say(look, concerns(one));
  const counts = [one.reports, one.arms, one.alarms].map((count) => (count === undefined ? "–" : whole(count)));
  [...counts, one.epsilon === undefined ? "–" : String(one.epsilon)].forEach((text, place) => say(numbers[place], text));
}

// The view: the name of an experiment is the fragment of the address, which is not sent to servers

function route() {
  main.replaceChildren();
  const name = location.hash.slice(1);
  if (name) new Page(name);
  else list();
  main.querySelector("h1")?.focus();
}

addEventListener("hashchange", route);
route();
