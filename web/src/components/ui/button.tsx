import { cva, type VariantProps } from "class-variance-authority";
import type { ComponentProps } from "react";
import { cn } from "@/lib/cn";

export const buttonVariants = cva(
  "inline-flex shrink-0 items-center justify-center gap-1.5 rounded-md font-medium whitespace-nowrap transition-colors select-none disabled:opacity-55 [&_svg]:size-4 [&_svg]:shrink-0",
  {
    variants: {
      variant: {
        primary: "bg-accent text-on-accent hover:bg-accent-strong",
        outline: "border border-line-strong bg-surface text-ink hover:bg-subtle",
        ghost: "text-muted hover:bg-subtle hover:text-ink",
        danger: "bg-danger text-white hover:bg-danger-strong dark:text-[#2a0606]",
        "danger-outline": "border border-danger-line bg-surface text-danger hover:bg-danger-soft",
      },
      size: {
        sm: "h-7 px-2 text-[13px]",
        md: "h-9 px-3 text-sm",
        icon: "size-9",
        "icon-sm": "size-7",
      },
    },
    defaultVariants: { variant: "outline", size: "md" },
  },
);

export type ButtonVariants = VariantProps<typeof buttonVariants>;

export function Button({ variant, size, className, ...props }: ComponentProps<"button"> & ButtonVariants) {
  return <button type="button" className={cn(buttonVariants({ variant, size }), className)} {...props} />;
}
