import { Dialog as Base } from "@base-ui/react/dialog";
import { X } from "lucide-react";
import type { ReactNode } from "react";
import { Button } from "./button";

interface Props {
  open: boolean;
  onOpenChange: (open: boolean) => void;
  title: string;
  children: ReactNode;
  actions: ReactNode;
}

/** A dialog with a form, whose content scrolls between the title and the actions. */
export function Dialog({ open, onOpenChange, title, children, actions }: Props) {
  return (
    <Base.Root open={open} onOpenChange={onOpenChange}>
      <Base.Portal>
        <Base.Backdrop className="fixed inset-0 z-40 bg-black/45 transition-opacity duration-150 data-ending-style:opacity-0 data-starting-style:opacity-0" />
        <Base.Popup className="fixed top-1/2 left-1/2 z-50 flex max-h-[calc(100dvh-2rem)] w-[min(46rem,calc(100vw-2rem))] -translate-x-1/2 -translate-y-1/2 flex-col rounded-xl border border-line bg-raised shadow-pop transition-opacity duration-150 outline-none data-ending-style:opacity-0 data-starting-style:opacity-0">
          <div className="flex items-center justify-between gap-3 border-b border-line py-3 pr-3 pl-5">
            <Base.Title className="untrusted min-w-0 text-base font-semibold">{title}</Base.Title>
            <Base.Close render={<Button variant="ghost" size="icon-sm" aria-label="Close" />}>
              <X aria-hidden />
            </Base.Close>
          </div>
          <div className="min-h-0 flex-1 overflow-y-auto px-5 py-4">{children}</div>
          <div className="flex flex-wrap justify-end gap-2 border-t border-line px-5 py-3">{actions}</div>
        </Base.Popup>
      </Base.Portal>
    </Base.Root>
  );
}
