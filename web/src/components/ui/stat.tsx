import type { ReactNode } from "react";
import { cn } from "@/lib/cn";

/** A figure over its name, within a dl. */
export function Stat({
  label,
  title,
  danger = false,
  children,
}: {
  label: string;
  title: string;
  danger?: boolean;
  children: ReactNode;
}) {
  return (
    <div title={title} className="flex min-w-0 flex-col-reverse justify-end">
      <dt className="truncate text-[13px] text-muted">{label}</dt>
      <dd className={cn("tabular text-2xl leading-8 font-semibold tracking-tight", danger && "text-danger")}>
        {children}
      </dd>
    </div>
  );
}
