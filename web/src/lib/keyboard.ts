import { useEffect, useRef } from "react";

/** Whether a key belongs to what has the focus: a field, a menu, a dialog. */
export function isTyping(target: EventTarget | null): boolean {
  if (!(target instanceof HTMLElement)) return false;
  return (
    target.isContentEditable ||
    target.closest(
      "input, textarea, select, [role=dialog], [role=alertdialog], [role=menu], [role=listbox], [role=combobox]",
    ) !== null
  );
}

/** Calls the handler for keys without modifiers that nothing else has taken. */
export function useHotkey(handler: (event: KeyboardEvent) => void) {
  const latest = useRef(handler);
  useEffect(() => {
    latest.current = handler;
  });
  useEffect(() => {
    const onKeyDown = (event: KeyboardEvent) => {
      if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
      latest.current(event);
    };
    window.addEventListener("keydown", onKeyDown);
    return () => window.removeEventListener("keydown", onKeyDown);
  }, []);
}
