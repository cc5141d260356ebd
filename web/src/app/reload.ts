/** How long, in milliseconds, the page does not reload itself again. */
const pause = 60_000;
const key = "reloadedAt";

/**
 * Reloads the page when a part of it could not be loaded, because the operator was updated or the network changed. A part that is missing for good shows
 * the error page: the page reloads itself at most once per minute.
 */
export function reloadOnce(reload = () => window.location.reload(), now = Date.now()) {
  try {
    const last = Number(window.sessionStorage.getItem(key) ?? -pause);
    if (now - last < pause) return;
    window.sessionStorage.setItem(key, String(now));
  } catch {
    return; // Without storage, it could reload for ever.
  }
  reload();
}
