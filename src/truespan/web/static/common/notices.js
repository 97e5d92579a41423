// Error messages at the top of the page.

import { byId, button, fill, make } from "./dom.js";
import { emit } from "./state.js";

const ADVICE = {
  unauthorized: "Enter a valid token in the settings, or none.",
  not_allowed: "The current token does not allow this.",
};

/** Show an error; `again` is what “Try again” does. */
export function complain(problem, again = null) {
  if (problem.name === "AbortError") return;
  if (problem.name !== "Problem") console.error(problem);
  const words = problem.name === "Problem" ? problem.message : "This page failed; reload it.";
  const advice = problem.advice || ADVICE[problem.code] || "";
  fill(
    byId("alerts"),
    make(
      "div",
      { class: "notice", "data-code": problem.code || "page" },
      make("p", {}, make("strong", {}, words), advice && !words.includes(advice) && ` ${advice}`),
      make(
        "p",
        { class: "notice-tools" },
        make("code", {}, problem.code || "page"),
        problem.status === 401 && button("Settings", () => emit("settings"), { class: "small" }),
        again && button("Try again", () => (clear(), again()), { class: "small" }),
        button("Close", clear, { class: "small quiet" }),
      ),
    ),
  );
}

/** Take the last failure away; what was asked since went well. */
export function clear() {
  fill(byId("alerts"));
}
