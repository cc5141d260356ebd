import { AlertDialog as Base } from "@base-ui/react/alert-dialog";
import type { ReactNode } from "react";

interface Props {
  open: boolean;
  onOpenChange: (open: boolean) => void;
  title: string;
  children: ReactNode;
  actions: ReactNode;
  /** Returns the element that gets the focus when the dialog closes, or null for the one that had it before. */
  focusAfter?: () => HTMLElement | null;
}

export function AlertDialog({ open, onOpenChange, title, children, actions, focusAfter }: Props) {
  return (
    <Base.Root open={open} onOpenChange={onOpenChange}>
      <Base.Portal>
        <Base.Backdrop className="fixed inset-0 z-40 bg-black/45 transition-opacity duration-150 data-ending-style:opacity-0 data-starting-style:opacity-0" />
        <Base.Popup
          finalFocus={focusAfter && (() => focusAfter() ?? true)}
          className="fixed top-1/2 left-1/2 z-50 w-[min(30rem,calc(100vw-2rem))] -translate-x-1/2 -translate-y-1/2 rounded-xl border border-line bg-raised p-5 shadow-pop transition-opacity duration-150 outline-none data-ending-style:opacity-0 data-starting-style:opacity-0"
        >
          <Base.Title className="text-base font-semibold">{title}</Base.Title>
          <Base.Description render={<div />} className="mt-2 space-y-3 text-sm text-muted">
            {children}
          </Base.Description>
          <div className="mt-5 flex flex-wrap justify-end gap-2">{actions}</div>
        </Base.Popup>
      </Base.Portal>
    </Base.Root>
  );
}
