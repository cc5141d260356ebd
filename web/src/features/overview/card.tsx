import { useId, type ReactNode } from "react";
import { Link } from "react-router";
import { Skeleton } from "@/components/ui/skeleton";
import { cn } from "@/lib/cn";

export const box = "min-w-0 rounded-xl border border-line bg-surface p-4 shadow-card";
export const link = "text-accent underline decoration-accent/40 underline-offset-2 hover:decoration-accent";

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
    <div className={box}>
      <h2 className="flex items-baseline gap-2 text-[13px] text-muted">
        <span className="tabular text-2xl leading-8 font-semibold tracking-tight text-ink">{value}</span>
        <span className="font-medium text-ink">{title}</span>
        <span className="tabular ml-auto text-right">{note}</span>
      </h2>
      <div className="mt-2.5">{children}</div>
    </div>
  );
}

export function CardSkeleton() {
  return (
    <div className={cn(box, "min-h-36 space-y-4")}>
      <Skeleton className="h-6 w-24" />
      <Skeleton className="h-2 w-full" />
      <Skeleton className="h-4 w-3/4" />
    </div>
  );
}

/** What stands in place of a part of the page with rows. */
export function PanelSkeleton({ className }: { className?: string }) {
  return (
    <div className={cn(box, "min-h-110 space-y-6", className)}>
      <Skeleton className="h-4 w-24" />
      {Array.from({ length: 7 }, (_, index) => (
        <Skeleton key={index} className="h-6 w-full" />
      ))}
    </div>
  );
}

/** A part of the page with a heading, and what stands at the end of its line. */
export function Panel({ title, aside, children }: { title: string; aside?: ReactNode; children: ReactNode }) {
  const id = useId();
  return (
    <section aria-labelledby={id} className={box}>
      <div className="flex items-baseline justify-between gap-3 text-[13px]">
        <h2 id={id} className="font-medium">
          {title}
        </h2>
        {aside}
      </div>
      {children}
    </section>
  );
}

const entry = "flex h-7 items-center gap-1.5 rounded-md px-2 text-[13px] transition-colors hover:bg-subtle";

function Entry({ label, value, swatch }: { label: string; value: string; swatch: string }) {
  return (
    <>
      <span aria-hidden className={cn("size-2 rounded-full", swatch)} />
      <span className="text-muted">{label}</span>
      <span className="tabular font-medium">{value}</span>
    </>
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
      className={cn(entry, pressed && "bg-accent-soft", value === "0" && !pressed && "max-sm:hidden")}
    >
      <Entry label={label} value={value} swatch={swatch} />
    </button>
  );
}

/** An entry of a legend that leads to the list of what it stands for. */
export function LegendLink({
  to,
  hint,
  ...what
}: {
  to: string;
  hint: string;
  label: string;
  value: string;
  swatch: string;
}) {
  return (
    <li>
      <Link to={to} title={hint} className={entry}>
        <Entry {...what} />
      </Link>
    </li>
  );
}

export function Legend({ label, children }: { label: string; children: ReactNode }) {
  return (
    <ul aria-label={label} className="-mx-2 mt-2 flex flex-wrap gap-x-0.5">
      {children}
    </ul>
  );
}
