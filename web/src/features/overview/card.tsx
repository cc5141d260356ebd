import type { ReactNode } from "react";
import { cn } from "@/lib/cn";

export function Card({
  title,
  value,
  note,
  children,
}: {
  title: string;
  value: string;
  note: string;
  children: ReactNode;
}) {
  return (
    <div className="rounded-xl border border-line bg-surface p-4 shadow-card">
      <h2 className="flex items-baseline gap-2 text-[13px] text-muted">
        <span className="tabular text-2xl leading-8 font-semibold tracking-tight text-ink">{value}</span>
        <span className="font-medium text-ink">{title}</span>
        <span className="ml-auto">{note}</span>
      </h2>
      <div className="mt-2.5">{children}</div>
    </div>
  );
}

/** An entry of a legend that filters the list by what it stands for. */
export function FilterButton({
  label,
  hint,
  value,
  swatch,
  pressed,
  onPress,
}: {
  label: string;
  hint: string;
  value: string;
  swatch: string;
  pressed: boolean;
  onPress: (pressed: boolean) => void;
}) {
  return (
    <button
      type="button"
      aria-pressed={pressed}
      title={pressed ? "Clear this filter" : hint}
      onClick={() => onPress(!pressed)}
      className={cn(
        "flex h-7 items-center gap-1.5 rounded-md px-2 text-[13px] transition-colors hover:bg-subtle",
        pressed && "bg-accent-soft",
        value === "0" && !pressed && "max-sm:hidden",
      )}
    >
      <span aria-hidden className={cn("size-2 rounded-full", swatch)} />
      <span className="text-muted">{label}</span>
      <span className="tabular font-medium">{value}</span>
    </button>
  );
}
