import { useMemo, useRef, useState } from "react";
import type { Image } from "@/gen/model";

/** The row of the table or of the cards that contains an element. */
const rowOf = (element: Element | null) => element?.closest<HTMLElement>("[data-index]") ?? null;

const focusTarget = (row: Element | null | undefined) =>
  row?.querySelector<HTMLElement>("[data-row-focus]") ?? null;

/** The action that removes an image from the list: the image to confirm, and the element that gets the focus afterwards. */
export function useRemoval(canRemove: boolean) {
  const [removal, setRemoval] = useState({ imageId: "", open: false });
  const row = useRef<{ element: HTMLElement; list: Element | null; index: number }>(undefined);
  const done = useRef(false);

  const onRemove = useMemo(() => {
    if (!canRemove) return undefined;
    return ({ imageId }: Image) => {
      const element = rowOf(document.activeElement);
      row.current = element
        ? { element, list: element.parentElement, index: Number(element.dataset.index) }
        : undefined;
      done.current = false;
      setRemoval({ imageId, open: true });
    };
  }, [canRemove]);

  /** The next row, or the previous one at the end of the list, as the row with the button is removed. */
  const focusAfter = (): HTMLElement | null => {
    if (!done.current || !row.current) return null;
    const { element, list, index } = row.current;
    const next = element.isConnected ? index + 1 : index;
    const at = (wanted: number) => focusTarget(list?.querySelector(`[data-index="${wanted}"]`));
    return at(next) ?? at(index - 1);
  };

  return {
    onRemove,
    dialog: {
      ...removal,
      onOpenChange: (open: boolean) => setRemoval((before) => ({ ...before, open })),
      onRemoved: () => {
        done.current = true;
      },
      focusAfter,
    },
  };
}
