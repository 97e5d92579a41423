// Every English text of the page, by view. To translate the page, translate this file.
// A text with a number or a name in it is a function.

export const texts = {
  common: {},
  start: {},
  ask: {},
  reading: {},
  library: {},
  compare: {},
  evaluate: {},
};
