// Times of conversations and turns, in the language and zone of the browser.

const DAY = 86_400_000;
const TIME = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit" });
const WEEKDAY = new Intl.DateTimeFormat(undefined, { weekday: "short", hour: "2-digit", minute: "2-digit" });
const DATE = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short", year: "numeric" });

/** Return a time in seconds as text: the hour today, the day this week, else the date. */
export function clock(seconds, now = Date.now()) {
  const time = new Date(seconds * 1000);
  const today = new Date(now).toDateString() === time.toDateString();
  if (today) return TIME.format(time);
  return now - time.getTime() < 6 * DAY ? WEEKDAY.format(time) : DATE.format(time);
}
