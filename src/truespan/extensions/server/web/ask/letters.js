// Finding text of an answer in its elements. Markdown signs and line breaks are not in what is shown;
// letters and digits are.

const LETTER = /[\p{L}\p{N}]/u;

/** Return the letters and digits of a text. */
export const plain = (text) => text.split("").filter((sign) => LETTER.test(sign)).join("");

/** Return every letter and digit below a node, with its text node and its place in that. */
export function lettersOf(root) {
  const found = [];
  const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    if (node.parentElement.closest(".tip")) continue;
    for (let at = 0; at < node.data.length; at += 1) {
      if (LETTER.test(node.data[at])) found.push({ node, at, sign: node.data[at] });
    }
  }
  return found;
}

/** Split a text node; letters of what follows point at the new node. */
export function split(letters, node, end) {
  const rest = node.splitText(end);
  for (const one of letters) {
    if (one.node === node && one.at >= end) Object.assign(one, { node: rest, at: one.at - end });
  }
  return rest;
}

const INLINE = ["em", "strong", "code", "s", "a", ".cite", ".unsupported"].join();

/** Put a mark behind the last letter of a sentence, its emphasis or link, and its punctuation. */
export function putBehind(letters, last, mark) {
  let before = letters[last].node;
  for (;;) {
    const next = before.nextSibling;
    if (next?.nodeType === Node.TEXT_NODE) {
      const signs = next.data.match(/^[\])}.,;:!?…“”‘’"'«»‹›」』]*/)[0].length;
      if (signs < next.length && signs) split(letters, next, signs);
      else if (!signs && next.length) break;
      before = next;
    } else if (!next && before.parentElement.matches(INLINE)) before = before.parentElement;
    else break;
  }
  before.after(mark);
}
