import { Popover as Base } from "@base-ui/react/popover";
import type { ComponentProps, ReactNode } from "react";
import { cn } from "@/lib/cn";
import { buttonVariants, type ButtonVariants } from "./button";

export const Popover = Base.Root;

export function PopoverTrigger({
  variant,
  size,
  className,
  ...props
}: ComponentProps<typeof Base.Trigger> & ButtonVariants & { className?: string }) {
  return <Base.Trigger className={cn(buttonVariants({ variant, size }), className)} {...props} />;
}

/** A panel beside its trigger, with a title. */
export function PopoverContent({ title, children }: { title: ReactNode; children: ReactNode }) {
  return (
    <Base.Portal>
      <Base.Positioner sideOffset={6} align="end" collisionPadding={8} className="z-50 outline-none">
        <Base.Popup className="max-h-(--available-height) w-96 max-w-(--available-width) overflow-y-auto rounded-lg border border-line bg-raised text-sm shadow-pop outline-none">
          <Base.Title className="untrusted px-4 pt-3 font-semibold">{title}</Base.Title>
          {children}
        </Base.Popup>
      </Base.Positioner>
    </Base.Portal>
  );
}
