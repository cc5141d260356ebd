import { useEffect, useRef } from "react";

/** Whether a key belongs to what has the focus: a field, a menu, a dialog. A checkbox takes none but Space. */
export function isTyping(target: EventTarget | null): boolean {
  if (!(target instanceof HTMLElement)) return false;
  return (
    target.isContentEditable ||
    target.closest(
      "input:not([type=checkbox]), textarea, select, [role=dialog], [role=alertdialog], [role=menu], [role=listbox], [role=combobox]",
    ) !== null
  );
}

type Handler = (event: KeyboardEvent) => void;

const handlers: { current: Handler }[] = [];

/** What came last is asked first: an open detail before the page that holds it. */
function dispatch(event: KeyboardEvent) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  for (const handler of [...handlers].reverse()) {
    if (event.defaultPrevented) return;
    handler.current(event);
  }
}

/** Calls the handler for keys without modifiers that nothing else has taken. */
export function useHotkey(handler: Handler) {
  const latest = useRef(handler);
  useEffect(() => {
    latest.current = handler;
  });
  useEffect(() => {
    if (handlers.length === 0) window.addEventListener("keydown", dispatch);
    handlers.push(latest);
    return () => {
      handlers.splice(handlers.indexOf(latest), 1);
      if (handlers.length === 0) window.removeEventListener("keydown", dispatch);
    };
  }, []);
}

/** Calls the handler for a key with Ctrl or Cmd wherever the focus is. */
export function useShortcut(key: string, handler: () => void) {
  const latest = useRef(handler);
  useEffect(() => {
    latest.current = handler;
  });
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      if (
        event.key.toLowerCase() !== key ||
        event.ctrlKey === event.metaKey ||
        event.altKey ||
        event.shiftKey
      )
        return;
      event.preventDefault();
      latest.current();
    };
    window.addEventListener("keydown", onKey);
    return () => window.removeEventListener("keydown", onKey);
  }, [key]);
}
