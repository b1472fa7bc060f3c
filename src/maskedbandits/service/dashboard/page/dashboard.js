// The dashboard: asks for a key if needed, and shows all experiments or one of them.
import { follow, key, page } from "./requests.js";
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

// All experiments

const WORDS = { suspect: "suspect reports", held_back: "reports held back", silent: "no reports come",
  bias: "estimates may be biased", stuck: "a stuck policy", aside: "not followed" };
const concerns = (one) => [...new Set(one.concerns.map(({ kind }) => WORDS[kind]))].join(", ") || "nothing";

const HEADS = ["Experiment", "Status", "To look into", "Reports", "Arms", "Changes", "ε"];

function list() {
  const table = new Table("Experiments"), none = element("p"), trouble = element("p", { class: "said", role: "status" });
  table.box.classList.add("experiments");
  table.box.hidden = true;
  main.replaceChildren(head("Experiments"), trouble, none, table.box);
  follow("v1/live", (event, told) => {
    if (event !== "experiments") return;
    say(trouble, told.trouble);
    say(none, told.experiments.length ? "" : "No experiments yet. Create one with POST /v1/experiments.");
    none.hidden = !(table.box.hidden = !told.experiments.length);
    table.show(HEADS, told.experiments.map(({ name }) => name), (cells, place) => line(told.experiments[place], cells));
  });
}

function line(one, [name, state, look, ...numbers]) {
  once(name, () => [element("a", { href: `#${one.name}` }, one.name)]);
  const [badge] = once(state, () => [element("span")]);
  badge.className = `status ${one.status}`;
  say(badge, one.status);
  look.className = one.concerns.length ? "wide said" : "wide";
  say(look, concerns(one));
  const told = [one.reports, one.arms, one.alarms].map((count) => (count === undefined ? "–" : whole(count)));
  [...told, one.epsilon === undefined ? "–" : String(one.epsilon)].forEach((text, place) => say(numbers[place], text));
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
