// The texts of the page in one language: the one chosen in the settings, else one that the browser
// asks for, else English. Each language is a table in `texts/`.
//
// "{count} files" has placeholders: it becomes a function of their values, and writes numbers as the
// language does. A table with "other" has plural forms, which `count` chooses.

import { remember, remembered } from "./storage.js";

const KEY = "truespan.language";
const PLACEHOLDER = /\{(\w+)\}/g;

/** The languages that have a table. */
export const LANGUAGES = ["en", "de"];

/** Return the name of a language, in that language or in another. */
export function languageName(code, inLanguage = code) {
  try {
    return new Intl.DisplayNames([inLanguage], { type: "language" }).of(code);
  } catch {
    // A document may declare a language that is none.
    return code;
  }
}

/** Return the language of the settings; an empty string is the browser's. */
export const chosenLanguage = () => (LANGUAGES.includes(remembered(KEY)) ? remembered(KEY) : "");

/** Keep a language for the next load of the page; an empty string follows the browser. */
export const keepLanguage = (name) => remember(KEY, name);

const base = (tag) => tag.toLowerCase().split("-")[0];
const wished = navigator.languages.find((tag) => LANGUAGES.includes(base(tag)));

/** The language of the page. */
export const language = chosenLanguage() || (wished ? base(wished) : "en");

/** The language with the region that the browser names, for numbers and dates. */
export const locale = navigator.languages.find((tag) => base(tag) === language) || language;

const numbers = new Intl.NumberFormat(locale);
const plurals = new Intl.PluralRules(locale);

function written(text, values) {
  return text.replace(PLACEHOLDER, (_, name) => {
    if (!Object.hasOwn(values, name)) throw new Error(`no value for {${name}} in: ${text}`);
    return typeof values[name] === "number" ? numbers.format(values[name]) : String(values[name]);
  });
}

/** Return a table with its placeholders and plural forms as functions. */
function compiled(entry) {
  if (typeof entry === "string") return entry.search(PLACEHOLDER) < 0 ? entry : (values) => written(entry, values);
  if (Array.isArray(entry)) return entry.map(compiled);
  if ("other" in entry) return (values) => written(entry[plurals.select(values.count)] ?? entry.other, values);
  return Object.fromEntries(Object.entries(entry).map(([name, one]) => [name, compiled(one)]));
}

const table = await fetch(new URL(`../texts/${language}.json`, import.meta.url));

/** The texts, by view. */
export const texts = compiled(await table.json());
document.documentElement.lang = language;

/** Return what the server said, in the language of the page as far as its code is known; its own words say more. */
export function translated(table, code, said) {
  const known = Object.hasOwn(table, code) ? table[code] : "";
  return language === "en" ? said || known : known || said;
}
