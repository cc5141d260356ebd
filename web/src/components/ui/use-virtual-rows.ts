import { defaultRangeExtractor, useWindowVirtualizer, type Range } from "@tanstack/react-virtual";
import { useCallback, useEffect, useLayoutEffect, useRef, useState, type RefObject } from "react";
import { isTyping, useHotkey } from "@/lib/keyboard";

interface Options {
  container: RefObject<HTMLElement | null>;
  count: number;
  rowHeight: number;
  keyOf: (index: number) => string;
}

const rowFocus = "[data-row-focus]";
/** Height of what sticks to the top: the bar and the header of the table. */
const stickyTop = 100;

/** The rows in view, and moving over all of them by keyboard. */
export function useVirtualRows({ container, count, rowHeight, keyOf }: Options) {
  const [offset, setOffset] = useState(0);
  const [active, setActive] = useState(-1);

  useLayoutEffect(() => {
    const measure = () => {
      const element = container.current;
      if (element) setOffset(Math.round(element.getBoundingClientRect().top + window.scrollY));
    };
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(document.body);
    return () => observer.disconnect();
  }, [container]);

  const virtualizer = useWindowVirtualizer({
    count,
    estimateSize: useCallback(() => rowHeight, [rowHeight]),
    overscan: 12,
    scrollMargin: offset,
    scrollPaddingStart: stickyTop,
    scrollPaddingEnd: 16,
    getItemKey: keyOf,
    // The row that holds the focus stays in the document however far it is scrolled away.
    rangeExtractor: useCallback(
      (range: Range) => {
        const indexes = defaultRangeExtractor(range);
        if (active < 0 || active >= range.count || indexes.includes(active)) return indexes;
        return [...indexes, active].sort((a, b) => a - b);
      },
      [active],
    ),
  });

  // The estimate differs between rows and cards.
  useEffect(() => virtualizer.measure(), [virtualizer, rowHeight]);

  // The row that is about to get the focus: keys that are pressed before it is rendered count from it.
  const target = useRef(-1);

  const focusRow = useCallback(
    (index: number) => {
      setActive(index);
      target.current = index;
      virtualizer.scrollToIndex(index, { align: "auto" });
      let attempts = 0;
      const focus = () => {
        if (target.current !== index) return;
        const element = container.current?.querySelector<HTMLElement>(`[data-index="${index}"] ${rowFocus}`);
        if (!element && attempts++ < 10) return void requestAnimationFrame(focus);
        element?.focus({ preventScroll: true });
        target.current = -1;
      };
      requestAnimationFrame(focus);
    },
    [container, virtualizer],
  );

  const firstInView = () => {
    const top = window.scrollY + stickyTop;
    return virtualizer.getVirtualItems().find((item) => item.start >= top)?.index ?? 0;
  };

  useHotkey((event) => {
    const step = stepOf(event.key);
    if (step === 0 || count === 0 || isTyping(event.target)) return;
    const focused = target.current >= 0 ? target.current : focusedIndex(container.current);
    // Arrows scroll the page until a row has the focus; j and k always move.
    if (focused < 0 && event.key.startsWith("Arrow")) return;
    event.preventDefault();
    const from = focused >= 0 ? focused : firstInView() - step;
    focusRow(Math.min(count - 1, Math.max(0, from + step)));
  });

  return {
    items: virtualizer.getVirtualItems(),
    height: virtualizer.getTotalSize(),
    offset,
    measure: virtualizer.measureElement,
  };
}

/** The index of the row that contains the focus, or -1. */
const focusedIndex = (container: HTMLElement | null) =>
  container?.contains(document.activeElement)
    ? Number(document.activeElement?.closest("[data-index]")?.getAttribute("data-index") ?? -1)
    : -1;

function stepOf(key: string): -1 | 0 | 1 {
  if (key === "j" || key === "ArrowDown") return 1;
  return key === "k" || key === "ArrowUp" ? -1 : 0;
}
