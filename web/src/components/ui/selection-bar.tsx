import { X } from "lucide-react";
import { useRef, type ReactNode } from "react";
import { isTyping, useHotkey } from "@/lib/keyboard";
import { Button } from "./button";
import type { Selection } from "./selection";

/** Says how many rows are selected, and what can be done with them; the key A leads to it. It floats, so that no row moves. */
export function SelectionBar<Row>({
  label,
  selection: { selected, listed, full, clear },
  count,
  children,
}: {
  /** Such as "Selected images". */
  label: string;
  selection: Selection<Row>;
  /** Such as "3 images". */
  count: string;
  children: ReactNode;
}) {
  const bar = useRef<HTMLDivElement>(null);
  useHotkey((event) => {
    if (event.key !== "a" || isTyping(event.target) || !bar.current) return;
    event.preventDefault();
    bar.current.querySelector("button")?.focus();
  });
  const others = selected.length - listed;
  const text =
    selected.length === 0
      ? ""
      : `${count} selected${full ? ", the maximum" : ""}${others > 0 ? `, ${others} not in this list` : ""}`;
  return (
    <>
      <p role="status" className="sr-only">
        {text}
      </p>
      {selected.length > 0 && (
        <div
          ref={bar}
          role="region"
          aria-label={label}
          className="fixed inset-x-4 bottom-4 z-20 mx-auto flex w-fit max-w-[calc(100vw-2rem)] flex-wrap items-center gap-2 rounded-xl border border-accent bg-raised py-2 pr-2 pl-4 text-sm shadow-pop"
        >
          <p className="tabular mr-3 max-sm:basis-full">{text}</p>
          {children}
          <Button size="sm" variant="ghost" onClick={clear}>
            <X aria-hidden />
            Clear selection
          </Button>
        </div>
      )}
    </>
  );
}
