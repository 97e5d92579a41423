// Signing in, where the server asks for a token or refuses the one that was sent.

import { keepToken, token } from "../common/api.js";
import { byId } from "../common/dom.js";
import { on } from "../common/state.js";
import { texts } from "../common/texts.js";

let enter = () => {};

/** Show the screen; a token that was refused is not tried again. */
function show() {
  // Several requests may be refused at once; the first took the token away.
  if (!byId("view-signin").hidden && !token()) return;
  byId("signin-problem").textContent = token() ? texts.start.signInWrong : "";
  // A server on this machine may need no token; one that does has said so.
  byId("signin-skip").hidden = !token();
  keepToken("");
  document.body.dataset.view = "signin";
  byId("view-signin").hidden = false;
  byId("signin-token").value = "";
  byId("signin-token").focus();
}

/** Leave the screen after the server has accepted the caller. */
export function leave() {
  byId("view-signin").hidden = true;
  byId("signin-problem").textContent = "";
}

/** Call a function when a token was entered. */
export function onSignIn(does) {
  enter = does;
}

byId("signin-form").addEventListener("submit", (event) => {
  event.preventDefault();
  keepToken(byId("signin-token").value.trim());
  enter();
});
byId("signin-skip").addEventListener("click", () => {
  byId("signin-skip").hidden = true;
  byId("signin-problem").textContent = texts.start.signInLead;
  enter();
});
on("signin", show);
