import { cn } from "@/lib/cn";
import { position, type Span } from "./timeline";

interface Layer {
  spans: Span[];
  className: string;
}

/** Times between two times, as bars. It shows the same as a text beside it. */
export function SpanBar({ layers, start, now }: { layers: Layer[]; start: number; now: number }) {
  return (
    <div aria-hidden className="relative h-5 min-w-0 rounded bg-subtle">
      {layers.flatMap(({ spans, className }, index) =>
        spans.map((span) => {
          const { left, width } = position(span, start, now);
          return (
            <span
              key={`${index} ${span.from}`}
              className={cn("absolute rounded-sm", className)}
              style={{ left: `${left}%`, width: `${width}%` }}
            />
          );
        }),
      )}
    </div>
  );
}
