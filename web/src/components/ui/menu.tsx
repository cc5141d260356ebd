import { Menu as Base } from "@base-ui/react/menu";
import { Check } from "lucide-react";
import type { ComponentProps, ReactNode } from "react";
import { cn } from "@/lib/cn";
import { buttonVariants, type ButtonVariants } from "./button";

export const Menu = Base.Root;

export function MenuTrigger({
  variant,
  size,
  className,
  ...props
}: ComponentProps<typeof Base.Trigger> & ButtonVariants & { className?: string }) {
  return <Base.Trigger className={cn(buttonVariants({ variant, size }), className)} {...props} />;
}

export function MenuContent({ children, align = "end" }: { children: ReactNode; align?: "start" | "end" }) {
  return (
    <Base.Portal>
      <Base.Positioner sideOffset={6} align={align} className="z-50 outline-none">
        <Base.Popup className="min-w-44 rounded-lg border border-line bg-raised p-1 text-sm shadow-pop outline-none">
          {children}
        </Base.Popup>
      </Base.Positioner>
    </Base.Portal>
  );
}

const item =
  "flex min-h-8 items-center gap-2.5 rounded-md px-2 py-1 text-ink outline-none select-none data-disabled:opacity-55 data-highlighted:bg-subtle [&_svg]:size-4 [&_svg]:text-muted";

export function MenuItem({ className, ...props }: ComponentProps<typeof Base.Item> & { className?: string }) {
  return <Base.Item className={cn(item, className)} {...props} />;
}

export const MenuSeparator = () => <Base.Separator className="my-1 h-px bg-line" />;

/** A choice among several, beside others; the menu stays open. */
export function MenuCheckboxItem({
  className,
  children,
  ...props
}: ComponentProps<typeof Base.CheckboxItem> & { className?: string }) {
  return (
    <Base.CheckboxItem className={cn(item, className)} {...props}>
      <span className="flex size-4 shrink-0 items-center justify-center rounded-sm border border-line-strong">
        <Base.CheckboxItemIndicator className="flex text-accent">
          <Check className="size-3.5 text-accent!" strokeWidth={3} aria-hidden />
        </Base.CheckboxItemIndicator>
      </span>
      {children}
    </Base.CheckboxItem>
  );
}

export const MenuRadioGroup = Base.RadioGroup;

export function MenuRadioItem({
  className,
  ...props
}: ComponentProps<typeof Base.RadioItem> & { className?: string }) {
  return <Base.RadioItem closeOnClick className={cn(item, className)} {...props} />;
}

export const MenuRadioIndicator = Base.RadioItemIndicator;
