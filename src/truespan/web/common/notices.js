// Error messages at the top of the page.

import { byId, button, fill, make } from "./dom.js";
import { emit } from "./state.js";
import { texts } from "./texts.js";

const ADVICE = {
  not_allowed: texts.common.notAllowed,
};

/** Show an error; `again` is what “Try again” does. */
export function complain(problem, again = null) {
  if (problem.name === "AbortError") return;
  if (problem.status === 401) return void emit("signin", problem);
  if (problem.name !== "Problem") console.error(problem);
  const words = problem.name === "Problem" ? problem.message : texts.common.pageFailed;
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
        again && button(texts.common.tryAgain, () => (clear(), again()), { class: "small" }),
        button(texts.common.close, clear, { class: "small quiet" }),
      ),
    ),
  );
}

/** Take the last failure away; what was asked since went well. */
export function clear() {
  fill(byId("alerts"));
}
