/** Show the view; called each time it is entered. */
export function show() {}
