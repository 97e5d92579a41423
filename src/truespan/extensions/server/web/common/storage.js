// Choices that this browser remembers.

/** Return what this browser remembers under a name; an empty string if that is nothing. */
export function remembered(name) {
  try {
    return localStorage.getItem(name) || "";
  } catch {
    return "";
  }
}

/** Remember a value on this machine; an empty one is forgotten. */
export function remember(name, value) {
  try {
    if (value) localStorage.setItem(name, value);
    else localStorage.removeItem(name);
  } catch {
    // Without storage, the choice lasts until the page is left.
  }
}
