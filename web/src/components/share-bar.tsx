import { cn } from "@/lib/cn";

interface Part {
  name: string;
  count: number;
  /** The class of its background. */
  bar: string;
}

/** The shares of parts of a whole as one bar. */
export function ShareBar({ parts, label, className }: { parts: Part[]; label: string; className?: string }) {
  const total = parts.reduce((sum, { count }) => sum + count, 0);
  return (
    <span
      role="img"
      aria-label={label}
      className={cn("flex h-2 gap-px overflow-hidden rounded-full bg-subtle", className)}
    >
      {parts.map(
        ({ name, count, bar }) =>
          count > 0 && (
            <span
              key={name}
              className={cn("min-w-0.5", bar)}
              style={{ width: `${(100 * count) / total}%` }}
            />
          ),
      )}
    </span>
  );
}
