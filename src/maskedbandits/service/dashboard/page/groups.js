// The best arm of each group: a table of groups, with all arms of each in a folded table.
import { Table, element, once, percent, reward, say } from "./elements.js";

const HEADS = ["Group", "Best arm", "Estimated reward", "Chosen next", "Share"];
const EVERY = ["Group", "Arm", "Estimated reward", "Chosen next"];
const NOTHING = { place: 0, low: null, estimate: null, high: null };

export class Groups {
  constructor() {
    this.best = new Table("Groups");
    this.every = new Table("All arms of each group");
    this.box = element("div", { class: "groups", hidden: true }, this.best.box,
      element("details", {}, element("summary", {}, "All arms of each group"), this.every.box));
  }

  show(groups) {
    this.box.hidden = false;
    this.best.show(HEADS, groups.map(({ name }) => name), (cells, place) => this.group(groups[place], cells));
    const pairs = groups.flatMap(({ name, arms }) => arms.map((arm) => [name, arm]));
    this.every.show(EVERY, pairs.map(([name, arm]) => JSON.stringify([name, arm.place])), (cells, place) => this.arm(...pairs[place], cells));
  }

  group({ name, best, clear, share }, [group, arm, value, chosen, size]) {
    say(group, name);
    arm.className = "arm";
    const [which, doubt] = once(arm, () => [element("span"), element("span", { class: "low-high" })]);
    say(which, best === null ? "–" : best.name);
    say(doubt, clear || best === null ? "" : " (not clear yet)");
    reward(value, best ?? NOTHING);
    say(chosen, percent(best === null ? null : best.probability));
    say(size, percent(share));
  }

  arm(name, arm, [group, which, value, chosen]) {
    say(group, name);
    which.className = "arm";
    say(which, arm.name);
    reward(value, arm);
    say(chosen, percent(arm.probability));
  }
}
